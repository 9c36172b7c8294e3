"""Masked pre-training as a task: lines in batches of tokens, masked anew in every epoch, perplexity of masked tokens.

Which tokens are masked in training depends on the seed, the epoch and the place of a token in the corpus alone, and the
loss is the mean over the masked tokens of a whole batch. Both are the same however a batch is shared among workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.batching import Batches
from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.marks import forced_tokens, inner_tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.models.heads.masked import FIRST_WORD, Masked, MaskedModel, mask_tokens
from harken.tasks.sequence_task import SequenceTask, Sums, perplexity
from harken.training.config import TrainConfig
from harken.training.task import Indices

SEED = 12345  # of what is masked in validation: the same every time, so that scores compare


class MaskedBatch(NamedTuple):
    """Rows with some tokens masked."""

    ids: Tensor  # (B, T) the original tokens
    lengths: Tensor | None  # (B,); None where no row is padded
    masked: Masked
    total: int  # masked tokens


class MaskedTask(SequenceTask[MaskedModel, MaskedBatch]):
    """See `harken.tasks.sequence_task`; an index is `epoch * rows + row`, so that it says what is masked too."""

    unread = SequenceTask.unread | {"label_smoothing"}
    monitor = "perplexity"

    def __init__(
        self,
        settings: TrainConfig,
        model: MaskedModel,
        size: int,
        rate: float,
        train: TokenRows,
        valid: TokenRows,
        first: int = FIRST_WORD,
    ) -> None:
        super().__init__(model, settings, train.lengths, valid.lengths)
        self.rate, self.vocabulary, self.first = rate, size, first
        self.train, self.valid = train, MaskedRows(valid, size, rate, first)
        self.loss_of = self.compiled(model.loss)

    def epoch(self, number: int) -> Batches:
        batches = super().epoch(number)
        assert isinstance(batches, Batches)
        return batches.shifted(number * len(self.train))

    def share(self, indices: Indices, parts: int) -> list[Indices]:
        rows = indices % len(self.train)
        return [part + (indices - rows)[0] for part in super().share(rows, parts)]

    def size(self, indices: Indices) -> int:
        """Count the masked tokens."""
        ids, _ = self.train.gather(indices % len(self.train))
        return int(((self._draw(indices, ids, 0) < self.rate) & (ids >= self.first)).sum())

    def collate(self, indices: Indices, valid: bool = False) -> MaskedBatch:
        if valid:
            return self.valid.batch(indices)
        ids, lengths = self.train.gather(indices % len(self.train))
        draws = [self._draw(indices, ids, number) for number in range(3)]
        masked = mask_tokens(ids, self.vocabulary, self.rate, draws=draws, first_word=self.first)
        padded = int(lengths.min()) < ids.shape[1]
        return MaskedBatch(ids, lengths if padded else None, masked, int(masked.chosen.sum()))

    def loss(self, model: MaskedModel, batch: MaskedBatch) -> tuple[Tensor, int]:
        return self.loss_of(batch.ids, batch.lengths, batch.masked), batch.total

    def evaluate(self, model: MaskedModel, batch: MaskedBatch) -> Sums:
        losses, right, counts = row_scores(model, batch).T
        return {"loss": float(losses.sum()), "right": float(right.sum()), "words": float(counts.sum())}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss of a masked token, its perplexity, and the share of them that were predicted."""
        words = max(sums["words"], 1.0)
        loss = sums["loss"] / words
        return {"loss": loss, "perplexity": perplexity(loss), "accuracy": sums["right"] / words}

    def _draw(self, indices: Indices, ids: Tensor, number: int) -> Tensor:
        """(B, T): the first, second or third random number of every token, which `mask_tokens` uses."""
        epochs, rows = np.divmod(indices, len(self.train))
        starts = epochs * len(self.train.flat) + self.train.offsets[rows]
        positions = starts[:, None] + np.arange(ids.shape[1])
        return torch.from_numpy(uniform(3 * positions + number, self.settings.seed))


class MaskedRows:
    """Rows for validation, with tokens masked once and for all."""

    def __init__(self, rows: TokenRows, size: int, rate: float, first: int = FIRST_WORD) -> None:
        generator = torch.Generator().manual_seed(SEED)
        masked = mask_tokens(torch.from_numpy(rows.flat).long()[None], size, rate, generator, first_word=first)
        self.rows = rows
        self.inputs, self.chosen = (TokenRows(part[0].numpy(), rows.offsets) for part in masked)

    def batch(self, indices: Indices) -> MaskedBatch:
        """The chosen rows, padded."""
        ids, lengths = self.rows.gather(indices)
        chosen = self.chosen.gather(indices)[0].bool()
        return MaskedBatch(ids, lengths, Masked(self.inputs.gather(indices)[0], chosen), int(chosen.sum()))


def row_scores(model: MaskedModel, batch: MaskedBatch) -> np.ndarray:
    """(B, 3): summed loss, right predictions and masked tokens of each row."""
    chosen = batch.masked.chosen
    logits, labels = model(batch.masked.ids, batch.lengths, chosen).float(), batch.ids[chosen]  # (M, V), (M,)
    losses = torch.zeros(chosen.shape, device=logits.device)
    losses[chosen] = F.cross_entropy(logits, labels, reduction="none")
    right = torch.zeros_like(losses)
    right[chosen] = (logits.argmax(-1) == labels).float()
    return torch.stack([losses.sum(1), right.sum(1), chosen.sum(1).float()], 1).double().cpu().numpy()


def as_rows(lines: Sequence[str], tokenizer: Tokenizer, limit: int) -> TokenRows:
    """Ids of the lines in pieces of at most `limit`, the end of a line counted; each begins as a text does."""
    before = forced_tokens(tokenizer)
    limit -= len(before)

    def encode(columns: Columns) -> list[TokenRows]:
        wholes = ([*row, EOS] for row in inner_tokenizer(tokenizer).encode_all(columns[0]))
        starts = ((whole, start) for whole in wholes for start in range(0, len(whole), limit))
        return [TokenRows.from_lists([[*before, *whole[start : start + limit]] for whole, start in starts])]

    return rows_of(lines).encode({"text": id_type(tokenizer.size)}, encode, ["masked", tokenizer, limit])[0]


def first_word(tokenizer: Tokenizer) -> int:
    """The first id that is a word: behind the special ids and the token that begins every text."""
    return FIRST_WORD + len(forced_tokens(tokenizer))


def uniform(counters: np.ndarray, seed: int) -> np.ndarray:
    """A random number in [0, 1) for every counter: SplitMix64 (Steele et al., 2014), its sequence read at any place.

    >>> uniform(np.arange(2), seed=0).round(4).tolist(), uniform(np.arange(1, 2), seed=0).round(4).tolist()
    ([0.7497, 0.3724], [0.3724])
    """
    state = _mixed(np.array([seed + 1], np.uint64)) + (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    draws: np.ndarray = (_mixed(state) >> np.uint64(11)) * 2.0**-53
    return draws


GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / the golden ratio


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
