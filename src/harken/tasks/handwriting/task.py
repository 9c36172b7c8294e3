"""Handwriting as a task: drawings in batches of points, the negative log-likelihood of every next point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from harken.data.strokes.corpus import StrokeCorpus
from harken.data.strokes.rows import StrokeBatch, StrokeRows
from harken.data.tokenizers.base import Tokenizer
from harken.models.heads.handwriting import HandwritingModel
from harken.nn.masks import length_mask
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.training.task import Indices


class HandwritingBatch(NamedTuple):
    """Drawings, and their points without padding, counted before they are on a GPU."""

    drawn: StrokeBatch
    points: int


class HandwritingTask(SequenceTask[HandwritingModel, HandwritingBatch]):
    """See `harken.tasks.sequence_task`; a step is a point."""

    monitor = "nats"

    def __init__(
        self, recipe: HandwritingRecipe, corpus: StrokeCorpus, model: HandwritingModel, tokenizer: Tokenizer | None
    ) -> None:
        self.train = StrokeRows(corpus.splits["train"], tokenizer)
        self.valid = StrokeRows(corpus.splits["valid"], tokenizer)
        super().__init__(model, recipe.train, self.train.lengths, self.valid.lengths)
        model.fit(torch.from_numpy(self.train.flat[:, :2]))
        self.deviation = float(model.deviation)

    def collate(self, indices: Indices, valid: bool = False) -> HandwritingBatch:
        drawn = (self.valid if valid else self.train).batch(indices, self.deviation)
        return HandwritingBatch(drawn, int(drawn.lengths.sum()))

    def loss(self, model: HandwritingModel, batch: HandwritingBatch) -> tuple[Tensor, int]:
        """Nats, summed over all points."""
        return nats_of_rows(model, batch.drawn).sum(), batch.points

    def evaluate(self, model: HandwritingModel, batch: HandwritingBatch) -> Sums:
        return {"nats": float(nats_of_rows(model, batch.drawn).sum()), "points": batch.points}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Nats a point."""
        return {"nats": sums["nats"] / sums["points"]}


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
    """Drawings as `harken.inspection.measures.running` runs a network on them."""

    drawn: StrokeBatch

    def losses(self, network: HandwritingModel) -> tuple[Tensor, Tensor]:
        """Nats of every point (B, T), and the place of each drawing's last (B,)."""
        return nats_of_points(network, self.drawn), self.drawn.lengths - 1
