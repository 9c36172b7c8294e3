"""A Transformer as a language model: every token sees itself and earlier ones.

x = E[w] + positions      x = blocks(x), causal      P(w_{t+1} | w_1 .. w_t) = softmax(E x_t + b)

Radford et al. (2018). In training nothing is carried from one piece of a text to the next; `step` caches keys and
values, so that no token is read twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harken.models.base import refuse_too_long
from harken.models.language.base import LanguageNetwork, Read
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.stack import EncoderStack, KVCache, cached_length

if TYPE_CHECKING:
    from harken.models.language.config import TransformerLanguageConfig


@dataclass
class TransformerLanguageState:
    """Keys and values of the tokens so far, for each layer."""

    kv_cache: KVCache  # per layer: (B, N, tokens so far, K) twice

    def select(self, rows: Tensor) -> TransformerLanguageState:
        """Reorder, repeat or drop rows."""
        return TransformerLanguageState([(key[rows], value[rows]) for key, value in self.kv_cache])


class TransformerLanguage(LanguageNetwork):
    """A causal `harken.nn.EncoderStack` over `size` tokens."""

    def __init__(self, config: TransformerLanguageConfig, size: int) -> None:
        super().__init__()
        self.build_vocabulary(size, config.width, config.width, config.tied)
        self.width = config.width
        self.balance = config.balance if config.experts else 0.0
        self.stack = EncoderStack(config.layers, causal=True, **config.stack_options)

    def read(self, tokens: Tensor, state: TransformerLanguageState | None = None) -> Read:
        """A whole piece at once; after a state, the new tokens with the cache."""
        if state is None and self.training:
            balance = Balance() if self.balance else None
            hidden = self.stack(self._embed(tokens, 0), balance=balance)
            return Read(hidden, None, None if balance is None else self.balance * balance.total())
        kv_cache = state.kv_cache if state is not None else []
        hidden, kv_cache = self.stack.step(self._embed(tokens, cached_length(kv_cache)), kv_cache)
        return Read(hidden, TransformerLanguageState(kv_cache))

    def layers_of(self, tokens: Tensor, state: TransformerLanguageState | None = None) -> Tensor:
        """(L, B, T, D): the output of every block, the last one normalised as the output layer sees it.

        A text is read from its beginning here, so there is no state.
        """
        values, outputs = self.stack.add_positions(self._embed(tokens, 0)), []
        for block in self.stack.blocks:
            values = block(values, None, None, True)
            outputs.append(values)
        outputs[-1] = self.stack.norm(outputs[-1])
        return torch.stack(outputs)

    def start(self, rows: int) -> TransformerLanguageState:
        """Nothing was read."""
        return TransformerLanguageState([])

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        refuse_too_long(self.stack.positions, start + tokens.shape[1])
        return self.embedding(tokens) * math.sqrt(self.width)
