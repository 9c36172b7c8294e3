"""Rows of text that are not held in memory: which line of the files belongs to which part, and passes over a part.

A `Reader` says how a block of lines becomes rows. One pass over the files scans every row (`scan`); from what it found,
`pairs.py`, `lines.py` and `texts.py` give each row a code, one byte in `codes.u8`:

    0              skipped: an empty side, too long ...
    1, 2, ...      its part: train, valid, test
    255            left out because it is also in the validation or test data

Later passes read the files again and choose rows by their codes, in several processes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from harken.data.prepared.blocks import Block, read_blocks
from harken.data.prepared.store import Store, note
from harken.data.splits import BLOCK_ROWS, DIGEST_SPACE, format_digest
from harken.worker_pool import ordered_map

CODES = "codes.u8"
INDEX = "index.json"
HELD_OUT = "held-out.jsonl"
SCANNED = ("kept", "positions", "weights", "keys")  # files that exist during a scan only
SKIPPED, TRAIN, LEFT_OUT = 0, 1, 255
MOST_COUNTED = 5_000_000  # different tokens; beyond, those seen once are forgotten
NOTE_EVERY = 10.0  # seconds

Columns = tuple[list[Any], ...]  # the texts (or other values that JSON can hold) of some rows, side by side
R = TypeVar("R")
C = TypeVar("C")


NOTHING = np.zeros(0, np.uint64)


class Scan(NamedTuple):
    """What one pass finds in a block."""

    kept: np.ndarray  # (rows,) bool
    positions: np.ndarray  # (kept,) uint64: the group of a row (`harken.data.splits`); of running text 0 where blank
    weights: np.ndarray  # (kept,) uint32: characters; empty: not needed
    skipped: dict[str, int]  # reason -> rows
    digest: int  # the sum over the kept rows
    keys: np.ndarray = NOTHING  # (kept,) uint64: what makes two rows equal, where that is not their group


class Reader(Protocol):
    """How lines become rows."""

    @property
    def files(self) -> Sequence[tuple[str, ...]]:
        """Aligned files side by side."""

    @property
    def max_line_bytes(self) -> int:
        """A longer line is refused."""

    @property
    def sides(self) -> int:
        """Texts of a row."""

    def rows_in(self, block: Block) -> int:
        """How many rows a block has, without reading them."""

    def columns(self, block: Block) -> Columns:
        """The texts of every row as they stand in the files."""

    def scan(self, block: Block) -> Scan:
        """Apply the rules for skipping; keys and digests of what is kept."""

    def finish(self, columns: Columns) -> Columns:
        """Chosen rows as they are used: in lower case, for one."""

    def digest(self, columns: Columns) -> int:
        """The sum of the digests of finished rows."""

    def row(self, texts: tuple[str, ...]) -> Any:
        """One finished row as an object."""


class Scanned:
    """The scan of all files, in arrays on the disk below a folder."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.folder, self.skipped, self.digest = folder, Counter[str](), 0
        paths = [folder / name for name in SCANNED]
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "wb")) for path in paths]
            blocks = _progress("reading the text", read_blocks(reader.files, reader.max_line_bytes))
            for scan in ordered_map(reader.scan, blocks):
                for file, array in zip(files, (scan.kept, scan.positions, scan.weights, scan.keys), strict=True):
                    array.tofile(file)
                self.skipped.update(scan.skipped)
                self.digest = (self.digest + scan.digest) % DIGEST_SPACE
        kinds = np.bool_, np.uint64, np.uint32, np.uint64
        self.kept, self.positions, self.weights, self.keys = map(mapped, paths, kinds)

    def remove(self) -> None:
        """Delete the arrays."""
        for name in SCANNED:
            (self.folder / name).unlink()


