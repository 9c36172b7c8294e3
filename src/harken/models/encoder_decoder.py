"""What every encoder-decoder has: embeddings, an output layer, a loss, and the decoder-step contract.

P(y | x) = product over t of P(y_t | y_<t, x)  (S17). A subclass says how sources become a state (`start`), how one
token moves it on (`step`), and how a whole target is read at once under teacher forcing (`forward`); `step` and
`forward` give the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.cross_entropy import linear_cross_entropy

PAD = 0  # the padding id of harken.data.tokens; models do not import data


class State(Protocol):
    """What a decoder carries from step to step, one row for each hypothesis."""

    def select(self, rows: Tensor) -> Self:
        """Reorder, repeat or drop rows."""


class EncoderDecoder(nn.Module, ABC):
    """Source ids (B, S) with lengths (B,) in, target distributions out."""

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    output_bias: nn.Parameter | None
    output_weight: Tensor  # (V, D), perhaps the target embedding's own
    alignment_shift: bool = False  # alignment of a word stands where the decoder reads it, one step after predicting it

    def build_embeddings(self, source_size: int, target_size: int, width: int, output_width: int, tied: str) -> None:
        """Make the three vocabulary matrices, shared as `tied` says."""
        self.source_embedding = nn.Embedding(source_size, width, padding_idx=PAD)
        if tied == "all":
            if source_size != target_size:
                raise ValueError("tied embeddings need one vocabulary for both sides: set tokenizer.joint = true")
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = nn.Embedding(target_size, width, padding_idx=PAD)
        for embedding in dict.fromkeys((self.source_embedding, self.target_embedding)):  # each once, in this order
            nn.init.normal_(embedding.weight, std=width**-0.5)
            with torch.no_grad():
                embedding.weight[PAD].zero_()
        if tied == "none":
            self.output_weight = nn.Parameter(torch.empty(target_size, output_width))
            nn.init.normal_(self.output_weight, std=output_width**-0.5)
        else:
            self.output_weight = self.target_embedding.weight

    @abstractmethod
    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Source (B, S), target so far (B, T), BOS first -> hidden states (B, T, D) before the output layer.

        Lengths (B,) say where padding begins in each source; None says that there is none.
        """

    @abstractmethod
    def start(self, source: Tensor, lengths: Tensor | None) -> State:
        """Read the sources; the state before the first token."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """Tokens (B,) -> logits (B, V), the next state, attention (B, S) where there is any."""

    @abstractmethod
    def attention(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor | None:
        """All weights (B, L, N, T, S) of reading `target` under teacher forcing; None without attention."""

    @abstractmethod
    def alignment(self, weights: Tensor) -> Tensor:
        """What of `attention`'s (B, L, N, T, S) is read as word alignment: (B, T, S)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def loss(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, wanted: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed loss over the real tokens of `wanted` (B, T), which is `target` one step ahead with EOS."""
        hidden = self(source, lengths, target)
        flat, wanted = hidden.reshape(-1, hidden.shape[-1]), wanted.reshape(-1)
        if flat.is_cuda:  # fixed shapes there, so that nothing waits for the count of real tokens
            logits = F.linear(flat, self.output_weight, self.output_bias).float()
            return F.cross_entropy(logits, wanted, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
        real = wanted != PAD
        if not bool(real.all()):
            flat, wanted = flat[real], wanted[real]
        return linear_cross_entropy(flat, self.output_weight, self.output_bias, wanted, smoothing)
