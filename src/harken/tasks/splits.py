"""A split of a corpus by its name, as `harken evaluate --split` and `harken inspect --split` give it.

>>> find_split("news", ["valid", "test"], None)
'test'
>>> find_split("news", ["valid", "test-2016"], "test")     # its only test
'test-2016'
>>> find_split("news", ["valid"], None)
'valid'
>>> find_split("news", ["valid", "test"], "dev")
Traceback (most recent call last):
harken.errors.UserError: news has no split 'dev'; choose --split valid or test, or give files
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harken.errors import UserError

USES = {  # of a split in training
    "train": "the model was trained on it",
    "valid": "it chose the weights, so new examples score lower",
}


def find_split(
    corpus: str,
    splits: Collection[str],
    name: str | None,
    *,
    default: Sequence[str] = ("test", "valid"),
    remedy: str = "files",
) -> str:
    """The name of a split; without one, the first of `default` that there is.

    A corpus with a single test, whatever its name, has that as "test".

    Args:
        corpus: its name, for the error.
        splits: the names of all of them.
        remedy: what may be given in place of a split.

    Raises:
        UserError: there is no such split.
    """
    tests = [known for known in splits if known.startswith("test")]
    for split in default if name is None else (name,):
        if split in splits:
            return split
        if split == "test" and len(tests) == 1:
            return tests[0]
    missing = name or default[0]
    raise UserError(f"{corpus} has no split {missing!r}; choose --split {' or '.join(splits)}, or give {remedy}")


def describe_split(data: Any, name: str, at_end: bool = False, count: float = math.inf) -> dict[str, str]:
    """The name of a split, where its examples come from by the `[data]` table of a recipe, and its use in training.

    Args:
        at_end: whether parts are cut off the end of the data, and not drawn.
        count: examples in it, which may be fewer than the number that the recipe asks for.

    >>> from harken.data.text.examples_config import ExamplesConfig
    >>> describe_split(ExamplesConfig(train="data/news.csv", test_size=0.1), "test")["source"]
    '10% held out of news.csv by data.seed 1'
    >>> describe_split(ExamplesConfig(train="news.csv", test="test.csv"), "test")["source"]
    'test.csv'
    >>> describe_split(ExamplesConfig(train="news.csv", valid_size=200), "valid", count=151)["source"]
    '151 held out of news.csv by data.seed 1'
    """
    values = {key: getattr(data, key) for key in type(data).model_fields} if isinstance(data, BaseModel) else {}
    source = _source(values, name, at_end, count) if values else "of its corpus"
    return {"name": name, "source": source, "use": USES.get(name, "not used in training")}


def _source(data: Mapping[str, Any], name: str, at_end: bool, count: float) -> str:
    if corpus := data.get("corpus"):
        return f"of the corpus {corpus}"
    tests = data["test"] if isinstance(data.get("test"), Mapping) else {}  # several, by name
    if own := {**data, **tests}.get(name):
        return ", ".join(_files(own))
    if data.get("dir") and not data.get("train"):
        return f"of {Path(data['dir']).name}"
    train = ", ".join(_files(data.get("train") or data.get("source")))
    size, how = data.get(f"{name}_size"), " at its end" if at_end else f" by data.seed {data.get('seed')}"
    amount = "a part" if size is None else f"{min(size, count):,}" if isinstance(size, int) else f"{100 * size:.3g}%"
    return f"{amount} held out{f' of {train}' * bool(train)}{how}"


def _files(value: Any) -> list[str]:
    """The names of the files in a value of `[data]`: a path, several, or a table of them."""
    if isinstance(value, BaseModel):
        value = getattr(value, "files", None) or getattr(value, "source", None)
    values = value if isinstance(value, list | tuple) else [value]
    return [Path(str(item)).name for item in values if item]