@dataclass
class Stream:
    """The rows of some files in parts, as a finished scan has found them."""

    reader: Reader
    store: Store
    folder: Path  # the entry of the scan

    def __post_init__(self) -> None:
        index = json.loads((self.folder / INDEX).read_text(encoding="utf-8"))
        self.parts: list[str] = index["parts"]  # the name of code i + 1
        self.counts: list[int] = index["counts"]
        self.digests: list[str] = index["digests"]
        self.skipped: dict[str, int] = index["skipped"]
        self.codes = mapped(self.folder / CODES, np.uint8)

    @property
    def name(self) -> str:
        """Of the entry."""
        return self.folder.name

    def held_out(self, part: str) -> list[Any]:
        """The rows of a small part, which are kept as text."""
        found = []
        with open(self.folder / HELD_OUT, encoding="utf-8") as lines:
            for line in lines:
                name, *texts = json.loads(line)
                if name == part:
                    found.append(self.reader.row(tuple(texts)))
        return found

    def map(self, code: int, what: str, function: Callable[[Columns, int], R]) -> Iterator[R]:
        """`function(columns, number of the first row in its part)` of every block that has rows of this code, in order.

        It runs in several processes, which inherit what it refers to.
        """
        reader = self.reader

        def run(item: tuple[Block, np.ndarray, int]) -> R:
            block, chosen, first = item
            return function(_choose(reader, block, chosen), first)

        return ordered_map(run, self._chosen(code, what))

    def _chosen(self, code: int, what: str) -> Iterator[tuple[Block, np.ndarray, int]]:
        first = 0
        for block, codes in _with_codes(self.reader, self.codes, what):
            chosen = codes == code
            count = int(chosen.sum())
            if count:
                yield block, chosen, first
            first += count


class StreamedRows(Sequence[Any]):
    """One part of a corpus, read from its files whenever it is gone through."""

    def __init__(self, stream: Stream, part: str) -> None:
        self.stream, self.part = stream, part
        self.code = stream.parts.index(part) + 1

    def __len__(self) -> int:
        return self.stream.counts[self.code - 1]

    def __iter__(self) -> Iterator[Any]:
        for columns in self.columns():
            yield from map(self.stream.reader.row, zip(*columns, strict=True))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        chosen = range(len(self))[index]
        wanted = np.asarray([chosen] if isinstance(chosen, int) else chosen, dtype=np.int64)
        order = np.argsort(wanted, kind="stable")
        sides = range(self.stream.reader.sides)
        texts = [self.texts(side).choose(wanted[order]) for side in sides]
        rows: list[Any] = [None] * len(wanted)
        for place, row in zip(order, zip(*texts, strict=True), strict=True):
            rows[place] = self.stream.reader.row(row)
        return rows[0] if isinstance(chosen, int) else rows

    def digest(self) -> str:
        """As `harken.data.splits.digest` of the rows."""
        return self.stream.digests[self.code - 1]

    def columns(self, what: str = "reading the text") -> Iterator[Columns]:
        """The texts of all rows, block by block."""
        return self.stream.map(self.code, what, lambda columns, first: columns)

    def texts(self, *sides: int) -> StreamedTexts:
        """The texts of one side; of several, one after another."""
        return StreamedTexts(self, sides)

    def counts(self, count: Callable[[Columns], Counter[C]], most: int = MOST_COUNTED) -> Counter[C]:
        """How often something occurs in all rows, in the order of first occurrence.

        Args:
            count: counts it in some rows.
            most: beyond as many different ones, those seen once so far are dropped.
        """
        total: Counter[C] = Counter()
        for counts in self.stream.map(self.code, "counting", lambda columns, first: count(columns)):
            total.update(counts)
            if len(total) > most:
                total = Counter({one: seen for one, seen in total.items() if seen > 1})
        return total


