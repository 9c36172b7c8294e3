"""Rows of files in parts: training rows in memory or on disk, held-out parts in memory.

`read_parts` divides rows by their groups (`harken.data.splits`); where a folder for prepared data is given, the job's
own reader goes through the files once and its rows are written as lines of JSON, whatever the format of the files.
`divide_files` and `cut_files` scan files of lines as they are. Rows, parts, digests and messages do not depend on where
the rows lie.

>>> import tempfile
>>> kind = RowKind("words", lambda *texts: texts, lambda row: row[0])
>>> read = lambda skipped: iter([("go", "1"), ("run", "2"), ("stop", "1")])
>>> in_memory = read_parts(kind, read, {"valid": 1}, 1, [])
>>> on_disk = read_parts(kind, read, {"valid": 1}, 1, [], folder=Path(tempfile.mkdtemp()), name="demo")
>>> list(on_disk.train) == in_memory.train, on_disk.held == in_memory.held
(True, True)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.fingerprints import InputFile, fingerprint
from harken.data.prepared.blocks import Block
from harken.data.prepared.disk_rows import DiskRows, Stream
from harken.data.prepared.scan import LEFT_OUT, NOTHING, TRAIN, Reader, RowKind, Scan, Scanned, json_line
from harken.data.prepared.store import Store, key_of, note, prepared_folder
from harken.data.rows import Columns, Rows, values_of
from harken.data.splits import (
    DUPLICATES,
    Size,
    all_held_out,
    cut_by_position,
    group_position,
    split_groups,
    without_held_out,
)
from harken.errors import UserError

ROWS, SKIPPED = "rows.jsonl", "skipped.json"
LONGEST_ROW = 1 << 30  # bytes; the reader of the files has its own limit
NOTE_EVERY = 1_000_000  # rows

Read = Callable[[Counter[str]], Iterable[Any]]  # all rows; the counter is told what is skipped, and why


@dataclass
class Division:
    """Training rows, the parts that are held out of them, and how many rows were left out, by reason."""

    train: Sequence[Any]  # `Rows` where they are on disk
    held: dict[str, list[Any]]
    skipped: dict[str, int]


def read_parts(
    kind: RowKind,
    read: Read,
    sizes: Mapping[str, Size],
    seed: int,
    held_out: Sequence[Any],
    *,
    folder: Path | None = None,
    name: str = "",
    contents: Any = None,
) -> Division:
    """Divide rows into `train` and the parts of `sizes`.

    Args:
        held_out: rows that have validation and test files of their own; training rows equal to one of them, or to a
            row that is held out here, are left out.
        folder: of prepared data; None holds the rows in memory.
        name: of the data, for the names of entries in the folder.
        contents: all that decides the rows: digests of the files and how they are read (`file_digests`).

    Raises:
        UserError: as `read` raises, or a part would be empty.
    """
    if folder is None:
        skipped: Counter[str] = Counter()
        return divide(kind, list(read(skipped)), sizes, seed, held_out, skipped)
    store, key = Store(folder), key_of(kind.name, contents, seed if kind.groups else None)
    entry = store.entry(f"{name}-{key}", lambda path: _write_rows(path, kind, read, seed))
    with open(entry / ROWS, "rb") as lines:
        sides = len(json.loads(lines.readline() or b"[]"))
    files = ((str(entry / ROWS),),)
    reader = Reader(files, LONGEST_ROW, kind, _parse_rows, seed, sides, has_groups=kind.groups is not None)
    parts = divide_files(store, name, reader, key, sizes, held_out)
    parts.skipped = {**json.loads((entry / SKIPPED).read_text(encoding="utf-8")), **parts.skipped}
    return parts


def divide(
    kind: RowKind,
    rows: Sequence[Any],
    sizes: Mapping[str, Size],
    seed: int,
    held_out: Sequence[Any],
    skipped: Mapping[str, int] | None = None,
    reason: str = DUPLICATES,
) -> Division:
    """Divide rows in memory; see `read_parts`."""
    groups = map(kind.key, rows) if kind.groups is None else (group for _, group in kind.groups(rows))
    chosen = split_groups(list(groups), sizes, seed)
    parts = {name: [rows[row] for row in indices] for name, indices in chosen.items()}
    train = parts.pop("train")
    train, left_out = without_held_out(train, [held_out, *parts.values()], kind.key)
    counted = {reason: left_out[DUPLICATES]} if left_out else {}
    return Division(train, parts, {**(skipped or {}), **counted})


def divide_files(
    store: Store,
    name: str,
    reader: Reader,
    contents: Any,
    sizes: Mapping[str, Size],
    held_out: Sequence[Any],
    reason: str = DUPLICATES,
    check: Callable[[Scanned], None] = lambda scanned: None,
) -> Division:
    """Divide the lines of files that are read as they are; see `read_parts`.

    Args:
        check: looks at the finished scan and may refuse it.
    """
    held_keys, held = _held_keys(reader, held_out)

    def divide(scanned: Scanned) -> None:
        check(scanned)
        scanned.write_parts(reader, sizes, held_keys, reason)

    parts = [[part, repr(size)] for part, size in sizes.items()]
    stream = _scan(store, name, reader, divide, "parts", contents, reader.seed, parts, held)
    return Division(DiskRows(stream, "train"), {part: stream.held_out(part) for part in sizes}, stream.skipped)


def cut_files(
    store: Store, name: str, reader: Reader, settings: Any, share: float, held_out: Sequence[str]
) -> tuple[Rows[str], list[str], dict[str, int]]:
    """Lines each by itself: training lines, those of the share at the end, and what was left out.

    Args:
        settings: all that decides which lines are skipped and how they are finished.
        held_out: lines of validation and test files; training lines among them are left out.

    Raises:
        UserError: every training line is held out.
    """
    parts = ("train", "valid") if share else ("train",)
    held_keys, held = _held_keys(reader, held_out)

    def cut(scanned: Scanned) -> None:
        count = end = len(scanned.positions)
        if share:
            end = max(0, min(cut_by_position(np.ones(count, np.uint8), [share])[0], count - 1))
        known = np.unique(np.concatenate([held_keys, scanned.positions[end:]]))

        def code_of(start: int, stop: int) -> np.ndarray:
            codes = np.where(np.isin(scanned.positions[start:stop], known), LEFT_OUT, TRAIN).astype(np.uint8)
            codes[max(0, end - start) :] = TRAIN + 1
            return codes

        left_out = scanned.write_codes(code_of)[LEFT_OUT]
        if left_out and left_out == end:
            raise all_held_out()
        scanned.write_index(reader, parts, parts[1:], {DUPLICATES: left_out} if left_out else {})

    stream = _scan(store, name, reader, cut, "lines", _contents(reader), settings, share, held)
    return DiskRows(stream, "train"), stream.held_out("valid") if share else [], stream.skipped


class RunningText(Reader):
    """Every line of the files as it is, weighed by its characters."""

    def scan(self, block: Block) -> Scan:
        (lines,) = columns = self.parse(block)
        weights = np.fromiter((len(line) + 1 for line in lines), dtype=np.uint32, count=len(lines))
        is_text = np.fromiter((bool(line) and not line.isspace() for line in lines), dtype=np.uint64, count=len(lines))
        return Scan(np.ones(len(lines), dtype=bool), is_text, {}, self.digest(columns), weights)


def cut_text(store: Store, name: str, reader: RunningText, shares: tuple[float, float]) -> list[Rows[str]]:
    """Running text in order: training, validation and test text by these shares of characters, the last two at the end.

    Raises:
        UserError: there is nothing to train on, or to validate on where it is to be split off.
    """

    def cut(scanned: Scanned) -> None:
        first, second, _ = cut_by_position(scanned.weights, shares)
        if not scanned.positions[:first].any():
            raise UserError(f"{reader.files[0][0]} holds no text to train on; give a file with some words")
        if shares[0] and not scanned.positions[first:second].any():
            raise UserError("there is no text to validate on; give data.valid, or a larger data.valid_size")
        scanned.write_codes(
            lambda start, stop: (
                np.searchsorted([first, second], np.arange(start, stop), "right").astype(np.uint8) + np.uint8(TRAIN)
            )
        )
        scanned.write_index(reader, ("train", "valid", "test"), (), {})

    stream = _scan(store, name, reader, cut, "texts", _contents(reader), shares)
    return [DiskRows(stream, part) for part in stream.parts]


def _held_keys(reader: Reader, held_out: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    """The keys of rows that are held out, and what tells them from others in the key of an entry."""
    keys = reader.positions_of(held_out) if held_out else NOTHING
    return keys, [len(keys), f"{int(keys.sum(dtype=np.uint64)):x}"]


def _scan(store: Store, name: str, reader: Reader, write: Callable[[Scanned], None], *key: Any) -> Stream:
    """The rows of files in parts; `write` completes the entry of a new scan, which the key tells from others."""
    entry = store.entry(f"{name}-{key_of(*key)}", lambda folder: write(Scanned(reader, folder)))
    return Stream(reader, store, entry)


def line_reader(
    paths: Sequence[Path],
    max_line_bytes: int,
    key: Callable[[str], str],
    skip: Callable[[str], str] | None = None,
    finish: Callable[[Columns], Columns] = lambda columns: columns,
) -> Reader:
    """Lines of files, each a row."""
    files, kind = tuple((str(path),) for path in paths), RowKind("lines", str, key)
    return Reader(files, max_line_bytes, kind, _lines, skip=skip, finish=finish)


def running_text(paths: Sequence[Path], max_line_bytes: int) -> RunningText:
    """Lines of files in order."""
    return RunningText(tuple((str(path),) for path in paths), max_line_bytes, RowKind("text", str, str), _lines)


def _lines(block: Block) -> Columns:
    return (block.lines(0),)


def _write_rows(folder: Path, kind: RowKind, read: Read, seed: int) -> None:
    """Fill an entry with all rows, and what was skipped."""
    skipped: Counter[str] = Counter()
    if kind.groups is None:
        rows: Iterator[Sequence[Any]] = map(values_of, read(skipped))
    else:
        rows = ([*values_of(row), group_position(seed, group)] for row, group in kind.groups(read(skipped)))
    with open(folder / ROWS, "wb", buffering=1 << 20) as lines:
        for number, row in enumerate(rows, start=1):
            lines.write(json_line(row))
            if number % NOTE_EVERY == 0:
                note(f"reading the examples: {number:,}")
    (folder / SKIPPED).write_text(json.dumps(skipped, ensure_ascii=False), encoding="utf-8")


def _parse_rows(block: Block) -> Columns:
    rows = json.loads(b"[" + block.texts[0].removesuffix(b"\n").replace(b"\n", b",") + b"]")
    return tuple(map(list, zip(*rows, strict=True)))


def file_digests(paths: Sequence[str | Path]) -> list[list[str | None]]:
    """Name and digest of every file or folder."""
    digests = [(Path(path), fingerprint(InputFile("", Path(path)))) for path in paths]
    return [[path.name, None if file is None else file.sha256] for path, file in digests]


def _contents(reader: Reader) -> list[list[str | None]]:
    return file_digests([path for group in reader.files for path in group])


def folder_for(chosen: str | None, paths: Sequence[Path]) -> Path | None:
    """The folder that `harken.data.prepared.store.prepared_folder` gives, where folders count by the files in them."""
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return prepared_folder(chosen, files)
