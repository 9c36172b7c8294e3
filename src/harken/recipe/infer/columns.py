"""The samples that recipes are inferred from: the beginning of a text file, or of a table (`harken.data.io.table`)."""

from __future__ import annotations

from pathlib import Path

from harken.data.io.columns import AUDIO, IMAGES, Column, Table
from harken.data.io.files import readable
from harken.data.io.table import MOST_CHARACTERS, MOST_ROWS, open_decoded, read_sample
from harken.errors import UserError

__all__ = ["AUDIO", "IMAGES", "MOST_ROWS", "Column", "Table", "read_sample", "read_text"]


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
