"""Single lines of text that are not held in memory: running text in order, or lines each by itself.

`harken.data.text.texts` and `harken.data.text.lines` are the references; parts, digests and messages equal theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harken.data.fingerprints import InputFile, fingerprint
from harken.data.prepared.blocks import Block
from harken.data.prepared.store import Store, key_of
from harken.data.prepared.stream import CODES, LEFT_OUT, SKIPPED, TRAIN, Columns, Scan, Scanned, Stream, write_index
from harken.data.splits import (
    BLOCK_ROWS,
    DIGEST_SPACE,
    DUPLICATES,
    cut_by_position,
    encode_row,
    normalise,
    row_digest,
)
from harken.errors import UserError


@dataclass(frozen=True)
class TextReader:
    """Every line of the files, as it is; see `harken.data.prepared.stream.Reader`."""

    files: tuple[tuple[str, ...], ...]
    max_line_bytes: int
    sides: int = 1

    def rows_in(self, block: Block) -> int:
        return block.size

    def columns(self, block: Block) -> Columns:
        return (block.lines(0),)

    def scan(self, block: Block) -> Scan:
        (lines,) = columns = self.columns(block)
        weights = np.fromiter((len(line) + 1 for line in lines), dtype=np.uint32, count=len(lines))
        is_text = np.fromiter((bool(line) and not line.isspace() for line in lines), dtype=np.uint64, count=len(lines))
        return Scan(np.ones(len(lines), dtype=bool), is_text, weights, {}, self.digest(columns))

    def finish(self, columns: Columns) -> Columns:
        return columns

    def digest(self, columns: Columns) -> int:
        return sum(row_digest(encode_row(text)) for text in columns[0]) % DIGEST_SPACE

    def row(self, texts: tuple[str, ...]) -> str:
        return texts[0]


@dataclass(frozen=True)
class LineReader(TextReader):
    """Lines of at least `min_words` words."""

    lowercase: bool = False
    min_words: int = 1

    def scan(self, block: Block) -> Scan:
        (lines,) = self.finish(self.columns(block))
        kept = np.fromiter((len(line.split()) >= self.min_words for line in lines), dtype=bool, count=len(lines))
        lines = [line for line, keep in zip(lines, kept, strict=True) if keep]
        return Scan(kept, line_keys(lines), np.zeros(0, np.uint32), {}, self.digest((lines,)))

    def finish(self, columns: Columns) -> Columns:
        return ([line.lower() for line in columns[0]],) if self.lowercase else columns


def line_keys(lines: Sequence[str]) -> np.ndarray:
    """(N,) 64 bits of the hash of what makes two lines equal."""
    found = [
        hashlib.blake2b(normalise(line).encode("utf-8", "surrogatepass"), digest_size=8).digest() for line in lines
    ]
    return np.frombuffer(b"".join(found), dtype=">u8").astype(np.uint64)


def stream_texts(root: Path, name: str, reader: TextReader, shares: tuple[float, float]) -> Stream:
    """Running text: the last lines are the test, those before them the validation text, by these shares of characters.

    Returns:
        A stream with the parts train, valid and test; the last two are empty where their share is 0.

    Raises:
        UserError: there is nothing to train on, or to validate on where it is to be split off.
    """

    def build(folder: Path) -> None:
        scanned = Scanned(reader, folder)
        first, second, last = cut_by_position(scanned.weights, shares)
        is_text = scanned.positions
        if not is_text[:first].any():
            raise UserError(f"{reader.files[0][0]} holds no text to train on; give a file with some words")
        if shares[0] and not is_text[first:second].any():
            raise UserError("there is no text to validate on; give data.valid, or a larger data.valid_size")
        with open(folder / CODES, "wb") as codes:
            for code, count in enumerate((first, second - first, last - second), start=TRAIN):
                np.full(count, code, dtype=np.uint8).tofile(codes)
        write_index(folder, reader, scanned, ("train", "valid", "test"), (), {})
        scanned.remove()

    store = Store(root)
    return Stream(reader, store, store.entry(f"{name}-{key_of('texts', _contents(reader.files), shares)}", build))


def stream_lines(root: Path, name: str, reader: LineReader, valid_size: float, held_out: Sequence[str]) -> Stream:
    """Lines each by itself.

    Args:
        valid_size: share of the lines, at the end, to validate on; 0: files are given for it.
        held_out: lines of validation and test files; training lines among them are left out.

    Raises:
        UserError: every training line is held out.
    """
    parts = ("train", "valid") if valid_size else ("train",)

    def build(folder: Path) -> None:
        scanned = Scanned(reader, folder)
        count = end = len(scanned.positions)
        if valid_size:
            end = max(0, min(cut_by_position(np.ones(count, np.uint8), [valid_size])[0], count - 1))
        known = np.unique(np.concatenate([line_keys(held_out), scanned.positions[end:]]))
        left_out = at = 0
        with open(folder / CODES, "wb") as codes:
            for start in range(0, len(scanned.kept), BLOCK_ROWS):
                kept = scanned.kept[start : start + BLOCK_ROWS]
                keys = scanned.positions[at : at + int(kept.sum())]
                found = np.where(np.isin(keys, known), LEFT_OUT, TRAIN).astype(np.uint8)
                found[max(0, end - at) :] = 2
                left_out += int((found == LEFT_OUT).sum())
                every = np.full(len(kept), SKIPPED, dtype=np.uint8)
                every[kept] = found
                every.tofile(codes)
                at += len(keys)
        if left_out and left_out == end:
            raise UserError("every training example is also in the validation or test data; give other files")
        write_index(folder, reader, scanned, parts, parts[1:], {DUPLICATES: left_out} if left_out else {})
        scanned.remove()

    store = Store(root)
    held_key = [len(held_out), f"{int(line_keys(held_out).sum(dtype=np.uint64)):x}"]
    settings = {"lowercase": reader.lowercase, "min_words": reader.min_words, "valid": valid_size, "held": held_key}
    return Stream(reader, store, store.entry(f"{name}-{key_of('lines', _contents(reader.files), settings)}", build))


def _contents(files: Sequence[tuple[str, ...]]) -> list[Mapping[str, str] | str]:
    found = [fingerprint(InputFile("", Path(path))) for group in files for path in group]
    return [one.sha256 for one in found if one is not None]
