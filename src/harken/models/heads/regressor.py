"""Sequence regression: encode, pool, and one linear layer, in units of the training values.

y = mean + deviation (W dropout(pool(h_1 .. h_T)) + b)

>>> from harken.models.reader import FrameInput, Reader
>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> reader = Reader(FrameInput(3, 8), RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=4)))
>>> model = RegressorModel(ClassifierModel(reader, labels=1, pooling="mean"))
>>> model.fit_values(torch.tensor([[10.0], [30.0]]))
>>> model.mean.tolist(), model.deviation.tolist(), model(torch.zeros(2, 5, 3), None).shape
([20.0], [10.0], torch.Size([2, 1]))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from harken.models.heads.classifier import ClassifierModel


class RegressorModel(nn.Module):
    """Ids (B, T) or frames (B, T, C) -> values (B, K); the network is a classifier's without its softmax."""

    def __init__(self, network: ClassifierModel) -> None:
        super().__init__()
        self.network = network
        outputs = network.output.out_features
        self.mean = nn.Parameter(torch.zeros(outputs), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(outputs), requires_grad=False)

    def fit_values(self, values: Tensor) -> None:
        """Mean and deviation of the training values (N, K); a constant one is not scaled."""
        with torch.no_grad():
            self.mean.copy_(values.double().mean(0))
            deviation = values.double().std(0, correction=0)
            self.deviation.copy_(torch.where(deviation > 1e-12, deviation, 1.0))

    def forward(self, values: Any, lengths: Tensor | None) -> Tensor:
        """In the units of the training values."""
        return self.mean + self.deviation * self.standard(values, lengths)

    def standard(self, values: Any, lengths: Tensor | None) -> Tensor:
        """Standardised, as the loss uses them."""
        standardised: Tensor = self.network(values, lengths)[0]
        return standardised

    def dry_run(self, length: int) -> Tensor:
        """Values (1, K) of a sequence of `length` steps (`harken.models.sizing`)."""
        return self.network.dry_run(length)
