"""The samples that recipes are inferred from: the beginning of a text file, or of a table (`harken.data.io.table`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harken.data.io.columns import AUDIO, IMAGES, Column, Table
from harken.data.io.files import readable
from harken.data.io.table import MOST_CHARACTERS, MOST_ROWS, open_decoded, read_sample
from harken.errors import UserError

MOST_VALUES = 10  # labels that a report shows

__all__ = [
    "AUDIO",
    "IMAGES",
    "MOST_ROWS",
    "Column",
    "Table",
    "format_facts",
    "format_labels",
    "length_facts",
    "read_sample",
    "read_text",
]


def length_facts(lengths: Sequence[float]) -> dict[str, float]:
    """The median, the 95th percentile and the largest.

    >>> length_facts([3, 1, 2])
    {'median': 2, '95%': 2, 'most': 3}
    """
    counts = sorted(lengths)
    return {"median": counts[len(counts) // 2], "95%": counts[int(0.95 * (len(counts) - 1))], "most": counts[-1]}


def format_facts(facts: Mapping[str, float]) -> str:
    """Names and numbers in a row: "median 2, 95% 3, most 3"."""
    return ", ".join(f"{name} {value:,.0f}" for name, value in facts.items())


def format_labels(counts: Mapping[str, int]) -> str:
    """The most frequent labels, which come first, with their numbers, and the share of the first.

    >>> format_labels({"good": 30, "bad": 10})
    'good 30, bad 10; the most frequent has a share of 75.0%'
    """
    shown = ", ".join(f"{value} {count:,}" for value, count in list(counts.items())[:MOST_VALUES])
    more = f" and {len(counts) - MOST_VALUES} more" if len(counts) > MOST_VALUES else ""
    share = max(counts.values()) / sum(counts.values())
    return f"{shown}{more}; the most frequent has a share of {share:.1%}"


def read_text(path: Path) -> tuple[str, str]:
    """The beginning of a file, cut at a line, and its encoding.

    Raises:
        UserError: it cannot be read, is empty, or holds no text.
    """
    stream, encoding = open_decoded(path, warn=False)
    with stream, readable(str(path), 0):
        content = stream.read(MOST_CHARACTERS)
    if len(content) == MOST_CHARACTERS:
        content = content[: content.rfind(b"\n") + 1]
    if not content.strip():
        raise UserError(f"{path} is empty; give a file with at least a few examples")
    if b"\0" in content[:100_000]:
        raise UserError(f"{path} is no text file; give CSV, TSV, JSONL, CoNLL-U or plain text, or write a recipe")
    return content.decode("utf-8-sig", "replace"), encoding
