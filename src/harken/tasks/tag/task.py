"""Tagging as a task: sentences in batches of words, cross-entropy or a CRF's likelihood, token accuracy, entity F1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from harken.data.io.frame_rows import FrameRows
from harken.data.io.token_rows import TokenRows
from harken.metrics.labels import Counts, is_bio, sentence_counts
from harken.models.heads.tagger import TaggingModel
from harken.tasks.context import ContextRows
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.tasks.words import WordRows
from harken.training.config import TrainConfig
from harken.training.task import Indices

Rows = WordRows | FrameRows | ContextRows


class TagBatch(NamedTuple):
    """Sentences with a label for every word; `harken.inspection.measures.running` runs a network on it too."""

    values: Any  # what the reader's input takes
    lengths: Tensor  # (B,)
    labels: Tensor  # (B, T)
    words: int  # without padding

    def predictions(self, model: TaggingModel) -> tuple[Tensor, Tensor, Tensor]:
        """Emissions (B, T, K), the labels, and the place of each row's last word (B,)."""
        return model(self.values, self.lengths), self.labels, self.lengths - 1


class TaggingTask(SequenceTask[TaggingModel, TagBatch]):
    """See `harken.tasks.sequence_task`."""

    mode = "max"

    def __init__(
        self,
        settings: TrainConfig,
        model: TaggingModel,
        tags: Sequence[str],
        train: tuple[Rows, TokenRows],
        valid: tuple[Rows, TokenRows],
    ) -> None:
        super().__init__(model, settings, train[0].lengths, valid[0].lengths)
        self.smallest_batch = 700  # words
        self.train, self.valid = train, valid
        self.tags, self.bio = np.array(tags), is_bio(tags)
        self.monitor = "f1" if self.bio else "accuracy"
        self.loss_of = self.compiled(model.loss)

    def collate(self, indices: Indices, valid: bool = False) -> TagBatch:
        rows, labels = self.valid if valid else self.train
        values, lengths = rows.gather(indices)
        return TagBatch(values, lengths, labels.gather(indices)[0], int(lengths.sum()))

    def loss(self, model: TaggingModel, batch: TagBatch) -> tuple[Tensor, int]:
        padded = batch.words < batch.labels.numel()
        lengths = batch.lengths if padded else None
        return self.loss_of(batch.values, lengths, batch.labels, self.settings.label_smoothing), batch.words

    def evaluate(self, model: TaggingModel, batch: TagBatch) -> Sums:
        """Loss, words with the right tag and, with BIO tags, entities."""
        loss = float(model.loss(batch.values, batch.lengths, batch.labels))
        found, gold = model.tag(batch.values, batch.lengths)[0].cpu().numpy(), batch.labels.cpu().numpy()
        right, counts = 0, Counts()
        for row, length in enumerate(batch.lengths.tolist()):
            predicted, true = found[row, :length], gold[row, :length]
            right += int((predicted == true).sum())
            if self.bio:
                counts += sentence_counts(self.tags[true].tolist(), self.tags[predicted].tolist())
        return {"loss": loss, "words": batch.words, "right": right, **counts._asdict()}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss a word, the share of words that are right, and entity F1 where tags are BIO."""
        words = max(1, sums["words"])
        scores = {"loss": sums["loss"] / words, "accuracy": sums["right"] / words}
        if self.bio:
            scores["f1"] = Counts(*(sums[name] for name in Counts._fields)).f1
        return scores
