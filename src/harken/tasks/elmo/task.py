"""ELMo as a task: sentences in batches of words, the words after and before every word, perplexity."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.models.language.elmo import ElmoNetwork
from harken.tasks.by_length import ByLength, rows_of_part
from harken.tasks.elmo.rows import ElmoRows
from harken.training.config import TrainConfig
from harken.training.task import Indices


class ElmoTask(ByLength):
    """See `harken.training.task.Task`."""

    monitor = "perplexity"
    mode = "min"

    def __init__(self, settings: TrainConfig, model: ElmoNetwork, train: ElmoRows, valid: ElmoRows) -> None:
        self.settings, self.model = settings, model
        self.train, self.valid = train, valid
        self.lengths = train.lengths
        self.loss_of = torch.compile(model.loss, dynamic=True) if settings.compile else model.loss

    def size(self, examples: Indices) -> int:
        """Words to predict, in both directions."""
        return int(2 * (self.lengths[examples] - 1).sum())

    def loss(self, examples: Indices) -> Tensor:
        """Summed over them."""
        device = next(self.model.parameters()).device
        batch, lengths = self.train.gather(examples)
        return self.loss_of(batch.to(device), lengths.to(device), self.settings.label_smoothing)

    def validate(self, part: int, parts: int) -> Any:
        """Summed loss of each direction over the part, and words."""
        found = [
            count
            for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens)
            for count in score_rows(self.model, self.valid, examples)
        ]
        return [float(sum(column)) for column in zip(*found, strict=True)]

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss and perplexity of a word, and the perplexity of each direction."""
        ahead, back, words = (sum(column) for column in zip(*filter(None, results), strict=True))
        losses = {"": (ahead + back) / (2 * words), "forward_": ahead / words, "backward_": back / words}
        perplexities = {f"{name}perplexity": math.exp(min(loss, 50.0)) for name, loss in losses.items()}
        return {"loss": losses[""], **perplexities}


@torch.no_grad()
def score_rows(model: ElmoNetwork, rows: ElmoRows, examples: Indices) -> list[tuple[float, float, float]]:
    """For each row: summed loss forward and backward, and the words of one direction."""
    device = next(model.parameters()).device
    batch, lengths = rows.gather(examples)
    counts = lengths - 1
    found = []
    for hidden, wanted in model.top(batch.to(device), lengths.to(device)):
        losses = F.cross_entropy(model.output(hidden).float(), wanted, reduction="none").double().cpu()
        found.append([float(part.sum()) for part in losses.split(counts.tolist())])
    return list(zip(*found, counts.tolist(), strict=True))
