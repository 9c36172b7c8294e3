"""A label for every step of a sequence (S8 synced, S11): any input, any encoder, then softmax or a CRF.

    p(y | x) = product_t softmax(W h_t + b)[y_t]            softmax: every step for itself
    log p(y | x) = CRF(W h + b)[y]                          CRF: neighbours together (nn/crf.py)

Ma and Hovy (2016), "End-to-end Sequence Labeling via Bi-directional LSTM-CNNs-CRF".

>>> from harken.models.reader import Reader, TokenInput
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> model = TaggingModel(Reader(TokenInput(9, 8), RecurrentEncoder(embedding=8, width=4)), labels=3, crf=True)
>>> labels, chances = model.tag(torch.tensor([[4, 5, 6]]), None)
>>> labels.shape, chances.shape
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
    """Reader, emissions, and what makes labels of them."""

    def __init__(
        self, reader: Reader, labels: int, crf: bool = False, forbidden: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """
        Args:
            forbidden: for a CRF, moves (K, K) and beginnings (K,) that are never chosen.
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
        """-log p of labels (B, T), summed over the batch; smoothing is for softmax alone."""
        emissions = self(values, lengths)
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, labels, lengths).sum()
        if lengths is not None:
            labels = labels.masked_fill(~length_mask(lengths, labels.shape[1]), HIDDEN)
        return smoothed_cross_entropy(emissions.flatten(0, 1), labels.flatten(), smoothing, HIDDEN)

    @torch.no_grad()
    def tag(self, values: Any, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The best labels (B, T), and the chance of every label at every step (B, T, K)."""
        emissions = self(values, lengths)
        if self.crf is not None:
            return self.crf.viterbi_decode(emissions, lengths)[0], self.crf.marginals(emissions, lengths)
        chances = torch.softmax(emissions.float(), -1)
        return chances.argmax(-1), chances
