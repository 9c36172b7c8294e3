"""Batches of labelled examples: what the tasks of classification and regression share."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from harken.tasks.labelled.reading import Rows
from harken.tasks.sequence_task import SequenceTask
from harken.training.config import TrainConfig
from harken.training.task import Indices

M = TypeVar("M", bound=nn.Module)
Split = tuple[Rows, np.ndarray]  # examples, and a target for each: labels (N,), or values (N, K) of float32


class LabelledBatch(NamedTuple):
    """Padded examples with their targets."""

    values: Any  # (B, T) ids, with the layers of a context or without, or (B, T, C) frames
    lengths: Tensor | None  # (B,); None where no row is padded
    targets: Tensor  # (B,) or (B, K)


class LabelledTask(SequenceTask[M, LabelledBatch]):
    """One answer for each example, so an example is one term of the loss."""

    def __init__(self, model: M, settings: TrainConfig, train: Split, valid: Split) -> None:
        super().__init__(model, settings, train[0].lengths, valid[0].lengths)
        self.train, self.valid = train, valid
        self.smallest_batch = max(256, round(32 * float(self.lengths.mean())))  # about 32 examples

    def collate(self, indices: Indices, valid: bool = False) -> LabelledBatch:
        rows, targets = self.valid if valid else self.train
        values, lengths = rows.gather(indices)
        padded = int(lengths.min()) < values.shape[1]
        chosen = targets[indices]
        chosen = chosen.astype(np.int64) if chosen.dtype.kind in "iu" else chosen
        return LabelledBatch(values, lengths if padded else None, torch.from_numpy(chosen))

    def size(self, indices: Indices) -> int:
        """Examples."""
        return len(indices)
