"""What every `check.py` needs: the size of a text from samples of its file, and of a network before it is trained."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from harken.data.io.files import COMPRESSIONS, MAX_LINE_BYTES, read_lines

TOKENS_PER_WORD = {"bpe": 1.4, "unigram": 1.4, "word": 1.0, "character": 6.0}
PHRASE = 8.0  # words of a sentence of the phrasebook corpus
FIRST_LINES = 1000  # read as training reads them, so that their errors are found
SAMPLES, SAMPLE_BYTES = 32, 1 << 15  # of larger files
COMPRESSION = 3  # of text by gzip


class TextSize(NamedTuple):
    """Lines and words of a file; estimates where it is large."""

    lines: int
    words: int


def text_size(path: Path, max_line_bytes: int = MAX_LINE_BYTES, is_counted: Callable[[str], bool] = bool) -> TextSize:
    """Lines and words of a text file: counted in a short one, else estimated from samples all over the file.

    Args:
        path: plain or compressed; of a compressed file the first lines are the sample.
        max_line_bytes: longer lines are refused, as in training.
        is_counted: which lines count; all that are not empty where not given.

    Raises:
        UserError: the file cannot be read, or its first lines are not UTF-8.
    """
    lines = list(islice(read_lines(path, max_line_bytes), FIRST_LINES))
    size = path.stat().st_size
    if len(lines) < FIRST_LINES:
        sample, scale = lines, 1.0
    elif path.suffix in COMPRESSIONS:
        sample, scale = lines, COMPRESSION * size / sum(len(line.encode()) + 1 for line in lines)
    else:
        sample = _sample(path, size)
        scale = max(1.0, size / sum(len(line.encode()) + 1 for line in sample))
    counted = [line for line in sample if is_counted(line)]
    return TextSize(round(scale * len(counted)), round(scale * sum(len(line.split()) for line in counted)))


def _sample(path: Path, size: int) -> list[str]:
    """Whole lines from evenly spaced places of a file, as files are often sorted by length."""
    lines: list[str] = []
    with path.open("rb") as stream:
        for number in range(SAMPLES):
            stream.seek(number * max(0, size - SAMPLE_BYTES) // SAMPLES)
            if number:
                stream.readline()  # the rest of a line
            lines += [line.decode(errors="replace") for line in stream.read(SAMPLE_BYTES).split(b"\n")[:-1]]
    return lines


def vocabulary_notes(tokenizer: Any) -> list[str]:
    """That a vocabulary of words or characters may be smaller than its limit."""
    if tokenizer.kind not in ("word", "character"):
        return []
    return [f"the vocabulary may have fewer tokens than tokenizer.size {tokenizer.size:,}: sizes are upper bounds"]


def first_and_more(paths: list[Path]) -> str:
    """The first of some files, and how many more there are."""
    return str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
