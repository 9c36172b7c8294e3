"""Rows that are not held in memory: read from their files whenever they are gone through, their ids memory-mapped.

`encode` runs a function over the rows of a part in several processes and appends what it gives to files (uint16 or
uint32 ids, int64 offsets), so memory does not depend on the number of rows. All processes that map the files share one
copy in the page cache. What is computed from the rows is stored beside them (`harken.data.prepared.store`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harken.data.io.token_rows import TokenRows
from harken.data.prepared.blocks import Block
from harken.data.prepared.scan import CODES, HELD_OUT, INDEX, Reader, hashes, mapped, with_codes
from harken.data.prepared.store import Store, key_of, note, size_of
from harken.data.rows import NUMBER, Columns, Encoded, Encoding, References, Row, Rows
from harken.data.tokenizers.base import Tokenizer, load_tokenizers, save_tokenizers
from harken.data.tokenizers.marks import MarkedTokenizer
from harken.machine import available_memory
from harken.worker_pool import ordered_map

READ_AHEAD_SHARE = 8  # files of up to an eighth of the memory are read ahead
RECENT = 100_000  # numbers that wait to be sorted
VALUE = "value.json"
R = TypeVar("R")


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

    @cached_property
    def codes(self) -> np.ndarray:
        """(rows,) the part of every row."""
        return mapped(self.folder / CODES, np.uint8)

    def held_out(self, part: str) -> list[Any]:
        """The rows of a small part, which are stored as text."""
        rows = []
        with open(self.folder / HELD_OUT, encoding="utf-8") as lines:
            for line in lines:
                name, *values = json.loads(line)
                if name == part:
                    rows.append(self.reader.row(values))
        return rows

    def map(self, code: int, what: str, function: Callable[[Columns, int], R]) -> Iterator[R]:
        """`function(columns, number of the first row in its part)` of every block that has rows of this code, in order.

        It runs in several processes, which inherit what it refers to.
        """

        def run(item: tuple[Block, np.ndarray, int]) -> R:
            block, chosen, first = item
            return function(self.reader.choose(block, chosen), first)

        return ordered_map(run, self._chosen(code, what))

    def _chosen(self, code: int, what: str) -> Iterator[tuple[Block, np.ndarray, int]]:
        first = 0
        for block, codes in with_codes(self.reader, self.codes, what):
            chosen = codes == code
            count = int(chosen.sum())
            if count:
                yield block, chosen, first
            first += count


class _OnDisk(Rows[Row]):
    """Rows of one part of a stream, or some of their columns."""

    is_in_memory = False
    stream: Stream
    part: str

    @property
    def code(self) -> int:
        """The code of the part in the stream."""
        return self.stream.parts.index(self.part) + 1

    def entry(self, *key: Any) -> str:
        """The name of what is made of the part under a key."""
        return f"{self.stream.folder.name}-{key_of(*key)}"

    def find(self, condition: Callable[[Row], bool]) -> int | None:
        return 0 if len(self) and condition(next(iter(self))) else None

    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        def build(folder: Path) -> None:
            (folder / VALUE).write_text(json.dumps(compute()), encoding="utf-8")

        entry = self.stream.store.entry(self.entry("value", self.part, key), build)
        return json.loads((entry / VALUE).read_text(encoding="utf-8"))

    def cached_tokenizers(
        self, settings: Any, learn: Callable[[], tuple[Tokenizer, Tokenizer]]
    ) -> tuple[Tokenizer, Tokenizer]:
        name = self.entry("tokenizers", self.part, settings)
        return load_tokenizers(self.stream.store.entry(name, lambda folder: save_tokenizers(folder, *learn())))

    def _encode(self, encoding: Encoding) -> list[TokenRows]:
        types, function, key, prefix, empty = encoding

        def build(folder: Path) -> None:
            files = [Path(path) for group in self.stream.reader.files for path in group]
            self.stream.store.require_space(2 * sum(path.stat().st_size for path in files))

            def run(columns: Columns) -> list[_Block]:
                return [_Block.of(part, dtype) for part, dtype in zip(function(columns), types.values(), strict=True)]

            _write(folder, encoding, self.map(run, "encoding the text"))

        described = [[name, dtype.str] for name, dtype in types.items()]
        digests = [tokenizer_digest(item) if hasattr(item, "encode_all") else item for item in key]
        name = self.entry(self.part, described, list(prefix), empty, digests)
        entry = self.stream.store.entry(name, build)
        note(f"prepared data: {size_of(entry) / 1e6:,.0f} MB in {entry}")
        paths = [(entry / f"{name}.ids", entry / f"{name}.offsets") for name in types]
        for path in chain(*paths):
            _read_ahead(path)
        return [
            TokenRows(mapped(ids, dtype), mapped(offsets, np.int64))
            for (ids, offsets), dtype in zip(paths, types.values(), strict=True)
        ]


class DiskRows(_OnDisk[Row]):
    """One part of a corpus."""

    def __init__(self, stream: Stream, part: str) -> None:
        self.stream, self.part = stream, part

    def __len__(self) -> int:
        return self.stream.counts[self.code - 1]

    def __iter__(self) -> Iterator[Row]:
        for columns in self.map(lambda columns: columns):
            yield from map(self.stream.reader.row, zip(*columns, strict=True))

    def choose(self, indices: Sequence[int] | np.ndarray) -> list[Row]:
        columns = [self.column(side).choose(indices) for side in range(self.stream.reader.sides)]
        return [self.stream.reader.row(values) for values in zip(*columns, strict=True)]

    def map(self, function: Callable[[Columns], R], what: str = "reading the text") -> Iterator[R]:
        return self.stream.map(self.code, what, lambda columns, first: function(columns))

    def digest(self) -> str:
        return self.stream.digests[self.code - 1]

    def column(self, *numbers: int) -> DiskColumns:
        return DiskColumns(self, numbers)


class DiskColumns(_OnDisk[Any]):
    """Values of rows on disk: first all of one column, then all of the next."""

    def __init__(self, rows: DiskRows[Any], numbers: Sequence[int]) -> None:
        self.rows, self.numbers = rows, tuple(numbers)
        self.stream, self.part = rows.stream, rows.part

    def __len__(self) -> int:
        return len(self.rows) * len(self.numbers)

    def __iter__(self) -> Iterator[Any]:
        for number in self.numbers:
            for values in self.column(number).map(lambda columns: columns[0]):
                yield from values

    def __add__(self, other: DiskColumns) -> DiskColumns:
        return DiskColumns(self.rows, (*self.numbers, *other.numbers))

    def column(self, *numbers: int) -> DiskColumns:
        return self if numbers == (0,) else DiskColumns(self.rows, numbers)

    def map(self, function: Callable[[Columns], R], what: str = "reading the text") -> Iterator[R]:
        """Call `function` as `Rows.map` does; of several columns, a block has the values of each."""
        numbers = self.numbers
        return self.rows.map(
            lambda columns: function((list(chain.from_iterable(columns[number] for number in numbers)),)), what
        )

    def digest(self) -> str:
        raise NotImplementedError("columns have no digest; take that of their rows")

    def choose(self, indices: Sequence[int] | np.ndarray) -> list[Any]:
        indices, count, numbers = np.asarray(indices, np.int64), max(len(self.rows), 1), self.numbers
        chosen = [indices[indices // count == position] - position * count for position in range(len(numbers))]

        def choose(columns: Columns, first: int) -> list[list[Any]]:
            values = []
            for rows, number in zip(chosen, numbers, strict=True):
                begin, end = np.searchsorted(rows, (first, first + len(columns[number])))
                values.append([columns[number][row - first] for row in rows[begin:end]])
            return values

        columns: list[list[Any]] = [[] for _ in numbers]
        for block in self.stream.map(self.code, "choosing lines", choose):
            for column, values in zip(columns, block, strict=True):
                column += values
        return list(chain.from_iterable(columns))


class _Block(NamedTuple):
    """The ids of one name in one block."""

    flat: np.ndarray
    lengths: np.ndarray
    is_reference: bool = False
    hashes: np.ndarray | None = None  # of `Distinct` rows

    @classmethod
    def of(cls, part: Encoded, dtype: np.dtype[Any]) -> _Block:
        if isinstance(part, TokenRows):
            return cls(part.flat.astype(dtype), part.lengths)
        if isinstance(part, References):
            return cls(part.rows.flat, part.rows.lengths, is_reference=True)
        return cls(part.rows.flat.astype(dtype), part.rows.lengths, hashes=hashes(part.texts))


def _write(folder: Path, encoding: Encoding, blocks: Iterator[list[_Block]]) -> None:
    """Append the ids of all blocks to files, references renumbered by the first occurrence of distinct rows."""
    types, _, _, prefix, empty = encoding
    numbering, ends = Numbering(empty), [len(prefix)] * len(types)
    with ExitStack() as stack:
        files = [
            [stack.enter_context(open(folder / f"{name}.{ending}", "wb")) for ending in ("ids", "offsets")]
            for name in types
        ]
        for (ids, offsets), dtype in zip(files, types.values(), strict=True):
            np.array(prefix, dtype).tofile(ids)
            np.array([len(prefix)], np.int64).tofile(offsets)
        np.full(empty, len(prefix), np.int64).tofile(files[-1][1])
        for block in blocks:
            flat, lengths, _, distinct = block[-1]
            if distinct is not None:
                numbers, is_new = numbering.number(distinct)
                block[-1] = _Block(flat[np.repeat(is_new, lengths)], lengths[is_new])
                block = [part._replace(flat=numbers[part.flat]) if part.is_reference else part for part in block]
            for position, (part, dtype) in enumerate(zip(block, types.values(), strict=True)):
                part.flat.astype(dtype, copy=False).tofile(files[position][0])
                (ends[position] + np.cumsum(part.lengths)).tofile(files[position][1])
                ends[position] += int(part.lengths.sum())


class Numbering:
    """Numbers for hashes in the order of first occurrence: 12 bytes for each different one.

    >>> known = Numbering(first=1)
    >>> [part.tolist() for part in known.number(np.array([9, 5], np.uint64))]
    [[1, 2], [True, True]]
    >>> [part.tolist() for part in known.number(np.array([5, 7], np.uint64))]
    [[2, 3], [False, True]]
    """

    def __init__(self, first: int = 0) -> None:
        self.next = first
        self.hashes, self.numbers = np.zeros(0, np.uint64), np.zeros(0, NUMBER)  # sorted by hash
        self.recent: dict[int, int] = {}  # not yet among them

    def number(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) numbers of different hashes, and which of them are new."""
        numbers, is_new = np.zeros(len(hashes), NUMBER), np.zeros(len(hashes), dtype=bool)
        nearest = np.minimum(np.searchsorted(self.hashes, hashes), max(0, len(self.hashes) - 1))
        known = self.hashes[nearest] == hashes if len(self.hashes) else is_new.copy()
        numbers[known] = self.numbers[nearest[known]]
        for position in np.flatnonzero(~known).tolist():
            number = self.recent.setdefault(int(hashes[position]), self.next)
            numbers[position], is_new[position] = number, number == self.next
            self.next += number == self.next
        if len(self.recent) > max(RECENT, len(self.hashes) // 8):
            every = np.concatenate([self.hashes, np.fromiter(self.recent.keys(), np.uint64, len(self.recent))])
            both = np.concatenate([self.numbers, np.fromiter(self.recent.values(), NUMBER, len(self.recent))])
            order = np.argsort(every)
            self.hashes, self.numbers, self.recent = every[order], both[order], {}
        return numbers, is_new


def _read_ahead(path: Path) -> None:
    """Have the system read a file in order in the background: batches touch it at random, one page for every row."""
    if not hasattr(os, "posix_fadvise"):
        return
    if path.stat().st_size > available_memory() // READ_AHEAD_SHARE:
        return
    with open(path, "rb") as stream, suppress(OSError):
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """A digest of what a tokenizer does: of the file that it saves, and the marks that it adds."""
    with tempfile.TemporaryDirectory(prefix="harken-") as folder:
        paths = tokenizer.save(Path(folder), "tokenizer")
        marks = [[tokenizer.before, tokenizer.after]] if isinstance(tokenizer, MarkedTokenizer) else []
        return key_of([[path.suffix, path.read_bytes().hex()] for path in paths] + marks)
