"""Tagging as a task: sentences in batches of words, cross-entropy or a CRF's likelihood, token accuracy, entity F1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.metrics.labels import Counts, is_bio, sentence_counts
from harken.models.heads.tagger import TaggingModel
from harken.tasks.by_length import ByLength, rows_of_part
from harken.tasks.context import ContextRows
from harken.tasks.tag.rows import FrameRows, WordRows
from harken.training.config import TrainConfig
from harken.training.task import Indices

Rows = WordRows | FrameRows | ContextRows


class TaggingTask(ByLength):
    """See `harken.training.task.Task`."""

    mode = "max"

    def __init__(
        self,
        settings: TrainConfig,
        model: TaggingModel,
        tags: Sequence[str],
        train: tuple[Rows, TokenRows],
        valid: tuple[Rows, TokenRows],
    ) -> None:
        self.settings, self.model, self.tags = settings, model, list(tags)
        self.train, self.train_labels = train
        self.valid, self.valid_labels = valid
        self.lengths = self.train.lengths
        self.bio = is_bio(tags)
        self.monitor = "f1" if self.bio else "accuracy"
        self.loss_of = torch.compile(model.loss, dynamic=True) if settings.compile else model.loss

    def size(self, examples: Indices) -> int:
        """Words."""
        return int(self.lengths[examples].sum())

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the words."""
        device = next(self.model.parameters()).device
        batch, lengths = self.train.gather(examples)
        labels, _ = self.train_labels.gather(examples)
        padded = None if int(lengths.min()) == labels.shape[1] else lengths.to(device)
        return self.loss_of(batch.to(device), padded, labels.to(device), self.settings.label_smoothing)

    def validate(self, part: int, parts: int) -> Any:
        """Loss, right words and, with BIO tags, entities of the sentences of the part."""
        device = next(self.model.parameters()).device
        loss, words, right, counts = 0.0, 0, 0, Counts()
        for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens):
            batch, lengths = self.valid.gather(examples)
            gold, _ = self.valid_labels.gather(examples)
            values, lengths = batch.to(device), lengths.to(device)
            loss += float(self.model.loss(values, lengths, gold.to(device)))
            found = self.model.tag(values, lengths)[0].cpu()
            for row, length in enumerate(lengths.tolist()):
                same = found[row, :length] == gold[row, :length]
                words, right = words + length, right + int(same.sum())
                if self.bio:
                    counts += sentence_counts(self._names(gold[row, :length]), self._names(found[row, :length]))
        return {"loss": loss, "words": words, "right": right, "counts": list(counts)}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss a word, the share of words that are right, and entity F1 where tags are BIO."""
        words = max(1, sum(result["words"] for result in results))
        scores = {
            "loss": sum(result["loss"] for result in results) / words,
            "accuracy": sum(result["right"] for result in results) / words,
        }
        if self.bio:
            counts = sum((Counts(*result["counts"]) for result in results), Counts())
            scores["f1"] = counts.f1
        return scores

    def _names(self, labels: Tensor) -> list[str]:
        return [self.tags[label] for label in labels.tolist()]
