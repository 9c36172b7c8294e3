"""Ids of streamed rows as memory-mapped arrays: uint16 or uint32 ids, int64 offsets.

`encode_rows` runs a function over the rows of a part in several processes and appends what it gives to files, so memory
does not depend on the number of rows. All processes that map the files share one copy in the page cache.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.prepared.store import key_of, note, size_of
from harken.data.prepared.stream import Columns, StreamedRows, mapped
from harken.data.tokenizers.base import Tokenizer, load_tokenizers, save_tokenizers
from harken.data.tokenizers.tokens import EOS
from harken.machine import available_memory

READ_AHEAD_SHARE = 8  # files of up to an eighth of the memory are read ahead
NUMBER = np.dtype(np.uint32)  # of a distinct row
RECENT = 100_000  # numbers that wait to be sorted
VALUE = "value.json"


class Distinct(NamedTuple):
    """Rows of ids that occur many times (the spellings of words, the sentences of stories) and are stored once.

    Beside them, other rows refer to them by number: here in the order of this list, in the files by first occurrence.
    """

    hashes: np.ndarray  # (n,) uint64: `harken.data.prepared.examples.hashes` of what each stands for
    rows: TokenRows  # n of them


def id_kind(size: int) -> np.dtype[Any]:
    """The type that holds so many ids."""
    return np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)


def encode_rows(
    rows: StreamedRows,
    kinds: Mapping[str, np.dtype[Any]],
    function: Callable[[Columns], Sequence[TokenRows | Distinct]],
    key: Any,
    prefix: Sequence[int] = (),
    empty: int = 0,
) -> list[TokenRows]:
    """Memory-mapped rows of ids, one set for each name; made once for each `key`.

    Args:
        kinds: the type of the ids for every name.
        function: from the values of some rows to their ids, for each name. The last may be `Distinct` rows, to which
            those of type `NUMBER` refer.
        key: all that decides the result beside the rows: tokenizers and settings.
        prefix: ids in front of all rows.
        empty: so many distinct rows without ids come before all others.
    """
    stream, names = rows.stream, list(kinds)

    def run(columns: Columns, first: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        parts = [(part.rows, part.hashes) if isinstance(part, Distinct) else (part, None) for part in function(columns)]
        return [
            (made.flat.astype(kinds[name]), made.lengths, hashes)
            for name, (made, hashes) in zip(names, parts, strict=True)
        ]

    def build(folder: Path) -> None:
        stream.store.require_space(2 * sum(path.stat().st_size for path in map(Path, _files(rows))))
        numbering = Numbering(empty)
        with ExitStack() as stack:
            files = [
                [stack.enter_context(open(folder / f"{name}.{ending}", "wb")) for ending in ("ids", "offsets")]
                for name in names
            ]
            ends = [len(prefix)] * len(names)
            for (ids, offsets), kind in zip(files, kinds.values(), strict=True):
                np.array(prefix, kind).tofile(ids)
                np.array([len(prefix)], np.int64).tofile(offsets)
            np.full(empty, len(prefix), np.int64).tofile(files[-1][1])
            for made in stream.map(rows.code, "encoding the text", run):
                numbers = None
                if made[-1][2] is not None:
                    numbers, is_new = numbering.number(made[-1][2])
                    flat, lengths, _ = made[-1]
                    made[-1] = flat[np.repeat(is_new, lengths)], lengths[is_new], None
                for place, (flat, lengths, _) in enumerate(made):
                    if numbers is not None and kinds[names[place]] == NUMBER and place < len(names) - 1:
                        flat = numbers[flat]
                    flat.tofile(files[place][0])
                    (ends[place] + np.cumsum(lengths)).tofile(files[place][1])
                    ends[place] += int(lengths.sum())

    described = [[name, kind.str] for name, kind in kinds.items()]
    entry = stream.store.entry(f"{stream.name}-{key_of(rows.part, described, list(prefix), empty, key)}", build)
    note(f"prepared data: {size_of(entry) / 1e6:,.0f} MB in {entry}")
    paths = [(entry / f"{name}.ids", entry / f"{name}.offsets") for name in names]
    for path in (path for both in paths for path in both):
        _read_ahead(path)
    return [
        TokenRows(mapped(ids, kind), mapped(offsets, np.int64))
        for (ids, offsets), kind in zip(paths, kinds.values(), strict=True)
    ]


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
        found, is_new = np.zeros(len(hashes), NUMBER), np.zeros(len(hashes), dtype=bool)
        places = np.minimum(np.searchsorted(self.hashes, hashes), max(0, len(self.hashes) - 1))
        known = self.hashes[places] == hashes if len(self.hashes) else is_new.copy()
        found[known] = self.numbers[places[known]]
        for place in np.flatnonzero(~known).tolist():
            number = self.recent.setdefault(int(hashes[place]), self.next)
            found[place], is_new[place] = number, number == self.next
            self.next += number == self.next
        if len(self.recent) > max(RECENT, len(self.hashes) // 8):
            every = np.concatenate([self.hashes, np.fromiter(self.recent.keys(), np.uint64, len(self.recent))])
            numbers = np.concatenate([self.numbers, np.fromiter(self.recent.values(), NUMBER, len(self.recent))])
            order = np.argsort(every)
            self.hashes, self.numbers, self.recent = every[order], numbers[order], {}
        return found, is_new


def _read_ahead(path: Path) -> None:
    """Have the system read a file in order in the background: batches touch it at random, one page for every row."""
    if not hasattr(os, "posix_fadvise"):
        return
    if path.stat().st_size > available_memory() // READ_AHEAD_SHARE:
        return
    with open(path, "rb") as stream, suppress(OSError):
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def _files(rows: StreamedRows) -> list[str]:
    return [path for group in rows.stream.reader.files for path in group]


def parallel_ids(rows: StreamedRows, source: Tokenizer, target: Tokenizer) -> ParallelIds:
    """Both sides of streamed pairs, each row ended by EOS."""

    def encode(columns: Columns) -> list[TokenRows]:
        tokenizers = (source, target)
        return [TokenRows.encode(tokenizer, column) for tokenizer, column in zip(tokenizers, columns, strict=True)]

    key = [tokenizer_key(source), tokenizer_key(target)]
    kind = id_kind(max(source.size, target.size))
    return ParallelIds(*encode_rows(rows, {"source": kind, "target": kind}, encode, key))


def running_ids(rows: StreamedRows, tokenizer: Tokenizer, ended: bool) -> np.ndarray:
    """(N,) the ids of running text, an EOS before it; `ended`: each line has one, else lines are joined by spaces."""
    space = [] if ended else tokenizer.encode(" ")

    def encode(columns: Columns) -> list[TokenRows]:
        if not space:
            return [TokenRows.encode(tokenizer, columns[0], eos=ended)]
        return [TokenRows.encode(tokenizer, [f"{line} " for line in columns[0]], eos=False)]

    key = [tokenizer_key(tokenizer), ended]
    flat = encode_rows(rows, {"text": id_kind(tokenizer.size)}, encode, key, prefix=(EOS,))[0].flat
    return flat[: len(flat) - len(space)]


def tokenizer_key(tokenizer: Tokenizer) -> str:
    """A digest of what a tokenizer does: of the file that it saves."""
    with tempfile.TemporaryDirectory(prefix="harken-") as folder:
        paths = tokenizer.save(Path(folder), "tokenizer")
        return key_of([[path.suffix, path.read_bytes().hex()] for path in paths])


def kept_tokenizers(
    rows: Any, settings: Any, learn: Callable[[], tuple[Tokenizer, Tokenizer]]
) -> tuple[Tokenizer, Tokenizer]:
    """What `learn` gives; of streamed rows it is kept beside them, and found again for equal settings."""
    if not isinstance(rows, StreamedRows):
        return learn()
    stream = rows.stream
    name = f"{stream.name}-{key_of('tokenizers', rows.part, settings)}"
    return load_tokenizers(stream.store.entry(name, lambda folder: save_tokenizers(folder, *learn())))


def kept_tokenizer(rows: Sequence[str], settings: Any, learn: Callable[[Sequence[str]], Tokenizer]) -> Tokenizer:
    """As `kept_tokenizers`, for lines of text; `learn` is given the texts."""

    def learn_one() -> tuple[Tokenizer, Tokenizer]:
        found = learn(rows.texts(0) if isinstance(rows, StreamedRows) else rows)
        return found, found

    return kept_tokenizers(rows, settings, learn_one)[0]


def kept_value(rows: StreamedRows, key: Any, compute: Callable[[], Any]) -> Any:
    """What `compute` gives of streamed rows, a value that JSON can hold; computed once for each `key`."""
    stream = rows.stream

    def build(folder: Path) -> None:
        (folder / VALUE).write_text(json.dumps(compute()), encoding="utf-8")

    entry = stream.store.entry(f"{stream.name}-{key_of('value', rows.part, key)}", build)
    return json.loads((entry / VALUE).read_text(encoding="utf-8"))
