"""The test part of an inferred recipe: held out of the training examples wherever there are enough of them.

>>> share_of(120), share_of(200), share_of(3000), share_of(50_000)
(None, 0.25, 0.1, 0.02)
"""

from __future__ import annotations

from itertools import groupby, islice
from pathlib import Path
from typing import Any

from harken.data.io.files import ending, open_bytes
from harken.recipe.infer.inferred import Inferred
from harken.registry import recipe_class

ENOUGH = 200  # examples from which on some are held out
LEAST, MOST, SHARE = 50, 1000, 0.1  # examples of a test: a tenth, within these bounds
MAX_LINES = 200_000  # of a file that are counted
BINARY, BYTES = (".npz", ".npy", ".parquet", ".xlsx"), 200  # files without lines, and a guess at an example's size


def share_of(examples: int) -> float | None:
    """The share of so many examples that is a test; None where they are too few."""
    return None if examples < ENOUGH else float(f"{max(LEAST, min(MOST, SHARE * examples)) / examples:.2g}")


def hold_out_test(inferred: Inferred) -> Inferred:
    """Set data.test_size of a recipe whose data has no test; a share, as lines are not always examples.

    The test of NAME_TRAIN.ts, as the archives of UCR and UEA have it, is NAME_TEST.ts beside it.
    """
    data = inferred.data
    train = Path(str(data.get("train")))
    test = train.with_name(train.name.replace("_TRAIN.", "_TEST."))
    if data.get("kind") == "signal" and "test" not in data and test != train and test.is_file():
        data["test"] = str(test)
    recipe = recipe_class(inferred.task)
    known = recipe.data_fields()
    if "test_size" not in known or recipe.cuts_at_end or any(data.get(key) for key in ("test", "dir", "corpus")):
        return inferred
    has_sentences = inferred.unit == "words"
    share = share_of(_count_converted(inferred) if inferred.conversions else _count(data, has_sentences))
    if share is not None:
        data["test_size"] = share
    has_labels = recipe.target_column is not None and recipe.target_column.kinds[0] == "label"
    if has_labels and "stratify" in known and not data.get("valid"):
        data["stratify"] = True
    return inferred


def _count_converted(inferred: Inferred) -> int:
    """The different lines of the file that the data is converted to, up to `MAX_LINES`."""
    conversion = next(iter(inferred.conversions.values()))
    return len({hash(line) for line in islice(conversion.lines(), MAX_LINES)})


def _count(data: dict[str, Any], has_sentences: bool) -> int:
    """The different lines of the training files, up to `MAX_LINES`; or sentences, which end with blank lines."""
    given = data.get("train") or data.get("source")
    path = Path(str(given.get("source") if isinstance(given, dict) else given))
    files = [file for file in (sorted(path.iterdir()) if path.is_dir() else [path]) if file.is_file()]
    if any(ending(file) in BINARY for file in files):
        return sum(file.stat().st_size for file in files) // BYTES
    examples: set[int] = set()  # hashes: equal examples are never held out apart
    for file in files:
        with open_bytes(file) as stream:
            lines = islice(stream, MAX_LINES)
            groups = (
                groupby(lines, key=lambda line: bool(line.strip()))
                if has_sentences
                else ((True, [line]) for line in lines)
            )
            examples.update(hash(tuple(group)) for is_text, group in groups if is_text)
    return len(examples)
