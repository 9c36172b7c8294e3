"""The examples of one part of a data set through one interface, whether they lie in memory or on disk.

A row is what a job knows (a text, a `Pair`, a `Tagged` sentence, a `Question`); its columns are the values it is made
of. `MemoryRows` holds them as Python objects; `harken.data.prepared.disk_rows.DiskRows` reads them from files again
whenever they are gone through, and stores ids in memory-mapped arrays. Jobs do not know which of the two they have:

    rows_of(sequence)              any sequence as `Rows`
    rows.column(0)                 the values of a column, as rows of their own
    rows.map(f)                    f of the columns of each block; on disk in several processes
    rows.encode(types, f, key)     ids by f, in arrays or in memory-mapped files; the one way from text to ids
    rows.cached(key, f)            what f computes; on disk once for each key

>>> rows = rows_of([("go", "1"), ("run", "2")])
>>> list(rows.column(1)), rows.counts(lambda columns: Counter(columns[1]))["2"], rows.is_in_memory
(['1', '2'], 1, True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from harken.data.io.token_rows import TokenRows
from harken.data.splits import digest, field_names
from harken.data.tokenizers.base import Tokenizer

Columns = tuple[Sequence[Any], ...]  # values that JSON can hold of some rows, side by side
Row = TypeVar("Row")
R = TypeVar("R")
C = TypeVar("C")
MOST_COUNTED = 5_000_000  # different tokens; beyond, those seen once are forgotten
NUMBER = np.dtype(np.uint32)  # the type of references


class Distinct(NamedTuple):
    """Rows of ids that occur many times (the spellings of words, the sentences of stories) and are stored once."""

    texts: Sequence[str]  # n different texts, in the order of first occurrence
    rows: TokenRows  # the ids of each


class References(NamedTuple):
    """Rows of places among `Distinct` rows."""

    rows: TokenRows


Encoded = TokenRows | References | Distinct


def id_type(size: int) -> np.dtype[Any]:
    """The type that holds so many ids."""
    return np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)


class Encoding(NamedTuple):
    """The rows of ids that `Rows.encode` makes; its arguments say what each is."""

    types: Mapping[str, np.dtype[Any]]
    function: Callable[[Columns], Sequence[Encoded]]
    key: Any
    prefix: Sequence[int]
    empty: int


class Rows(Sequence[Row], ABC):
    """Examples in a fixed order."""

    is_in_memory: bool

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Any:
        chosen = range(len(self))[index]
        if isinstance(chosen, int):
            return self.choose([chosen])[0]
        ordered = self.choose(sorted(chosen))
        return ordered if chosen.step > 0 else ordered[::-1]

    @abstractmethod
    def column(self, *numbers: int) -> Rows[Any]:
        """The values of one column; of several, one after another."""

    @abstractmethod
    def map(self, function: Callable[[Columns], R], what: str = "reading the text") -> Iterator[R]:
        """`function` of the columns of every block, in order; on disk it runs in several processes.

        Args:
            what: the pass in words, for the notes on its progress.
        """

    @abstractmethod
    def digest(self) -> str:
        """`harken.data.splits.digest` of the rows."""

    @abstractmethod
    def choose(self, indices: Sequence[int] | np.ndarray) -> list[Row]:
        """The rows of ascending indices."""

    @abstractmethod
    def find(self, condition: Callable[[Row], bool]) -> int | None:
        """The index of the first row whose type meets a condition; rows on disk are all of one type."""

    @abstractmethod
    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        """A value that JSON can hold, computed from the rows; on disk once for each `key`."""

    @abstractmethod
    def cached_tokenizers(
        self, settings: Any, learn: Callable[[], tuple[Tokenizer, Tokenizer]]
    ) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers that are learned from the rows; on disk once for equal settings."""

    def encode(
        self,
        types: Mapping[str, np.dtype[Any]],
        function: Callable[[Columns], Sequence[Encoded]],
        key: Any,
        prefix: Sequence[int] = (),
        empty: int = 0,
    ) -> list[TokenRows]:
        """Rows of ids, one set for each name.

        Args:
            types: of the ids in files, for every name.
            function: from the columns of some rows to their ids, for each name. The last may be `Distinct` rows, to
                which `References` before them refer.
            key: all that decides the result beside the rows: tokenizers and values that JSON can hold.
            prefix: ids in front of all rows.
            empty: so many distinct rows without ids come before all others.
        """
        return self._encode(Encoding(types, function, key, prefix, empty))

    @abstractmethod
    def _encode(self, encoding: Encoding) -> list[TokenRows]:
        """Encode the rows; `encode` describes the arguments."""

    def cached_tokenizer(self, settings: Any, learn: Callable[[Rows[Any]], Tokenizer]) -> Tokenizer:
        """One tokenizer of lines of text; `learn` is given the texts."""

        def learn_both() -> tuple[Tokenizer, Tokenizer]:
            tokenizer = learn(self.column(0))
            return tokenizer, tokenizer

        return self.cached_tokenizers(settings, learn_both)[0]

    def counts(self, count: Callable[[Columns], Counter[C]], most: int = MOST_COUNTED) -> Counter[C]:
        """The counts of something in all rows, in the order of first occurrence.

        Args:
            count: counts it in some rows.
            most: beyond as many different ones, those seen once so far are dropped; in memory none is.
        """
        total: Counter[C] = Counter()
        for counts in self.map(count, "counting"):
            total.update(counts)
            total = self.without_rare(total, most)
        return total

    def without_rare(self, counts: Counter[C], most: int = MOST_COUNTED) -> Counter[C]:
        """Counts without those of 1, where there are more than `most` and the rows are on disk."""
        if len(counts) <= most or self.is_in_memory:
            return counts
        return Counter({item: times for item, times in counts.items() if times > 1})

    def token_counts(self, count: Callable[[Iterable[str]], Counter[str]], most: int = MOST_COUNTED) -> Counter[str]:
        """Count the tokens of rows that are texts; `count` counts those of some texts."""
        return self.counts(lambda columns: count(columns[0]), most)


