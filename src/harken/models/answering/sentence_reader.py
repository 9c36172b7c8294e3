"""Sentences as vectors (B, W) -> (B, D), for models that look sentences up.

bag         m = sum_j E x_j
positions   m = sum_j l_j * E x_j, with l_kj = (1 - j/J) - (k/D) (1 - 2 j/J) for word j of J and entry k of D
gru, lstm   the last states of a layer that reads both ways, half of the width each

The weights of `positions` tell words apart by their place without a parameter: Sukhbaatar et al. (2015), section 4.1.

>>> reader = SentenceReader(10, 4, "positions")
>>> reader(torch.tensor([[5, 6, 0], [6, 5, 0]])).shape
torch.Size([2, 4])
>>> place_weights(torch.tensor([2]), 2, 4)[0, :, 0].tolist(), place_weights(torch.tensor([2]), 2, 4)[0, :, 3].tolist()
([0.5, 0.25], [0.5, 1.0])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn import GRU, LSTM

PAD = 0
SPREAD = 0.1  # the deviation that vectors of words are drawn with


def place_weights(lengths: Tensor, words: int, width: int) -> Tensor:
    """(B,) lengths -> (B, W, D): the weight of every entry of every word."""
    place = torch.arange(1, words + 1, device=lengths.device) / lengths.clamp(min=1)[:, None]  # (B, W), j / J
    entry = torch.arange(1, width + 1, device=lengths.device) / width  # (D,), k / D
    return (1 - place)[:, :, None] - entry * (1 - 2 * place)[:, :, None]


class SentenceReader(nn.Module):
    """Rows of word ids, filled up with PAD, as one vector each; a row of PAD alone is 0."""

    def __init__(self, vocabulary: int, width: int, kind: str, words: nn.Embedding | None = None) -> None:
        super().__init__()
        self.kind, self.width = kind, width
        self.words = words or nn.Embedding(vocabulary, width)
        if words is None:
            nn.init.normal_(self.words.weight, std=SPREAD)
        self.layer: nn.Module | None = None
        if kind in ("gru", "lstm"):
            if width % 2:
                raise ValueError(f"width {width} is odd; a reader in both directions gives each half of it")
            self.layer = (GRU if kind == "gru" else LSTM)(width, width // 2, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, W) -> (B, D)."""
        real = ids != PAD
        lengths = real.sum(1)  # (B,)
        values = self.words(ids) * real[:, :, None]  # (B, W, D)
        if self.layer is None:
            if self.kind == "positions":
                values = values * place_weights(lengths, ids.shape[1], self.width)
            return values.sum(1)
        _, last = self.layer(values, lengths=lengths.clamp(min=1))
        state = last[0] if isinstance(last, tuple) else last  # (2, B, D / 2)
        return state.transpose(0, 1).flatten(1) * (lengths > 0)[:, None]
