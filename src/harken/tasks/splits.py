"""A split of a corpus by its name, as `harken evaluate --split` and `harken inspect --split` give it.

>>> find_split("news", {"valid": [1], "test": [2]}, None)
[2]
>>> find_split("news", {"valid": [1], "test-2016": [2]}, "test")     # its only test
[2]
>>> find_split("news", {"valid": [1]}, None, default=("test", "valid"))
[1]
>>> find_split("news", {"valid": [1], "test": [2]}, "dev")
Traceback (most recent call last):
harken.errors.UserError: news has no split 'dev'; choose --split valid or test, or give files
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from harken.errors import UserError

T = TypeVar("T")


def find_split(
    corpus: str, splits: Mapping[str, T], name: str | None, *, default: Sequence[str] = ("test",), remedy: str = "files"
) -> T:
    """The split of that name; without one, the first of `default` that there is.

    A corpus with a single test, whatever its name, has that as "test".

    Args:
        corpus: its name, for the error.
        splits: all of them by name.
        remedy: what may be given in place of a split.

    Raises:
        UserError: there is no such split.
    """
    tests = [known for known in splits if known.startswith("test")]
    for split in default if name is None else (name,):
        if split in splits:
            return splits[split]
        if split == "test" and len(tests) == 1:
            return splits[tests[0]]
    missing = name or default[0]
    raise UserError(f"{corpus} has no split {missing!r}; choose --split {' or '.join(splits)}, or give {remedy}")
