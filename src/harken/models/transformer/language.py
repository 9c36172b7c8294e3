"""A Transformer as a language model: every token sees itself and earlier ones.

x = E[w] + positions      x = blocks(x), causal      P(w_{t+1} | w_1 .. w_t) = softmax(E x_t + b)

Radford et al. (2018). In training nothing is carried from one piece of a text to the next; `step` caches keys and
values, so that no token is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.models.base import CAPACITY, DecoderState, refuse_too_long
from harken.models.language.base import LanguageNetwork, Read
from harken.nn.attention.cached import StepCache, self_attention_step
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.block import EncoderBlock
from harken.nn.transformer.stack import EncoderStack, KVCache, cached_length

if TYPE_CHECKING:
    from harken.models.language.config import TransformerLanguageConfig


@dataclass
class TransformerLanguageState:
    """Keys and values of the tokens that `read` has read, for each layer."""

    kv_cache: KVCache  # per layer: (B, N, tokens so far, K) twice


@dataclass
class TransformerStepState(DecoderState):
    """Keys and values of the tokens so far, in a cache with room for more."""

    cache: StepCache
    beam: int = 1

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.cache.select_(function(torch.arange(self.cache.rows, device=self.cache.values.device)))

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        """There is no source."""

    def reorder_(self, beam_index: Tensor) -> None:
        self.cache.reorder_(beam_index)


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

    def start(self, rows: int, prompt: Tensor | None = None, max_length: int = CAPACITY) -> TransformerStepState:
        """A cache with the keys and values of the prompts."""
        attention, time = self.stack.blocks[0].attention, 0 if prompt is None else prompt.shape[1]
        layers, heads, like = len(self.stack.blocks), attention.heads, self.embedding.weight  # type: ignore[union-attr]
        cache = StepCache(layers, rows, heads, self.width // heads, time + min(max_length, CAPACITY), like)  # type: ignore[arg-type,operator]
        if prompt is not None and time:
            state = self.read(prompt, TransformerLanguageState([])).state
            cache.fill_(state.kv_cache)
        return TransformerStepState(cache)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row, with the cache: nothing is read again."""
        cache = state.cache
        values = self._embed(tokens[:, None], cache.length)[:, 0]  # (R, D)
        cache.advance_()
        if self.stack.positions is not None:
            values = values + self.stack.positions(1, cache.length - 1)
        for layer, block in enumerate(self.stack.blocks):
            assert isinstance(block, EncoderBlock)
            change, _ = self_attention_step(block.attention, block.before(block.attention_norm, values), cache, layer)
            values = block.feed_forward(block.after(block.attention_norm, values, change))
        return self.logits(self.narrow(self.stack.norm(values)))

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        refuse_too_long(self.stack.positions, start + tokens.shape[1])
        return self.embedding(tokens) * math.sqrt(self.width)