class StreamedTexts(Sequence[str]):
    """Texts of streamed rows: first all of one side, then all of the next."""

    def __init__(self, rows: StreamedRows, sides: Sequence[int]) -> None:
        self.rows, self.sides = rows, tuple(sides)

    def __len__(self) -> int:
        return len(self.rows) * len(self.sides)

    def __iter__(self) -> Iterator[str]:
        for side in self.sides:
            for columns in self.rows.columns():
                yield from columns[side]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> Any:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self.choose(np.array([chosen]))[0]
        ordered = self.choose(np.array(sorted(chosen), dtype=np.int64))
        return ordered if chosen.step > 0 else ordered[::-1]

    def __add__(self, other: StreamedTexts) -> StreamedTexts:
        return StreamedTexts(self.rows, (*self.sides, *other.sides))

    def choose(self, indices: np.ndarray) -> list[str]:
        """The texts of ascending indices, in one pass."""
        count, sides = max(len(self.rows), 1), self.sides
        wanted = [indices[indices // count == place] - place * count for place in range(len(sides))]

        def chosen(columns: Columns, first: int) -> list[list[str]]:
            found = []
            for rows, side in zip(wanted, sides, strict=True):
                begin, end = np.searchsorted(rows, (first, first + len(columns[side])))
                found.append([columns[side][row - first] for row in rows[begin:end]])
            return found

        found: list[list[str]] = [[] for _ in sides]
        for texts in self.rows.stream.map(self.rows.code, "choosing lines", chosen):
            for side, some in zip(found, texts, strict=True):
                side += some
        return list(chain.from_iterable(found))

    def token_counts(self, count: Callable[[Iterable[str]], Counter[str]], most: int = MOST_COUNTED) -> Counter[str]:
        """As `StreamedRows.counts`; `count` counts the tokens of some texts."""
        return self.rows.counts(lambda columns: count(chain.from_iterable(columns[side] for side in self.sides)), most)


def write_index(
    folder: Path, reader: Reader, scanned: Scanned, parts: Sequence[str], kept: Sequence[str], extra: dict[str, int]
) -> None:
    """Complete the entry of a scan whose codes are written: counts, digests, and the text of the parts in `kept`.

    Args:
        extra: reasons for what was skipped beside those of the scan.
    """
    codes = mapped(folder / CODES, np.uint8)
    counts = [0] * len(parts)
    for start in range(0, len(codes), BLOCK_ROWS):
        seen = np.bincount(codes[start : start + BLOCK_ROWS], minlength=LEFT_OUT + 1)[1 : len(parts) + 1]
        counts = [count + int(more) for count, more in zip(counts, seen, strict=True)]

    def run(item: tuple[Block, np.ndarray]) -> list[tuple[int, Columns, int]]:
        block, own = item
        found = []
        for code in np.unique(own[own > TRAIN]).tolist():
            columns = _choose(reader, block, own == code)
            is_text = code != LEFT_OUT and parts[code - 1] in kept
            found.append((code, columns if is_text else (), reader.digest(columns)))
        return found

    totals, apart = [0] * len(parts), 0  # of each part; of all rows that are not for training
    items = (item for item in _with_codes(reader, codes, "dividing the text") if bool((item[1] > TRAIN).any()))
    with open(folder / HELD_OUT, "wb") as lines:
        for found in ordered_map(run, items) if bool((codes > TRAIN).any()) else ():
            for code, columns, digest in found:
                apart += digest
                if code != LEFT_OUT:
                    totals[code - 1] += digest
                for texts in zip(*columns, strict=True):
                    lines.write(json_line([parts[code - 1], *texts]))
    totals[0] = scanned.digest - apart
    index = {
        "parts": list(parts),
        "counts": counts,
        "digests": [format_digest(count, total) for count, total in zip(counts, totals, strict=True)],
        "skipped": {**dict(scanned.skipped), **extra},
    }
    (folder / INDEX).write_text(json.dumps(index, ensure_ascii=False) + "\n", encoding="utf-8")


def json_line(value: Any) -> bytes:
    """A value as one line of JSON."""
    try:
        return f"{json.dumps(value, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON files may have
        return f"{json.dumps(value)}\n".encode()


def _choose(reader: Reader, block: Block, chosen: np.ndarray) -> Columns:
    """Some rows of a block, finished."""
    return reader.finish(tuple(list(compress(column, chosen)) for column in reader.columns(block)))


def _with_codes(reader: Reader, codes: np.ndarray, what: str) -> Iterator[tuple[Block, np.ndarray]]:
    """Every block with the codes of its rows."""
    start = 0
    for block in _progress(what, read_blocks(reader.files, reader.max_line_bytes)):
        stop = start + reader.rows_in(block)
        yield block, codes[start:stop]
        start = stop


def mapped(path: Path, kind: Any) -> np.ndarray:
    """An array on the disk, read where it is used."""
    return np.asarray(np.memmap(path, kind, "r")) if path.stat().st_size else np.zeros(0, kind)


def _progress(what: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks; the user is told every few seconds how far the pass is."""
    began = last = time.monotonic()
    lines = 0
    for block in blocks:
        yield block
        lines += block.size
        if time.monotonic() - last > NOTE_EVERY:
            last = time.monotonic()
            note(f"{what}: {lines:,} lines, {lines / (last - began):,.0f} a second")