class MemoryRows(Rows[Row]):
    """Rows that are held as Python objects."""

    is_in_memory = True

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __add__(self, other: Rows[Row]) -> MemoryRows[Row]:
        return MemoryRows([*self, *other])

    def columns(self) -> Columns:
        """The values of all rows."""
        return tuple(map(list, zip(*map(values_of, self.rows), strict=True)))

    def column(self, *numbers: int) -> MemoryRows[Any]:
        return MemoryRows([values_of(row)[number] for number in numbers for row in self.rows])

    def map(self, function: Callable[[Columns], R], what: str = "") -> Iterator[R]:
        if len(self.rows):
            yield function(self.columns())

    def digest(self) -> str:
        return digest(self.rows)

    def choose(self, indices: Sequence[int] | np.ndarray) -> list[Row]:
        return [self.rows[int(index)] for index in indices]

    def find(self, condition: Callable[[Row], bool]) -> int | None:
        return next((index for index, row in enumerate(self.rows) if condition(row)), None)

    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        return compute()

    def cached_tokenizers(
        self, settings: Any, learn: Callable[[], tuple[Tokenizer, Tokenizer]]
    ) -> tuple[Tokenizer, Tokenizer]:
        return learn()

    def _encode(self, encoding: Encoding) -> list[TokenRows]:
        types, function, _, prefix, empty = encoding
        if not len(self.rows):
            return [TokenRows(np.array(prefix, np.int32), np.array([len(prefix)])) for _ in types]
        encoded = []
        for part in function(self.columns()):
            rows = part if isinstance(part, TokenRows) else part.rows
            flat, offsets = rows.flat, rows.offsets
            if isinstance(part, References):
                flat = flat + empty
            if isinstance(part, Distinct):
                offsets = np.concatenate([np.zeros(empty, np.int64), offsets])
            if len(prefix):
                flat, offsets = np.concatenate([np.array(prefix, flat.dtype), flat]), offsets + len(prefix)
            encoded.append(TokenRows(flat, offsets))
        return encoded


def rows_of(rows: Sequence[Row]) -> Rows[Row]:
    """A sequence as rows: itself where it is some already."""
    return rows if isinstance(rows, Rows) else MemoryRows(rows)


def values_of(row: Any) -> Sequence[Any]:
    """The values that a row is made of: the fields of a tuple or dataclass, or the one value that it is."""
    if isinstance(row, tuple):
        return row
    names = field_names(row.__class__)
    return [getattr(row, name) for name in names] if names else (row,)


def different(texts: Iterable[Iterable[str]]) -> list[str]:
    """Every different text, in the order of first occurrence."""
    return list(dict.fromkeys(chain.from_iterable(texts)))
