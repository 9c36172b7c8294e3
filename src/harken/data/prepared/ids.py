"""Ids of streamed rows as memory-mapped arrays: uint16 or uint32 ids, int64 offsets.

`encode_rows` runs a function over the rows of a part in several processes and appends what it gives to files, so memory
does not depend on the number of rows. All processes that map the files share one copy in the page cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.data.prepared.store import key_of, note, size_of
from harken.data.prepared.stream import Columns, StreamedRows, mapped
from harken.data.tokenizers.base import Tokenizer, load_tokenizers, save_tokenizers
from harken.data.tokenizers.tokens import EOS

READ_AHEAD_SHARE = 8  # files of up to an eighth of the memory are read ahead


def encode_rows(
    rows: StreamedRows,
    names: Sequence[str],
    function: Callable[[Columns], Sequence[TokenRows]],
    key: Any,
    size: int,
    prefix: Sequence[int] = (),
) -> list[TokenRows]:
    """Memory-mapped rows of ids, one set for each name; made once for each `key`.

    Args:
        function: from the texts of some rows to their ids, one `TokenRows` for each name.
        key: all that decides the result beside the rows: tokenizers and settings.
        size: of the vocabulary.
        prefix: ids in front of all rows.
    """
    stream = rows.stream
    kind = np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)

    def run(columns: Columns, first: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(made.flat.astype(kind), made.lengths) for made in function(columns)]

    def build(folder: Path) -> None:
        stream.store.require_space(2 * sum(path.stat().st_size for path in map(Path, _files(rows))))
        with ExitStack() as stack:
            files = [
                [stack.enter_context(open(folder / f"{name}.{ending}", "wb")) for ending in ("ids", "offsets")]
                for name in names
            ]
            ends = [len(prefix)] * len(names)
            for ids, offsets in files:
                np.array(prefix, kind).tofile(ids)
                np.array([len(prefix)], np.int64).tofile(offsets)
            for made in stream.map(rows.code, "encoding the text", run):
                for place, (flat, lengths) in enumerate(made):
                    flat.tofile(files[place][0])
                    (ends[place] + np.cumsum(lengths)).tofile(files[place][1])
                    ends[place] += int(lengths.sum())

    entry = stream.store.entry(f"{stream.name}-{key_of(rows.part, list(names), kind.str, list(prefix), key)}", build)
    note(f"prepared data: {size_of(entry) / 1e6:,.0f} MB in {entry}")
    paths = [(entry / f"{name}.ids", entry / f"{name}.offsets") for name in names]
    for path in (path for both in paths for path in both):
        _read_ahead(path)
    return [TokenRows(mapped(ids, kind), mapped(offsets, np.int64)) for ids, offsets in paths]


def _read_ahead(path: Path) -> None:
    """Have the system read a file in order in the background: batches touch it at random, one page for every row."""
    if not hasattr(os, "posix_fadvise"):
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if path.stat().st_size > memory // READ_AHEAD_SHARE:
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
    return ParallelIds(*encode_rows(rows, ("source", "target"), encode, key, max(source.size, target.size)))


def running_ids(rows: StreamedRows, tokenizer: Tokenizer, ended: bool) -> np.ndarray:
    """(N,) the ids of running text, an EOS before it; `ended`: each line has one, else lines are joined by spaces."""
    space = [] if ended else tokenizer.encode(" ")

    def encode(columns: Columns) -> list[TokenRows]:
        if not space:
            return [TokenRows.encode(tokenizer, columns[0], eos=ended)]
        return [TokenRows.encode(tokenizer, [f"{line} " for line in columns[0]], eos=False)]

    key = [tokenizer_key(tokenizer), ended]
    flat = encode_rows(rows, ("text",), encode, key, tokenizer.size, prefix=(EOS,))[0].flat
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
