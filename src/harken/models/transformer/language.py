"""A Transformer as a language model: every token sees itself and earlier ones.

x = E[w] + positions      x = blocks(x), causal      P(w_{t+1} | w_1 .. w_t) = softmax(E x_t + b)

Radford et al. (2018). In training nothing is carried from one piece of a text to the next; `step` caches keys and
values, so that no token is read twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.models.base import CAPACITY, refuse_too_long
from harken.models.language.base import LanguageNetwork, Read
from harken.models.transformer.decoder import TransformerState
from harken.models.transformer.packed import PACKED_ROWS
from harken.nn.positions.absolute import LearnedPositions
from harken.nn.transformer.block import EncoderBlock
from harken.nn.transformer.experts import Balance
from harken.nn.transformer.stack import EncoderStack

if TYPE_CHECKING:
    from harken.models.language.config import TransformerLanguageConfig


class TransformerLanguage(LanguageNetwork):
    """A causal `harken.nn.EncoderStack` over `size` tokens."""

    def __init__(self, config: TransformerLanguageConfig, size: int) -> None:
        super().__init__()
        self.build_vocabulary(size, config.width, config.width, config.tied)
        self.width = config.width
        self.balance = config.balance if config.experts else 0.0
        self.stack = EncoderStack(config.layers, causal=True, **config.stack_options)
        self.is_static = not config.experts and not isinstance(self.stack.positions, LearnedPositions)

    def read(self, tokens: Tensor, state: TransformerState | None = None) -> Read:
        """A whole piece at once; after a state, the new tokens with the cache, which records no gradients."""
        if state is None and torch.is_grad_enabled():
            values, balance = self._embed(tokens, 0), Balance() if self.balance and self.training else None
            if PACKED_ROWS.supports(self.stack, tokens.device):
                hidden = PACKED_ROWS.run(self.stack, values)
            else:
                hidden = self.stack(values, balance=balance)
            penalty = None if balance is None else self.balance * balance.total()
            return Read(hidden, None if self.training else self.start(len(tokens), tokens), penalty)
        cache: Any = None if state is None else state.cache
        with torch.no_grad():
            hidden, cache = self.stack.step(self._embed(tokens, 0 if cache is None else cache.length), cache)
        return Read(hidden, TransformerState(cache))

    def layers_of(self, tokens: Tensor, state: TransformerState | None = None) -> Tensor:
        """(L, B, T, D): the output of every block, the last one normalised as the output layer sees it.

        A text is read from its beginning here, so there is no state.
        """
        outputs: list[Tensor] = []

        def call(layer: int, block: EncoderBlock, values: Tensor) -> tuple[Tensor, None]:
            outputs.append(block(values, None, None, True))
            return outputs[-1], None

        last, _ = self.stack.run(self.stack.add_positions(self._embed(tokens, 0)), call)
        return torch.stack([*outputs[:-1], last])

    def start(
        self, rows: int, prompt: Tensor | None = None, max_length: int = CAPACITY, static: bool = False
    ) -> TransformerState:
        """A cache with the keys and values of the prompts; with `static` there is none of them (`KVCache`)."""
        time = 0 if prompt is None else prompt.shape[1]
        capacity = max_length if static else time + min(max_length, CAPACITY)
        cache = self.stack.new_cache(rows, capacity, self.embedding.weight.detach(), static)
        if static:
            self.stack.reserve_positions(max_length)
            return TransformerState(cache)
        if prompt is not None and time:
            with torch.no_grad():
                self.stack.step(self._embed(prompt, 0), cache)
        return TransformerState(cache)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row, with the cache: nothing is read again."""
        hidden, _ = self.stack.step(self._embed(tokens[:, None], state.cache.length), state.cache)
        return self.logits(self.narrow(hidden[:, 0]))

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        refuse_too_long(self.stack.positions, start + tokens.shape[1])
        return self.embedding(tokens) * self.stack.embedding_scale
