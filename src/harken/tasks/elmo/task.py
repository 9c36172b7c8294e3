"""ELMo as a task: sentences in batches of words, the words after and before every word, perplexity."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.models.heads.character_features import WordBatch
from harken.models.language.elmo import ElmoNetwork
from harken.tasks.elmo.rows import ElmoRows
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.training.config import TrainConfig
from harken.training.task import Indices


class ElmoBatch(NamedTuple):
    """Sentences from BOS to EOS."""

    words: WordBatch
    lengths: Tensor  # (B,)
    terms: int  # words to predict, in both directions


class ElmoTask(SequenceTask[ElmoNetwork, ElmoBatch]):
    """See `harken.tasks.sequence_task`."""

    monitor = "perplexity"

    def __init__(self, settings: TrainConfig, model: ElmoNetwork, train: ElmoRows, valid: ElmoRows) -> None:
        super().__init__(model, settings, train.lengths, valid.lengths)
        self.train, self.valid = train, valid
        self.loss_of = self.compiled(model.loss)

    def size(self, indices: Indices) -> int:
        """Words to predict, in both directions."""
        return int(2 * (self.lengths[indices] - 1).sum())

    def collate(self, indices: Indices, valid: bool = False) -> ElmoBatch:
        words, lengths = (self.valid if valid else self.train).gather(indices)
        return ElmoBatch(words, lengths, int(2 * (lengths - 1).sum()))

    def loss(self, model: ElmoNetwork, batch: ElmoBatch) -> tuple[Tensor, int]:
        return self.loss_of(batch.words, batch.lengths, self.settings.label_smoothing), batch.terms

    def evaluate(self, model: ElmoNetwork, batch: ElmoBatch) -> Sums:
        forward, backward = row_losses(model, batch.words, batch.lengths).sum(0).tolist()
        return {"forward": forward, "backward": backward, "terms": batch.terms}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss and perplexity of a word, and the perplexity of each direction."""
        words = sums["terms"] / 2
        losses = {f"{name}_perplexity": sums[name] / words for name in ("forward", "backward")}
        loss = sum(losses.values()) / 2
        perplexities = {name: math.exp(min(value, 50.0)) for name, value in {"perplexity": loss, **losses}.items()}
        return {"loss": loss, **perplexities}


def row_losses(model: ElmoNetwork, words: WordBatch, lengths: Tensor) -> np.ndarray:
    """(B, 2): the summed loss of each sentence, forward and backward."""
    counts = (lengths - 1).tolist()
    directions = []
    for hidden, wanted in model.top(words, lengths):
        losses = F.cross_entropy(model.output(hidden).float(), wanted, reduction="none").double().cpu()
        directions.append(torch.stack([part.sum() for part in losses.split(counts)]))
    return torch.stack(directions, 1).numpy()
