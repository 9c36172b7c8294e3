"""Handwriting as a task: drawings in batches of points, the negative log-likelihood of every next point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.strokes.corpus import StrokeCorpus
from harken.data.strokes.rows import StrokeBatch, StrokeRows
from harken.data.tokenizers.base import Tokenizer
from harken.models.heads.handwriting import HandwritingModel
from harken.nn.masks import length_mask
from harken.tasks.by_length import ByLength, rows_of_part
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.training.task import Indices


class HandwritingTask(ByLength):
    """See `harken.training.task.Task`."""

    monitor = "nats"
    mode = "min"

    def __init__(
        self, recipe: HandwritingRecipe, corpus: StrokeCorpus, model: HandwritingModel, tokenizer: Tokenizer | None
    ) -> None:
        self.recipe, self.settings, self.model = recipe, recipe.train, model
        self.train = StrokeRows(corpus.splits["train"], tokenizer)
        self.valid = StrokeRows(corpus.splits["valid"], tokenizer)
        self.lengths = self.train.lengths
        self.deviation = float(model.deviation)

    def size(self, examples: Indices) -> int:
        """Points."""
        return int(self.lengths[examples].sum())

    def loss(self, examples: Indices) -> Tensor:
        """Nats, summed over all points."""
        return nats_of_rows(self.model, self._batch(self.train, examples)).sum()

    def validate(self, part: int, parts: int) -> Any:
        """Nats and points of one part of the validation drawings."""
        total, points = 0.0, 0
        for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens):
            total += float(nats_of_rows(self.model, self._batch(self.valid, examples)).sum())
            points += int(self.valid.lengths[examples].sum())
        return {"nats": total, "points": points}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Nats a point."""
        return {"nats": sum(result["nats"] for result in results) / sum(result["points"] for result in results)}

    def _batch(self, rows: StrokeRows, examples: np.ndarray) -> StrokeBatch:
        return rows.batch(examples, self.deviation).to(self.model.deviation.device)


def nats_of_rows(model: HandwritingModel, batch: StrokeBatch) -> Tensor:
    """-log p of each drawing (B,), its movements in units of the training data's deviation."""
    return nats_of_points(model, batch).sum(1)


def nats_of_points(model: HandwritingModel, batch: StrokeBatch) -> Tensor:
    """-log p of each point (B, T) after all before it; 0 after the end of a drawing."""
    written = model(batch.before, batch.characters, batch.character_lengths)
    with torch.autocast(batch.place.device.type, enabled=False):  # densities need all digits
        nats = -model.density(written).log_density(batch.place, batch.marks)  # (B, T)
    real = length_mask(batch.lengths, nats.shape[1])
    return torch.where(real, nats, 0.0)


@dataclass(frozen=True)
class DrawnBatch:
    """Drawings as `harken.inspection.running` runs a network on them."""

    drawn: StrokeBatch

    def losses(self, network: HandwritingModel) -> tuple[Tensor, Tensor]:
        """Nats of every point (B, T), and the place of each drawing's last (B,)."""
        return nats_of_points(network, self.drawn), self.drawn.lengths - 1
