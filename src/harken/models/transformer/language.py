"""A Transformer as a language model: every token sees itself and what came before it.

x = E[w] + positions,   x = blocks(x), each token looking back,   P(w_{t+1} | ...) = softmax(E x_t + b)

Radford et al. (2018). Nothing is carried from one piece of a text to the next in training; in `step`, what was read is
kept as keys and values, so that nothing is read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harken.models.base import refuse_too_long
from harken.models.language.base import LanguageNetwork, Read
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.stack import Past, TransformerEncoder


@dataclass
class TransformerLanguageState:
    """Keys and values of the tokens so far, for each layer."""

    past: Past  # per layer: (B, N, tokens so far, K) twice

    def select(self, rows: Tensor) -> TransformerLanguageState:
        """Reorder, repeat or drop rows."""
        return TransformerLanguageState([(key[rows], value[rows]) for key, value in self.past])


class TransformerLanguage(LanguageNetwork):
    """Further arguments are those of `harken.nn.TransformerEncoder`."""

    def __init__(
        self,
        size: int,
        *,
        layers: int = 3,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        tied: bool = True,
        balance: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__()
        self.build_vocabulary(size, width, width, tied)
        self.width = width
        self.balance = balance if options.get("experts") else 0.0
        self.stack = TransformerEncoder(layers, width, heads, feedforward, causal=True, **options)

    def read(self, tokens: Tensor, state: TransformerLanguageState | None = None) -> Read:
        """A whole piece at once; after a state, token by token where it is one, else the piece with its past."""
        if state is None and self.training and self.balance:
            balance = Balance()
            hidden = self.stack(self._embed(tokens, 0), balance=balance)
            return Read(hidden, None, self.balance * balance.total())
        if state is None and self.training:
            return Read(self.stack(self._embed(tokens, 0)), None)
        past = state.past if state is not None else None
        start = past[0][0].shape[2] if past else 0
        hidden, now = self.stack.step(self._embed(tokens, start), past or None)
        return Read(hidden, TransformerLanguageState(now))

    def layers_of(self, tokens: Tensor, state: TransformerLanguageState | None = None) -> Tensor:
        """(L, B, T, D): what every block made, the last one normalised as the output layer sees it.

        A text is read from its beginning here, so there is no state.
        """
        values, made = self.stack.place(self._embed(tokens, 0)), []
        for block in self.stack.blocks:
            values = block(values, None, None, True)
            made.append(values)
        made[-1] = self.stack.norm(made[-1])
        return torch.stack(made)

    def start(self, rows: int) -> TransformerLanguageState:
        """Nothing was read."""
        return TransformerLanguageState([])

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        refuse_too_long(self.stack.positions, start + tokens.shape[1])
        return self.embedding(tokens) * math.sqrt(self.width)
