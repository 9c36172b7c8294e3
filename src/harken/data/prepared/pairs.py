"""A translation corpus whose training text is not held in memory; `harken.data.text.parallel` is the reference.

Pairs, parts, reasons for skipping, digests and error messages are those of `read_corpus`; a group is known by 64 bits
of its hash instead of its text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from harken.data.fingerprints import InputFile, fingerprint
from harken.data.io.files import read_lines
from harken.data.io.formats import Layout, format_of, read_jsonl, read_tsv
from harken.data.prepared.blocks import Block
from harken.data.prepared.parts import write_parts
from harken.data.prepared.store import Store, key_of
from harken.data.prepared.stream import Columns, Scan, Scanned, Stream
from harken.data.splits import DIGEST_SPACE, DUPLICATES, Size, encode_row, row_digest
from harken.data.text.pairs import Pair, nothing_left, pair_key

END = encode_row(Pair("", "")).removeprefix(
    b"t" + 2 * ((1).to_bytes(8) + b"s")
)  # of a pair without alignment and heads


@dataclass(frozen=True)
class PairReader:
    """Pairs of aligned files, TSV or JSONL; see `harken.data.prepared.stream.Reader`."""

    files: tuple[tuple[str, ...], ...]
    layout: Layout
    seed: int
    skip_empty: bool
    max_words: int | None
    max_characters: int | None
    lowercase: bool
    sides: int = 2

    @property
    def max_line_bytes(self) -> int:
        """Of the files."""
        return self.layout.max_line_bytes

    def rows_in(self, block: Block) -> int:
        return block.size - (self._has_header(block) and block.first == 1)

    def columns(self, block: Block) -> Columns:
        if len(block.files) == 2:
            return [text.strip() for text in block.lines(0)], [text.strip() for text in block.lines(1)]
        path, lines = block.files[0], enumerate(block.lines(0), start=block.first)
        if format_of(path, None, self.layout.format) == "jsonl":
            pairs = list(read_jsonl(path, self.layout, lines))
        else:
            if self.layout.header and block.first > 1:
                lines = chain([(1, _header(path, self.max_line_bytes))], lines)  # type: ignore[assignment]
            pairs = list(read_tsv(path, self.layout, lines))
        return [source.strip() for source, _ in pairs], [target.strip() for _, target in pairs]

    def _has_header(self, block: Block) -> bool:
        return (
            self.layout.header
            and len(block.files) == 1
            and format_of(block.files[0], None, self.layout.format) == "tsv"
        )

    def scan(self, block: Block) -> Scan:
        reasons: Counter[str] = Counter()
        columns = self.columns(block)
        kept = np.ones(len(columns[0]), dtype=bool)
        most_words = self.max_words
        most = self.max_characters if self.max_characters is not None else 1 << 62
        for row, (source, target) in enumerate(zip(*columns, strict=True)):
            if self.skip_empty and not (source and target):
                reasons["empty side"] += 1
            elif len(source) > most or len(target) > most:
                reasons[f"more than {most} characters"] += 1
            elif most_words is not None and max(len(source.split()), len(target.split())) > most_words:
                reasons[f"more than {most_words} words"] += 1
            else:
                continue
            kept[row] = False
        if reasons:
            columns = tuple([text for text, keep in zip(column, kept, strict=True) if keep] for column in columns)
        columns = self.finish(columns)
        return Scan(kept, self._positions(columns), np.zeros(0, np.uint32), dict(reasons), self.digest(columns))

    def _positions(self, columns: Columns) -> np.ndarray:
        blake2b, prefix = hashlib.blake2b, f"{self.seed}\0"
        found = [
            blake2b((prefix + pair_key(*texts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
            for texts in zip(*columns, strict=True)
        ]
        return np.frombuffer(b"".join(found), dtype=">u8").astype(np.uint64)

    def positions_of(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(N,) where the groups of some pairs lie."""
        return self._positions(([pair.source for pair in pairs], [pair.target for pair in pairs]))

    def finish(self, columns: Columns) -> Columns:
        return tuple([text.lower() for text in column] for column in columns) if self.lowercase else columns

    def digest(self, columns: Columns) -> int:
        return sum(map(_pair_digest, *columns)) % DIGEST_SPACE

    def row(self, texts: tuple[str, ...]) -> Pair:
        source, target = texts
        return Pair(source, target)


def stream_pairs(
    root: Path,
    name: str,
    reader: PairReader,
    sizes: Mapping[str, Size],
    given: Sequence[Pair],
    given_files: Sequence[str],
) -> Stream:
    """Scan the training files, or find what an earlier run has found.

    Args:
        sizes: parts to hold out (`harken.data.splits`).
        given: validation and test pairs that have files of their own; training pairs among them are left out.
        given_files: where those are.

    Raises:
        UserError: as `harken.data.text.parallel.read_corpus`.
    """
    store = Store(root)

    def build(folder: Path) -> None:
        scanned = Scanned(reader, folder)
        if not len(scanned.positions):
            raise nothing_left("train", [path for group in reader.files for path in group[:1]], scanned.skipped)
        scanned.skipped = Counter({f"train: {reason}": count for reason, count in scanned.skipped.items()})
        write_parts(folder, reader, scanned, sizes, reader.positions_of(given), f"train: source {DUPLICATES}")

    files = [path for group in reader.files for path in group]
    contents = [fingerprint(InputFile("", Path(path))) for path in (*files, *given_files)]
    settings = [repr(reader.layout), reader.seed, reader.skip_empty, reader.max_words, reader.max_characters]
    key = key_of(
        "pairs",
        [found and found.sha256 for found in contents],
        [len(group) for group in reader.files],
        [*settings, reader.lowercase],
        [[part, repr(size)] for part, size in sizes.items()],
    )
    return Stream(reader, store, store.entry(f"{name}-{key}", build))


def _pair_digest(source: str, target: str) -> int:
    """`row_digest(encode_row(Pair(source, target)))`, faster."""
    first, second = source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")
    sizes = (len(first) + 1).to_bytes(8), (len(second) + 1).to_bytes(8)
    return row_digest(b"".join((b"t", sizes[0], b"s", first, sizes[1], b"s", second, END)))


@lru_cache(maxsize=16)
def _header(path: str, max_line_bytes: int) -> str:
    return next(iter(read_lines(path, max_line_bytes)), "")
