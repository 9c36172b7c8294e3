"""Examples of any text job (labelled texts, tagged sentences, questions) that are not held in memory.

The job's own reader goes through the files once and its rows are written as lines of JSON (`write_rows`), whatever the
format of the files: tables with quoted cells, CoNLL, stories. From there on all jobs are alike: rows are divided into
parts by one pass over these lines (`StoredExamples.divide`) and encoded by others.

>>> import tempfile
>>> kind = ExampleKind("words", lambda *texts: texts, lambda row: row[0])
>>> rows = lambda skipped: iter([["go", "1"], ["run", "2"], ["stop", "1"]])
>>> stream = StoredExamples(Path(tempfile.mkdtemp()), "demo", kind, "some key", rows).divide({"valid": 1}, 1, [])
>>> stream.counts, len(stream.held_out("valid"))
([2, 1], 1)
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harken.data.fingerprints import InputFile, fingerprint
from harken.data.prepared.blocks import Block
from harken.data.prepared.parts import write_parts
from harken.data.prepared.store import Store, key_of, note, prepared_folder
from harken.data.prepared.stream import NOTHING, Columns, Scan, Scanned, Stream, json_line
from harken.data.splits import DIGEST_SPACE, DUPLICATES, Size, encode_row, row_digest

ROWS, SKIPPED = "rows.jsonl", "skipped.json"
LONGEST_ROW = 1 << 30  # bytes; the reader of the files has its own limit
NOTE_EVERY = 1_000_000  # rows

Rows = Callable[[Counter[str]], Iterator[Sequence[Any]]]  # all rows; the counter is told what is skipped, and why


class ExampleKind(NamedTuple):
    """How the rows of one job are understood. A row is a list of texts, or of lists of them."""

    name: str
    build: Callable[..., Any]  # from the values of a row to the object that the job knows
    key: Callable[[Any], str]  # what two equal objects have in common; also their group, if there is no other
    group: int | None = None  # the value of a row that is its group's position (`harken.data.splits`)


@dataclass(frozen=True)
class ExampleReader:
    """Lines of JSON that `write_rows` wrote; see `harken.data.prepared.stream.Reader`."""

    files: tuple[tuple[str, ...], ...]
    kind: ExampleKind
    seed: int
    sides: int
    max_line_bytes: int = field(default=LONGEST_ROW)

    def rows_in(self, block: Block) -> int:
        return block.size

    def columns(self, block: Block) -> Columns:
        rows = json.loads(b"[" + block.texts[0].removesuffix(b"\n").replace(b"\n", b",") + b"]")
        return tuple(map(list, zip(*rows, strict=True)))

    def scan(self, block: Block) -> Scan:
        columns = self.columns(block)
        keys = [self.kind.key(row) for row in map(self.row, zip(*columns, strict=True))]
        kept, weights, digest = np.ones(len(keys), dtype=bool), np.zeros(0, np.uint32), self.digest(columns)
        if self.kind.group is None:
            return Scan(kept, self.hashes(keys), weights, {}, digest)
        groups = np.array(columns[self.kind.group], dtype=np.uint64)
        return Scan(kept, groups, weights, {}, digest, self.hashes(keys))

    def hashes(self, keys: Sequence[str]) -> np.ndarray:
        """(N,) the `harken.data.splits.group_position` of each key."""
        return hashes(keys, f"{self.seed}\0")

    def finish(self, columns: Columns) -> Columns:
        return columns

    def digest(self, columns: Columns) -> int:
        rows = map(self.row, zip(*columns, strict=True))
        return sum(row_digest(encode_row(row)) for row in rows) % DIGEST_SPACE

    def row(self, texts: tuple[Any, ...]) -> Any:
        return self.kind.build(*texts)


def hashes(texts: Sequence[str], prefix: str = "") -> np.ndarray:
    """(N,) 64 bits of a hash of each text."""
    found = [hashlib.blake2b(f"{prefix}{text}".encode("utf-8", "surrogatepass"), digest_size=8) for text in texts]
    return np.frombuffer(b"".join([one.digest() for one in found]), dtype=">u8").astype(np.uint64)


class StoredExamples:
    """The training examples of a job as lines of JSON, read once for all runs on the same files and settings.

    Args:
        root: the folder of prepared data.
        contents: all that decides the rows: digests of the files and how they are read (`file_digests`).
        rows: reads them; called where they are not there yet.

    Raises:
        UserError: as `rows` raises.
    """

    def __init__(self, root: Path, name: str, kind: ExampleKind, contents: Any, rows: Rows) -> None:
        self.store, self.name, self.kind, self.key = Store(root), name, kind, key_of(kind.name, contents)
        self.entry = self.store.entry(f"{name}-{self.key}", lambda folder: write_rows(folder, rows))
        self.skipped: dict[str, int] = json.loads((self.entry / SKIPPED).read_text(encoding="utf-8"))  # while reading

    def divide(self, sizes: Mapping[str, Size], seed: int, held_out: Sequence[Any]) -> Stream:
        """The examples in parts.

        Args:
            sizes: parts to hold out.
            held_out: objects that have validation and test files of their own; training examples equal to one of them
                are left out.

        Raises:
            UserError: a part would be empty.
        """
        with open(self.entry / ROWS, "rb") as lines:
            sides = len(json.loads(lines.readline() or b"[]"))
        reader = ExampleReader(((str(self.entry / ROWS),),), self.kind, seed, sides)
        held_keys = reader.hashes([self.kind.key(row) for row in held_out]) if held_out else NOTHING

        def build(folder: Path) -> None:
            write_parts(folder, reader, Scanned(reader, folder), sizes, held_keys, DUPLICATES)

        held_key = [len(held_keys), f"{int(held_keys.sum(dtype=np.uint64)):x}"]
        key = key_of("parts", self.key, seed, [[part, repr(size)] for part, size in sizes.items()], held_key)
        return Stream(reader, self.store, self.store.entry(f"{self.name}-{key}", build))


def write_rows(folder: Path, rows: Rows) -> None:
    """Fill an entry with all rows, and what was skipped."""
    skipped: Counter[str] = Counter()
    with open(folder / ROWS, "wb", buffering=1 << 20) as lines:
        for number, row in enumerate(rows(skipped), start=1):
            lines.write(json_line(row))
            if number % NOTE_EVERY == 0:
                note(f"reading the examples: {number:,}")
    (folder / SKIPPED).write_text(json.dumps(skipped, ensure_ascii=False), encoding="utf-8")


def file_digests(paths: Sequence[Path]) -> list[list[str | None]]:
    """Name and digest of every file or folder."""
    found = [(path, fingerprint(InputFile("", path))) for path in paths]
    return [[path.name, None if one is None else one.sha256] for path, one in found]


def examples_folder(chosen: str | None, paths: Sequence[Path]) -> Path | None:
    """As `harken.data.prepared.store.prepared_folder`; of folders the files in them are counted."""
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return prepared_folder(chosen, files)
