"""The base class of language models: an embedding, layers that read from left to right, an output layer, a loss.

P(w_1 .. w_T) = product over t of P(w_t | w_1 .. w_{t-1}),   loss = - sum over t of log P(w_t | ...)

A subclass implements `read`, a piece of text after a state; `step` reads one token, which is the contract of search
and sampling. Reading a text in pieces gives the same numbers as reading it at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.models.base import CAPACITY, DecoderState, token_embedding
from harken.nn.loss import linear_cross_entropy


class Read(NamedTuple):
    """The result of reading a piece of text."""

    hidden: Tensor  # (B, T, O), what the output layer sees
    state: Any  # after the last token
    penalty: Tensor | None = None  # regularisation added to the loss of each token, in training alone


class LanguageNetwork(nn.Module, ABC):
    """Ids (B, T) in, distributions over the next token out."""

    embedding: nn.Embedding
    output_weight: Tensor  # (V, O), perhaps the embedding's own
    output_bias: nn.Parameter
    is_static: bool = False  # whether `start` takes `static=True`: a state of fixed shapes and addresses
    narrow: nn.Module  # from the top layer's width to that of a tied output matrix

    def build_vocabulary(self, size: int, width: int, hidden_width: int, tied: bool) -> None:
        """Embedding (V, width) and output layer over a top layer of `hidden_width`."""
        self.embedding = token_embedding(size, width)
        self.output_bias = nn.Parameter(torch.zeros(size))
        if tied:
            self.output_weight = self.embedding.weight
            self.narrow = nn.Linear(hidden_width, width) if width != hidden_width else nn.Identity()
        else:
            self.output_weight = nn.Parameter(torch.empty(size, hidden_width))
            nn.init.normal_(self.output_weight, std=hidden_width**-0.5)
            self.narrow = nn.Identity()

    @abstractmethod
    def read(self, tokens: Tensor, state: Any = None) -> Read:
        """Tokens (B, T) after what `state` has seen; None: nothing was read before."""

    @abstractmethod
    def layers_of(self, tokens: Tensor, state: Any = None) -> Tensor:
        """The states of every layer, the lowest first: (L, B, T, W)."""

    @abstractmethod
    def start(
        self, rows: int, prompt: Tensor | None = None, max_length: int = CAPACITY, static: bool = False
    ) -> DecoderState:
        """The state of `rows` rows before the first token, or after prompts (rows, T); room for `max_length` more."""

    def carried(self, rows: int) -> dict[str, Tensor]:
        """Named zero tensors for the state of `rows` streams between batches; empty where no state is carried."""
        return {}

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """(B, T) -> hidden (B, T, O), the state after the last token."""
        result = self.read(tokens, state)
        return result.hidden, result.state

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row (R,) -> logits of the next (R, V); changes the state in place (`harken.search.contract`)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., O) -> (..., V)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def loss(
        self, tokens: Tensor, targets: Tensor, state: Any = None, smoothing: float = 0.0, z_loss: float = 0.0
    ) -> tuple[Tensor, Any]:
        """Summed over `targets` (B, T), which is `tokens` one step ahead; and the state after the last token."""
        result = self.read(tokens, state)
        flat, targets = result.hidden.flatten(0, 1), targets.flatten()
        total = linear_cross_entropy(flat, self.output_weight, self.output_bias, targets, smoothing, z_loss)
        return total if result.penalty is None else total + targets.numel() * result.penalty, result.state

    def dry_run(self, length: int) -> Tensor:
        """Logits (1, T, V) of a text of `length` tokens (`harken.models.sizing`)."""
        ids = torch.ones(1, length, dtype=torch.long, device=self.output_bias.device)
        return self.logits(self(ids)[0])
