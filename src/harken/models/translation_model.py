"""What every translator has: embeddings, an output layer, a loss, and the decoder-step contract.

P(y | x) = product over t of P(y_t | y_<t, x) . A subclass says how sources become a state (`start`), how one
token moves it on (`step`), and how a whole target is read at once under teacher forcing (`forward`); `step` and
`forward` give the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.cross_entropy import linear_cross_entropy
from harken.models.decoder import State

PAD = 0  # the padding id of harken.data.tokenizers.tokens; models do not import data


class TranslationModel(nn.Module, ABC):
    """Source ids (B, S) with lengths (B,) in, target distributions out."""

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    output_bias: nn.Parameter | None
    output_weight: Tensor  # (V, D), perhaps the target embedding's own
    narrow: nn.Module  # from the decoder's width to that of a tied output matrix
    alignment_shift: bool = False  # see Decoder
    balances: bool = False  # whether experts want to be used evenly

    def build_vocabulary(
        self, sizes: tuple[int, int], widths: tuple[int, int], hidden_width: int, tied: str, bias: bool
    ) -> None:
        """Make the three vocabulary matrices, shared as `tied` says.

        Args:
            sizes: words of the source and of the target.
            widths: of their embeddings.
            hidden_width: of what the output layer gets.
            tied: "all", "output" or "none".
            bias: whether the output layer has one.

        Raises:
            ValueError: what is to be shared is not of one shape.
        """
        (source_size, target_size), (source_width, target_width) = sizes, widths
        if tied == "all" and source_size != target_size:
            raise ValueError("tied embeddings need one vocabulary for both sides: set tokenizer.joint = true")
        if tied == "all" and source_width != target_width:
            raise ValueError(
                f"tied embeddings need one width for both sides, but the encoder reads {source_width} and the decoder "
                f'{target_width}: make them equal, or set model.tied = "output"'
            )
        self.source_embedding = _embedding(source_size, source_width)
        self.target_embedding = self.source_embedding if tied == "all" else _embedding(target_size, target_width)
        self.output_bias = nn.Parameter(torch.zeros(target_size)) if bias else None
        if tied == "none":
            self.output_weight = nn.Parameter(torch.empty(target_size, hidden_width))
            nn.init.normal_(self.output_weight, std=hidden_width**-0.5)
        else:
            self.output_weight = self.target_embedding.weight
        differ = tied != "none" and target_width != hidden_width
        self.narrow = nn.Linear(hidden_width, target_width) if differ else nn.Identity()

    @abstractmethod
    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Source (B, S), target so far (B, T), BOS first -> hidden states (B, T, D) before the output layer.

        Lengths (B,) say where padding begins in each source; None says that there is none. Distances (B, S, S) are for
        positions that come with the data.
        """

    @abstractmethod
    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and the weighted sum of the experts' balances; real (B, T) says which target tokens count."""

    @abstractmethod
    def start(self, source: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> State:
        """Read the sources; the state before the first token."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any, Tensor | None]:
        """Tokens (B,) -> logits (B, V), the next state, attention (B, S) where there is any."""

    @abstractmethod
    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor | None:
        """All weights (B, L, N, T, S) of reading `target` under teacher forcing; None without attention."""

    @abstractmethod
    def alignment(self, weights: Tensor) -> Tensor:
        """What of `attention`'s (B, L, N, T, S) is read as word alignment: (B, T, S)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def loss(
        self,
        source: Tensor,
        lengths: Tensor | None,
        target: Tensor,
        wanted: Tensor,
        smoothing: float = 0.0,
        distances: Tensor | None = None,
    ) -> Tensor:
        """Summed loss over the real tokens of `wanted` (B, T), which is `target` one step ahead with EOS.

        In training, each of them also bears the weighted balance of experts, where there are any.
        """
        if not (self.training and self.balances):
            return self._loss_of_hidden(self(source, lengths, target, distances), wanted, smoothing)
        real = wanted != PAD
        hidden, uneven = self.forward_with_balance(source, lengths, target, real, distances)
        return self._loss_of_hidden(hidden, wanted, smoothing) + real.sum() * uneven

    def _loss_of_hidden(self, hidden: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        flat, wanted = hidden.reshape(-1, hidden.shape[-1]), wanted.reshape(-1)
        if flat.is_cuda:  # fixed shapes there, so that nothing waits for the count of real tokens
            logits = F.linear(flat, self.output_weight, self.output_bias).float()
            return F.cross_entropy(logits, wanted, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
        real = wanted != PAD
        if not bool(real.all()):
            flat, wanted = flat[real], wanted[real]
        return linear_cross_entropy(flat, self.output_weight, self.output_bias, wanted, smoothing)


def _embedding(size: int, width: int) -> nn.Embedding:
    """Drawn small, for the output layer that may share it; the padding's row is 0."""
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
