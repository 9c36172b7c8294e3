"""The inputs X: texts, arrays (N, T) and (N, T, C), or lists of arrays of any lengths.

    ["a text", ...]                   texts; also a data frame or another table with one column of them
    array (N, T), data frame          N sequences of T steps with one channel: what scikit-learn calls features
    array (N, T, C)                   C channels
    [array (T1, C), array (T2, C)]    of different lengths; (T,) is one channel

>>> kind, examples, width = sequences([[1.0, 2.0, 3.0], [4.0]])
>>> kind, [example.shape for example in examples], width
('signal', [(3, 1), (1, 1)], 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from harken.data.io.table import list_of, read_table


def is_tabular(data: Any) -> bool:
    """Whether scikit-learn's own checks are for it: everything but texts, three dimensions, and ragged lists."""
    if isinstance(data, np.ndarray):
        return (
            data.ndim < 3 and not (data.ndim == 1 and data.dtype == object and len(data) > 0) and data.dtype.kind != "U"
        )
    if not isinstance(data, list | tuple) or not len(data):
        return not _has_texts(data)
    if any(isinstance(example, str) for example in data):
        return False
    shapes = {np.shape(example) for example in data}
    return len(shapes) == 1 and len(next(iter(shapes))) < 2


def sequences(data: Any) -> tuple[str, list[Any], int]:
    """Kind, examples and channels of what is no plain table.

    Raises:
        ValueError: examples of several kinds, or with no finite number.
    """
    examples = list(data)
    if not examples:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    if all(isinstance(example, str) for example in examples):
        return "text", examples, 1
    if any(isinstance(example, str) for example in examples):
        raise ValueError("X holds texts here and arrays there; give one kind")
    frames = []
    for number, example in enumerate(examples):
        values = np.asarray(example, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
            raise ValueError(f"X[{number}] has shape {values.shape} or a value that is NaN or infinity; give (T, C)")
        frames.append(values)
    widths = sorted({values.shape[1] for values in frames})
    if len(widths) > 1:
        raise ValueError(f"the sequences of X have {widths[0]} to {widths[-1]} channels; give the same to all")
    return "signal", frames, widths[0]


def read(estimator: Any, data: Any, *, reset: bool, samples: int = 1) -> tuple[str, list[Any]]:
    """Kind and examples of X; on `reset` the estimator notes their number of features, later it is compared.

    Raises:
        ValueError: as scikit-learn says it.
    """
    data = text_column(data)
    if _has_texts(data):
        data = [str(text) if isinstance(text, str) else text for text in data]
    if is_tabular(data):
        table = validate_data(estimator, data, dtype=np.float64, reset=reset, ensure_min_samples=samples)
        return "signal", [row[:, None] for row in table]
    kind, examples, width = sequences(data)
    if len(examples) < samples:
        raise ValueError(f"Found array with {len(examples)} sample(s) while a minimum of {samples} is required.")
    if reset:
        estimator.n_features_in_ = width
    elif width != estimator.n_features_in_:
        name = type(estimator).__name__
        raise ValueError(
            f"X has {width} features, but {name} is expecting {estimator.n_features_in_} features as input"
        )
    return kind, examples


def text_column(data: Any) -> Any:
    """The texts of a table with one column of texts; anything else as it is.

    Raises:
        TypeError: a sparse matrix, which holds no texts.
        ValueError: several columns of texts, or a single text.
    """
    if isinstance(data, str):
        raise ValueError("X is a single text; give a list of texts")
    if hasattr(data, "toarray"):
        raise TypeError("Sparse input is not supported; pass X.toarray(), or a list of texts")
    if isinstance(data, Mapping) or hasattr(data, "column_names"):  # a dict of columns, pyarrow, datasets.Dataset
        columns = read_table(data)
        values, names = np.array(list(zip(*columns.values(), strict=True)), dtype=object), list(columns)
        if not any(isinstance(cell, str) for cell in values[:1].flat):
            return values
    elif len(getattr(data, "shape", ())) != 2:
        return list_of(data) if hasattr(data, "to_pylist") else data
    else:
        values = np.asarray(data)
        names = [str(name) for name in getattr(data, "columns", range(values.shape[1]))]
    if values.dtype.kind not in "OUST" or not values.size or not any(isinstance(cell, str) for cell in values[0]):
        return data
    if values.shape[1] != 1:
        shown = ", ".join(names)
        raise ValueError(f"Expected one column of texts, got {values.shape[1]} columns ({shown}) instead; choose one")
    return [str(text) if isinstance(text, str) else text for text in values[:, 0]]


def _has_texts(data: Any) -> bool:
    """Whether this is a column of texts of pandas, polars or numpy."""
    return len(getattr(data, "shape", ())) == 1 and len(data) > 0 and isinstance(next(iter(data)), str)


def rows_alike(data: Sequence[Any], target: Sequence[Any]) -> None:
    """Raises: ValueError where X and y have different lengths."""
    if len(data) != len(target):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: [{len(data)}, {len(target)}]")
