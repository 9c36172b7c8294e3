"""One pass over files that gives every row a code, one byte in `codes.u8`:

    0              skipped: an empty side, too long ...
    1, 2, ...      its part: train, valid, test
    255            left out because it is also in the validation or test data

A `Reader` says how a block of lines becomes rows. Later passes (`harken.data.prepared.disk_rows`) read the files again
and choose rows by their codes, in several processes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harken.data.prepared.blocks import Block, read_blocks
from harken.data.prepared.store import note
from harken.data.rows import Columns
from harken.data.splits import (
    BLOCK_ROWS,
    DIGEST_SPACE,
    Size,
    all_held_out,
    encode_row,
    format_digest,
    row_digest,
    split_positions,
)
from harken.worker_pool import ordered_map

CODES = "codes.u8"
INDEX = "index.json"
HELD_OUT = "held-out.jsonl"
SCANNED = ("mask", "positions", "weights", "keys")  # files that exist during a scan only
SKIPPED, TRAIN, LEFT_OUT = 0, 1, 255
NOTE_EVERY = 10.0  # seconds
NOTHING = np.zeros(0, np.uint64)


class RowKind(NamedTuple):
    """The functions by which the rows of one job are built, compared and grouped."""

    name: str
    build: Callable[..., Any]  # from the values of a row to the object that the job knows
    key: Callable[[Any], str]  # what two equal objects have in common; also their group, if there is no other
    groups: Callable[[Iterable[Any]], Iterator[tuple[Any, str]]] | None = None  # rows with their groups, if not by key
    # Of the values of a row, faster than from the object that is built of them:
    key_of_values: Callable[..., str] | None = None
    digest_of_values: Callable[..., int] | None = None


class Scan(NamedTuple):
    """The result of one pass over a block."""

    mask: np.ndarray  # (rows,) bool: which rows are kept
    positions: np.ndarray  # (kept rows,) uint64: the group of a row (`harken.data.splits`); running text: 0 where blank
    skipped: dict[str, int]  # reason -> rows
    digest: int  # the sum over the kept rows
    weights: np.ndarray = np.zeros(0, np.uint32)  # (kept rows,) characters, where they count
    keys: np.ndarray = NOTHING  # (kept rows,) uint64: what makes two rows equal, where that is not their group


@dataclass(frozen=True)
class Reader:
    """The functions that make rows of the lines of files."""

    files: tuple[tuple[str, ...], ...]  # aligned files side by side
    max_line_bytes: int  # a longer line is refused
    kind: RowKind
    parse: Callable[[Block], Columns]  # the values of every row as they stand in the files
    seed: int = 0
    sides: int = 1  # values of a row
    skip: Callable[..., str] | None = None  # why the values of a row are no example; empty where they are one
    finish: Callable[[Columns], Columns] = lambda columns: columns  # chosen rows as they are used: in lower case
    has_header: Callable[[Block], bool] = lambda block: False
    has_groups: bool = False  # whether the last column is the position of a row's group

    def rows_in(self, block: Block) -> int:
        """The number of rows of a block, without reading them."""
        return block.size - (block.first == 1 and self.has_header(block))

    def choose(self, block: Block, chosen: np.ndarray) -> Columns:
        """The columns of some rows of a block, finished."""
        return self.finish(tuple(list(compress(column, chosen)) for column in self.parse(block)))

    def row(self, values: Sequence[Any]) -> Any:
        """One finished row as an object."""
        return self.kind.build(*(values[:-1] if self.has_groups else values))

    def scan(self, block: Block) -> Scan:
        """Apply the rules for skipping; keys and digests of the kept rows."""
        columns = self.parse(block)
        mask, reasons = np.ones(len(columns[0]) if columns else 0, dtype=bool), Counter[str]()
        if self.skip is not None:
            for number, reason in enumerate(map(self.skip, *columns)):
                if reason:
                    mask[number] = False
                    reasons[reason] += 1
        if reasons:
            columns = tuple(list(compress(column, mask)) for column in columns)
        columns = self.finish(columns)
        if self.kind.key_of_values is not None:
            keys = hashes(list(map(self.kind.key_of_values, *columns)), f"{self.seed}\0")
        else:
            keys = self.positions_of([self.row(values) for values in zip(*columns, strict=True)])
        if not self.has_groups:
            return Scan(mask, keys, dict(reasons), self.digest(columns))
        return Scan(mask, np.array(columns[-1], dtype=np.uint64), dict(reasons), self.digest(columns), keys=keys)

    def positions_of(self, rows: Sequence[Any]) -> np.ndarray:
        """(N,) the `harken.data.splits.group_position` of the key of each row."""
        key = self.kind.key
        return hashes([key(row) for row in rows], f"{self.seed}\0")

    def digest(self, columns: Columns) -> int:
        """The sum of the digests of finished rows."""
        if self.kind.digest_of_values is not None:
            return sum(map(self.kind.digest_of_values, *columns)) % DIGEST_SPACE
        rows = map(self.row, zip(*columns, strict=True))
        return sum(row_digest(encode_row(row)) for row in rows) % DIGEST_SPACE


def hashes(texts: Sequence[str], prefix: str = "") -> np.ndarray:
    """(N,) 64 bits of a hash of each text."""
    blake2b = hashlib.blake2b
    digests = [blake2b(f"{prefix}{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


class Scanned:
    """The scan of all files, in arrays on the disk below a folder."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.folder, self.skipped, self.total = folder, Counter[str](), 0
        paths = [folder / name for name in SCANNED]
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "wb")) for path in paths]
            blocks = progress("reading the text", read_blocks(reader.files, reader.max_line_bytes))
            for scan in ordered_map(reader.scan, blocks):
                for file, array in zip(files, (scan.mask, scan.positions, scan.weights, scan.keys), strict=True):
                    array.tofile(file)
                self.skipped.update(scan.skipped)
                self.total = (self.total + scan.digest) % DIGEST_SPACE
        types = np.bool_, np.uint64, np.uint32, np.uint64
        self.mask, self.positions, self.weights, self.keys = map(mapped, paths, types)

    def write_codes(self, code_of: Callable[[int, int], np.ndarray]) -> Counter[int]:
        """Write the code of every row; `code_of(start, stop)` gives those of some kept ones. Counts the codes."""
        start, counts = 0, Counter[int]()
        with open(self.folder / CODES, "wb") as codes:
            for first in range(0, len(self.mask), BLOCK_ROWS):
                mask = self.mask[first : first + BLOCK_ROWS]
                stop = start + int(mask.sum())
                own = code_of(start, stop)
                counts.update(dict(enumerate(np.bincount(own, minlength=1).tolist())))
                every = np.full(len(mask), SKIPPED, dtype=np.uint8)
                every[mask] = own
                every.tofile(codes)
                start = stop
        return counts

    def write_index(
        self, reader: Reader, parts: Sequence[str], as_text: Sequence[str], extra: Mapping[str, int]
    ) -> None:
        """Complete the entry: counts, digests, and the rows of the parts in `as_text`; the scan itself is deleted.

        Args:
            extra: reasons for what was skipped beside those of the scan.
        """
        folder, codes = self.folder, mapped(self.folder / CODES, np.uint8)
        counts = [0] * len(parts)
        for start in range(0, len(codes), BLOCK_ROWS):
            more = np.bincount(codes[start : start + BLOCK_ROWS], minlength=LEFT_OUT + 1)[1 : len(parts) + 1]
            counts = [count + int(added) for count, added in zip(counts, more, strict=True)]

        def run(item: tuple[Block, np.ndarray]) -> list[tuple[int, Columns, int]]:
            block, own = item
            rows = []
            for code in np.unique(own[own > TRAIN]).tolist():
                columns = reader.choose(block, own == code)
                is_text = code != LEFT_OUT and parts[code - 1] in as_text
                rows.append((code, columns if is_text else (), reader.digest(columns)))
            return rows

        totals, apart = [0] * len(parts), 0  # of each part; of all rows that are not for training
        items = (item for item in with_codes(reader, codes, "dividing the text") if bool((item[1] > TRAIN).any()))
        with open(folder / HELD_OUT, "wb") as lines:
            for rows in ordered_map(run, items) if bool((codes > TRAIN).any()) else ():
                for code, columns, digest in rows:
                    apart += digest
                    if code != LEFT_OUT:
                        totals[code - 1] += digest
                    for values in zip(*columns, strict=True):
                        lines.write(json_line([parts[code - 1], *values]))
        totals[0] = self.total - apart
        index = {
            "parts": list(parts),
            "counts": counts,
            "digests": [format_digest(count, total) for count, total in zip(counts, totals, strict=True)],
            "skipped": {**dict(self.skipped), **extra},
        }
        (folder / INDEX).write_text(json.dumps(index, ensure_ascii=False) + "\n", encoding="utf-8")
        for name in SCANNED:
            (folder / name).unlink()

    def write_parts(self, reader: Reader, sizes: Mapping[str, Size], held_keys: np.ndarray, reason: str) -> None:
        """Divide the rows by their groups, as `harken.data.splits.split_groups`, and complete the entry.

        Args:
            sizes: parts to hold out.
            held_keys: keys of rows that have validation and test files of their own; training rows among these, or
                equal to a row that is held out, are left out.
            reason: why they are, for the counts.

        Raises:
            UserError: a part would be empty.
        """
        held = split_positions(self.positions, sizes)
        part_of = {group: code for code, groups in enumerate(held.values(), start=TRAIN + 1) for group in groups}
        groups = np.array(sorted(part_of), dtype=np.uint64)
        codes = np.array([part_of[int(group)] for group in groups], dtype=np.uint8)
        keys = self.keys if len(self.keys) else self.positions
        if len(self.keys):  # equal rows may be in several groups
            blocks = (slice(start, start + BLOCK_ROWS) for start in range(0, len(keys), BLOCK_ROWS))
            held_keys = np.concatenate(
                [held_keys, *(keys[block][np.isin(self.positions[block], groups)] for block in blocks)]
            )
        held_keys = np.unique(held_keys)

        def code_of(start: int, stop: int) -> np.ndarray:
            own = np.where(np.isin(keys[start:stop], held_keys), LEFT_OUT, TRAIN).astype(np.uint8)
            if len(groups):
                positions = self.positions[start:stop]
                nearest = np.minimum(np.searchsorted(groups, positions), len(groups) - 1)
                own = np.where(groups[nearest] == positions, codes[nearest], own)
            return own

        counts = self.write_codes(code_of)
        if not counts[TRAIN]:
            raise all_held_out()
        extra = {reason: counts[LEFT_OUT]} if counts[LEFT_OUT] else {}
        self.write_index(reader, ["train", *sizes], list(sizes), extra)


def json_line(value: Any) -> bytes:
    """A value as one line of JSON."""
    try:
        return f"{json.dumps(value, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON files may have
        return f"{json.dumps(value)}\n".encode()


def with_codes(reader: Reader, codes: np.ndarray, what: str) -> Iterator[tuple[Block, np.ndarray]]:
    """Every block with the codes of its rows."""
    start = 0
    for block in progress(what, read_blocks(reader.files, reader.max_line_bytes)):
        stop = start + reader.rows_in(block)
        yield block, codes[start:stop]
        start = stop


def mapped(path: Path, dtype: Any) -> np.ndarray:
    """An array on the disk, read where it is used."""
    return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.zeros(0, dtype)


def progress(what: str, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks; the user is told every few seconds how far the pass is."""
    began = last = time.monotonic()
    lines = 0
    for block in blocks:
        yield block
        lines += block.size
        if time.monotonic() - last > NOTE_EVERY:
            last = time.monotonic()
            note(f"{what}: {lines:,} lines, {lines / (last - began):,.0f} a second")
