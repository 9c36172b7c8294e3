"""Masked pre-training as a task: lines in batches of tokens, hidden words drawn anew, perplexity of what was hidden."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.models.heads.masked import Masked, MaskedModel, mask_tokens
from harken.tasks.by_length import ByLength, rows_of_part
from harken.training.config import TrainConfig
from harken.training.task import Indices

SEED = 12345  # of what is hidden in validation: the same in every validation, so that scores compare


class MaskedTask(ByLength):
    """See `harken.training.task.Task`."""

    monitor = "perplexity"
    mode = "min"

    def __init__(
        self, settings: TrainConfig, model: MaskedModel, size: int, rate: float, train: TokenRows, valid: TokenRows
    ) -> None:
        self.settings, self.model, self.rate, self.vocabulary = settings, model, rate, size
        self.train = train
        self.lengths = train.lengths
        self.valid, self.hidden = valid, hide_all(valid, size, rate)
        self.loss_of = torch.compile(model.loss, dynamic=True) if settings.compile else model.loss

    def size(self, examples: Indices) -> int:
        """Tokens that are read."""
        return int(self.lengths[examples].sum())

    def loss(self, examples: Indices) -> Tensor:
        """The mean over the hidden words, times the tokens that were read: how many are hidden is left to chance."""
        device = next(self.model.parameters()).device
        ids, lengths = self.train.gather(examples)
        padded = None if int(lengths.min()) == ids.shape[1] else lengths.to(device)
        masked = mask_tokens(ids, self.vocabulary, self.rate)
        share = self.size(examples) / max(1, int(masked.chosen.sum()))
        return self.loss_of(ids.to(device), padded, Masked(*(part.to(device) for part in masked))) * share

    def validate(self, part: int, parts: int) -> Any:
        """Loss and right guesses over the hidden words of the part."""
        counts = [
            score_rows(self.model, self.valid, self.hidden, examples)
            for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens)
        ]
        return [float(sum(column)) for column in zip(*(count for row in counts for count in row), strict=True)]

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss, its perplexity, and the share of hidden words that were guessed."""
        loss, right, words = (sum(column) for column in zip(*filter(None, results), strict=True))
        mean = loss / max(words, 1.0)
        return {"loss": mean, "perplexity": math.exp(min(mean, 50.0)), "accuracy": right / max(words, 1.0)}


def hide_all(rows: TokenRows, size: int, rate: float) -> tuple[TokenRows, TokenRows]:
    """What is read and what is asked for in validation, for all rows at once."""
    generator = torch.Generator().manual_seed(SEED)
    masked = mask_tokens(torch.from_numpy(rows.flat).long()[None], size, rate, generator)
    return TokenRows(masked.ids[0].numpy(), rows.offsets), TokenRows(masked.chosen[0].numpy(), rows.offsets)


@torch.no_grad()
def score_rows(
    model: MaskedModel, rows: TokenRows, hidden: tuple[TokenRows, TokenRows], examples: Indices
) -> list[tuple[float, float, float]]:
    """For each row: summed loss, right guesses, hidden words."""
    device = next(model.parameters()).device
    gold, lengths = rows.gather(examples)
    ids, chosen = (part.gather(examples)[0].to(device) for part in hidden)
    asked = chosen.bool()
    logits = model(ids, lengths.to(device), asked).float()  # (M, V)
    wanted = gold.to(device)[asked]
    losses = torch.zeros(asked.shape, device=device)
    losses[asked] = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
    right = torch.zeros_like(losses)
    right[asked] = (logits.argmax(-1) == wanted).float()
    columns = (losses.sum(1).tolist(), right.sum(1).tolist(), asked.sum(1).float().tolist())
    return list(zip(*columns, strict=True))
