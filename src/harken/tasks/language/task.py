r"""Language modelling as a task: streams of text in chunks, cross-entropy, perplexity.

Ids: every line is ended by EOS where lines count, and an EOS stands before it all, so that a text begins as if a line
had ended before it. `text_ids` takes a text as it is: a line that is not ended gets no EOS.

Streams (truncated back-propagation through time):

    w1 w2 w3 w4 w5 w6 w7 w8 w9     in 2 streams, chunks of 2:      w1 w2 | w3 w4
                                                                   w5 w6 | w7 w8

A batch is one chunk of every stream; the next batch goes on where it ended, with the state that it left. Each pass
over the text begins at another token, so that the cuts fall elsewhere. Two numbers describe a chunk: its stream, its
length and whether it is the first of its pass in one, its start in the other; worker processes need no more than
these. Without streams (`independent`) chunks come in a drawn order and depend on nothing before them.

Recurrent networks carry their states from chunk to chunk: these are in `carried`, one row for each stream, and are
cut off from the gradient. A stream always goes to the same worker, which thus finds the state that it left.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.models.language.base import LanguageNetwork
from harken.models.recurrent.language import PARTS, RecurrentLanguageState
from harken.models.transformer.language import TransformerLanguage
from harken.models.transformer.packed import PACKED_ROWS
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.scoring import log_probabilities
from harken.tasks.sequence_task import Sums, merge_sums, perplexity
from harken.training.task import Indices

MOST_STREAMS, MAX_LENGTH = 1 << 14, 1 << 48  # 14 + 48 + 1 bits


def corpus_ids(tokenizer: Tokenizer, lines: Sequence[str], ended: bool) -> np.ndarray:
    """(N,) ids of the lines of a corpus, an EOS before them; `ended`: each has one, else they are joined by
    spaces, or by ends of lines where these are pieces."""
    between = "\n" if keeps_lines(tokenizer) else " "
    space = [] if ended else tokenizer.encode(between)

    def encode(columns: Columns) -> list[TokenRows]:
        texts = [f"{line}{between}" for line in columns[0]] if space else columns[0]
        return [TokenRows.encode(tokenizer, texts, eos=ended)]

    types, key = {"text": id_type(tokenizer.size)}, [tokenizer, ended]
    flat = rows_of(lines).encode(types, encode, key, prefix=(EOS,))[0].flat
    return flat[: max(1, len(flat) - len(space))]


def keeps_lines(tokenizer: Tokenizer) -> bool:
    """Whether ends of lines are pieces of text."""
    return getattr(tokenizer, "keeps_lines", False)


def text_ids(tokenizer: Tokenizer, text: str, lines: bool) -> np.ndarray:
    """(N,) ids of a text, an EOS before it."""
    if not lines and keeps_lines(tokenizer):
        return np.array([EOS, *tokenizer.encode(text)], dtype=np.int64)
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


VALID_ROWS = 16  # parts of the validation text that are read side by side


class StreamBatch(NamedTuple):
    """One chunk of some streams."""

    tokens: Tensor  # (B, T + 1)
    streams: Tensor  # (B,)
    first: bool  # of a pass: nothing was read before


class LanguageTask:
    """See `harken.training.task.Task`."""

    monitor = "loss"
    mode = "min"
    unread = frozenset({"validate_sentences"})
    smoothing = 0.0  # it raises the perplexity

    def __init__(self, recipe: LanguageRecipe, model: LanguageNetwork, train: np.ndarray, valid: np.ndarray) -> None:
        self.recipe, self.settings, self.model = recipe, recipe.train, model
        self.valid = valid.astype(np.int64, copy=False)
        self.ids = train  # (N,), memory-mapped where the text is large
        self.streams = fitting_streams(len(train), recipe.streams, recipe.data.chunk)
        self.carried = model.carried(self.streams) if recipe.carries else {}
        self.loss_of: Callable[..., Any] = torch.compile(model.loss) if recipe.train.compile else model.loss

    def epoch(self, number: int) -> Sequence[Indices]:
        """Chunk after chunk of all streams; or chunks in an order drawn for this epoch, where nothing is carried."""
        data, random = self.recipe.data, np.random.default_rng([self.settings.seed, number])
        if self.recipe.carries:
            return streams(len(self.ids), self.streams, data.chunk, random, data.vary)
        return independent(len(self.ids), self.streams, data.chunk, random)

    def size(self, examples: Indices) -> int:
        """Tokens to predict."""
        return total_length(examples)

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Deal chunks out by the number of their stream, so that a worker meets its own streams again."""
        return share_by_stream(examples, parts)

    def collate(self, indices: Indices) -> StreamBatch:
        chunks = Chunks.read(indices)
        positions = chunks.starts[:, None] + np.arange(chunks.length + 1)
        tokens = torch.from_numpy(self.ids[positions].astype(np.int64, copy=False))
        return StreamBatch(tokens, torch.from_numpy(chunks.streams), chunks.first)

    @property
    def static_shapes(self) -> int:
        """See `harken.training.strategies.captured`: batches of whole chunks, and the smaller one at the end."""
        if self.settings.compile or not isinstance(self.model, TransformerLanguage):
            return 0
        return 2 * PACKED_ROWS.supports(self.model.stack, torch.device(self.settings.device))

    def is_static(self, batch: StreamBatch) -> bool:
        """Whether batches of this shape come again."""
        return batch.tokens.shape[1] == self.recipe.data.chunk + 1

    def static_loss(self, model: LanguageNetwork, batch: StreamBatch) -> Tensor:
        """The loss of a static batch, without reading anything back from the GPU."""
        return self.loss(model, batch)[0]

    def loss(self, model: LanguageNetwork, batch: StreamBatch) -> tuple[Tensor, int]:
        """Summed over all tokens of the chunks; the states after them go into `carried`."""
        read, targets = batch.tokens[:, :-1], batch.tokens[:, 1:]
        state = self._state(batch.streams) if self.carried and not batch.first else None
        loss, state = self.loss_of(read, targets, state, self.settings.label_smoothing, self.settings.z_loss)
        if self.carried:
            self._carry(batch.streams, state)
        return loss, targets.numel()

    def _state(self, rows: Tensor) -> RecurrentLanguageState:
        """The states that the streams have reached."""
        depth = len(self.carried) // len(self._parts)
        return RecurrentLanguageState(
            [tuple(self.carried[f"{part}.{layer}"][rows] for part in self._parts) for layer in range(depth)]
        )

    @torch.no_grad()
    def _carry(self, rows: Tensor, state: RecurrentLanguageState) -> None:
        """Keep the states for the next chunk; NaN and infinity become 0, or they would stay for ever."""
        for depth, layer in enumerate(state.layers):
            for part, value in zip(self._parts, layer, strict=True):
                states = self.carried[f"{part}.{depth}"]
                states[rows] = value.to(states.dtype).nan_to_num(0.0, 0.0, 0.0)

    @property
    def _parts(self) -> tuple[str, ...]:
        return PARTS if "cell.0" in self.carried else PARTS[:1]

    def validate(self, part: int, parts: int) -> Sums:
        """Every worker reads its own piece of the validation text, in rows side by side."""
        cuts = np.linspace(0, len(self.valid) - 1, parts + 1).astype(int)
        mine = self.valid[cuts[part] : cuts[part + 1] + 1]
        rows = max(1, min(VALID_ROWS // parts, len(mine) // 64))
        log_probs = log_probabilities(self.model, mine, self.recipe.data.chunk, rows)
        return {"loss": float(-log_probs.sum()), "tokens": len(log_probs)}

    def score(self, results: list[Sums]) -> dict[str, float]:
        """Mean loss per token, and its perplexity."""
        sums = merge_sums(results)
        loss = sums["loss"] / max(1, sums["tokens"])
        return {"loss": loss, "perplexity": perplexity(loss)}
