"""Sequence labelling: a label for every step, by softmax or a CRF over any encoder.

    p(y | x) = product_t softmax(W h_t + b)[y_t]            softmax: every step by itself
    log p(y | x) = CRF(W h + b)[y]                          CRF: with transitions between neighbours (nn/crf.py)

Ma and Hovy (2016), "End-to-end Sequence Labeling via Bi-directional LSTM-CNNs-CRF".

>>> from harken.models.reader import Reader, TokenInput
>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> encoder = RecurrentEncoder(RecurrentEncoderConfig(embedding=8, width=4))
>>> model = TaggingModel(Reader(TokenInput(9, 8), encoder), labels=3, crf=True)
>>> labels, probabilities = model.tag(torch.tensor([[4, 5, 6]]), None)
>>> labels.shape, probabilities.shape
(torch.Size([1, 3]), torch.Size([1, 3, 3]))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from harken.models.reader import Reader
from harken.nn.crf import CRF
from harken.nn.loss import smoothed_cross_entropy
from harken.nn.masks import length_mask

HIDDEN = -1  # no label: padding


class TaggingModel(nn.Module):
    """Reader, emissions, and softmax or a CRF."""

    def __init__(
        self, reader: Reader, labels: int, crf: bool = False, forbidden: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """
        Args:
            forbidden: for a CRF, transitions (K, K) and first labels (K,) that are never chosen.
        """
        super().__init__()
        self.reader = reader
        self.emit = nn.Linear(reader.width, labels)
        self.crf = CRF(labels, *(forbidden or ())) if crf else None

    def forward(self, values: Any, lengths: Tensor | None = None) -> Tensor:
        """Emissions (B, T, K)."""
        emissions: Tensor = self.emit(self.reader(values, lengths).values)
        return emissions

    def loss(self, values: Any, lengths: Tensor | None, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """-log p of labels (B, T), summed over the batch; label smoothing is for softmax alone."""
        emissions = self(values, lengths)
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, labels, lengths).sum()
        if lengths is not None:
            labels = labels.masked_fill(~length_mask(lengths, labels.shape[1]), HIDDEN)
        return smoothed_cross_entropy(emissions.flatten(0, 1), labels.flatten(), smoothing, HIDDEN)

    def dry_run(self, length: int) -> Tensor:
        """Emissions (1, T, K) of a sequence of `length` steps (`harken.models.sizing`)."""
        emissions: Tensor = self(self.reader.inputs.dummy(length))  # type: ignore[operator]
        return emissions

    @torch.no_grad()
    def tag(self, values: Any, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The best labels (B, T), and the probability of every label at every step (B, T, K)."""
        emissions = self(values, lengths)
        if self.crf is not None:
            return self.crf.viterbi_decode(emissions, lengths)[0], self.crf.marginals(emissions, lengths)
        probabilities = torch.softmax(emissions.float(), -1)
        return probabilities.argmax(-1), probabilities
