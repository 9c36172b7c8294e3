r"""A text as one row of ids, and that row as streams cut into chunks: the batches of a language model.

Ids: every line is ended by EOS where lines count, and an EOS stands before it all, so that a text begins as if a line
had ended before it. `text_ids` takes a text as it is: a line that is not ended gets no EOS.

Streams (truncated back-propagation through time):

    w1 w2 w3 w4 w5 w6 w7 w8 w9     in 2 streams, chunks of 2:      w1 w2 | w3 w4
                                                                   w5 w6 | w7 w8

A batch is one chunk of every stream; the next batch goes on where it ended, with the state that it left. Each pass
over the text begins at another token, so that the cuts fall elsewhere. Two numbers describe a chunk: its stream, its
length and whether it is the first of its pass in one, its start in the other; worker processes need no more than
these. Without streams (`independent`) chunks come in a drawn order and depend on nothing before them.

>>> from harken.data.tokenizers.plain import PlainCharacterTokenizer
>>> tokenizer = PlainCharacterTokenizer.train(["ab"], 10)
>>> text_ids(tokenizer, "a\nb", lines=True).tolist()
[3, 4, 3, 5]
>>> text_of(tokenizer, [4, 3, 5], lines=True)
'a\nb'
>>> batches = streams(tokens=10, count=2, chunk=2, random=None)
>>> [Chunks.read(batch) for batch in batches][1]
Chunks(streams=array([0, 1]), starts=array([2, 6]), length=2, first=False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.training.task import Indices

MOST_STREAMS, MAX_LENGTH = 1 << 14, 1 << 48  # 14 + 48 + 1 bits


def corpus_ids(tokenizer: Tokenizer, lines: Sequence[str], ended: bool) -> np.ndarray:
    """(N,) ids of the lines of a corpus, an EOS before them; `ended`: each has one, else they are joined by spaces."""
    space = [] if ended else tokenizer.encode(" ")

    def encode(columns: Columns) -> list[TokenRows]:
        texts = [f"{line} " for line in columns[0]] if space else columns[0]
        return [TokenRows.encode(tokenizer, texts, eos=ended)]

    types, key = {"text": id_type(tokenizer.size)}, [tokenizer, ended]
    flat = rows_of(lines).encode(types, encode, key, prefix=(EOS,))[0].flat
    return flat[: max(1, len(flat) - len(space))]


def text_ids(tokenizer: Tokenizer, text: str, lines: bool) -> np.ndarray:
    """(N,) ids of a text, an EOS before it."""
    if not lines:
        return corpus_ids(tokenizer, text.splitlines(), ended=False)
    return corpus_ids(tokenizer, text.split("\n"), ended=True)[:-1]


def text_of(tokenizer: Tokenizer, ids: Sequence[int], lines: bool) -> str:
    """The text behind ids, without the EOS that stands before it all."""
    if not lines:
        return tokenizer.decode(list(ids))
    rows: list[list[int]] = [[]]
    for index in ids:
        if index == EOS:
            rows.append([])
        else:
            rows[-1].append(int(index))
    return "\n".join(tokenizer.decode(row) for row in rows)


@dataclass(frozen=True)
class Chunks:
    """Chunks of equal length, one of each stream."""

    streams: np.ndarray  # (B,)
    starts: np.ndarray  # (B,) the place of the first token read
    length: int
    first: bool  # of a pass: nothing was read before

    def numbers(self) -> Indices:
        """Two numbers for each chunk, (2B,)."""
        head = (self.streams.astype(np.int64) * MAX_LENGTH + self.length) * 2 + int(self.first)
        return np.stack([head, self.starts.astype(np.int64)], axis=1).ravel()

    @classmethod
    def read(cls, numbers: Indices) -> Chunks:
        """Decode chunks from the result of `numbers`."""
        head, first = np.divmod(numbers[::2], 2)
        numbers_of_streams, lengths = np.divmod(head, MAX_LENGTH)
        return cls(numbers_of_streams, numbers[1::2].copy(), int(lengths[0]), bool(first[0]))


def stream_of(numbers: Indices) -> np.ndarray:
    """(B,) the stream of each chunk."""
    return numbers[::2] // (2 * MAX_LENGTH)


def share_by_stream(numbers: Indices, parts: int) -> list[Indices]:
    """The chunks of a batch dealt out by the number of their stream."""
    owner = stream_of(numbers) % parts
    return [numbers.reshape(-1, 2)[owner == part].ravel() for part in range(parts)]


def total_length(numbers: Indices) -> int:
    """Tokens in all chunks together."""
    return int((numbers[::2] // 2 % MAX_LENGTH).sum())


def fitting_streams(tokens: int, most: int, chunk: int) -> int:
    """No more streams than the text has chunks."""
    return max(1, min(most, MOST_STREAMS, (tokens - 1) // chunk))


def streams(
    tokens: int, count: int, chunk: int, random: np.random.Generator | None, vary: float = 0.0
) -> list[Indices]:
    """One pass over a text of so many tokens, the first of which is only read: `count` streams side by side."""
    offset = int(random.integers(0, min(chunk, max(1, tokens // (4 * count))))) if random is not None else 0
    each = (tokens - 1 - offset) // count
    starts = offset + each * np.arange(count)
    batches, at = [], 0
    while at < each:
        length = chunk
        if vary and random is not None:
            length = int(np.clip(round(random.normal(chunk, vary)), max(2, chunk // 2), 2 * chunk))
        length = min(length, each - at)
        batches.append(Chunks(np.arange(count), starts + at, length, at == 0).numbers())
        at += length
    return batches


def independent(tokens: int, count: int, chunk: int, random: np.random.Generator) -> list[Indices]:
    """One pass over a text in chunks that know nothing of each other, `count` of them in a batch."""
    length = min(chunk, tokens - 1)
    offset = int(random.integers(0, min(length, max(1, tokens - length))))
    starts = np.arange(offset, tokens - length, length)
    random.shuffle(starts)
    return [
        Chunks(np.arange(len(some)), some, length, True).numbers()
        for some in np.split(starts, range(count, len(starts), count))
    ]
