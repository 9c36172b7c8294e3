"""Recurrent language model.

e_t = E[w_t],   h_t = layers(h_{t-1}, e_t),   P(w_{t+1} | w_1 .. w_t) = softmax(E h_t + b)

Regularisation in training (Merity et al., 2018, "Regularizing and Optimizing LSTM Language Models"): weight drop on
the recurrent matrices, variational dropout on embeddings, between layers and before the output, word dropout on the
embedding (Gal and Ghahramani, 2016), and the penalties a mean |m * h_t|^2 on the top layer's activations and
b mean |h_t - h_{t-1}|^2 on their change. With `tied` the output layer shares the embedding.

>>> from harken.models.recurrent.config import RecurrentLanguageConfig
>>> model = RecurrentLanguage(RecurrentLanguageConfig(embedding=4, width=6), size=10)
>>> hidden, state = model(torch.tensor([[4, 5, 6]]))
>>> model.logits(hidden).shape, state.layers[0][0].shape
(torch.Size([1, 3, 10]), torch.Size([1, 6]))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.models.base import CAPACITY, DecoderState
from harken.models.language.base import LanguageNetwork, Read
from harken.models.recurrent.encoder import make_connections, make_dropout, make_layer
from harken.nn.recurrent.cell import State
from harken.nn.recurrent.regularization import call_with_dropped_weights

if TYPE_CHECKING:
    from harken.models.recurrent.config import RecurrentLanguageConfig

PARTS = ("hidden", "cell")


@dataclass
class RecurrentLanguageState(DecoderState):
    """(h,) or (h, c) of every layer, each (B, H)."""

    layers: list[State]
    beam: int = 1

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.layers = [tuple(function(part) for part in layer) for layer in self.layers]

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        """There is no source."""


class RecurrentLanguage(LanguageNetwork):
    """See the module's docstring; `size` is V."""

    is_static = True

    def __init__(self, config: RecurrentLanguageConfig, size: int) -> None:
        super().__init__()
        self.config, embedding = config, config.embedding
        self.connections = make_connections(config)
        self.widths = [config.width] * (config.layers - 1) + [embedding if config.top == "embedding" else config.width]
        self.build_vocabulary(size, embedding, self.widths[-1], config.tied)
        self.scale = math.sqrt(embedding)  # embeddings are small, for the output layer that may share them
        self.layers = nn.ModuleList(
            make_layer(config, inputs, width)
            for inputs, width in zip(self.connections.input_sizes, self.widths, strict=True)
        )
        between = config.dropout if config.dropout_between is None else config.dropout_between
        self.dropout, self.between = make_dropout(config, config.dropout), make_dropout(config, between)

    def read(self, tokens: Tensor, state: RecurrentLanguageState | None = None) -> Read:
        """One layer after the other over the whole piece."""
        below, last = self._layers(tokens, state)
        hidden = self.dropout(below[-1])  # (B, T, H)
        penalty = self._penalty(below[-1], hidden) if self.training else None
        return Read(self.narrow(hidden), RecurrentLanguageState(last), penalty)

    def layers_of(self, tokens: Tensor, state: RecurrentLanguageState | None = None) -> Tensor:
        """(L, B, T, H); a narrower top layer is padded with zeros."""
        outputs, width = self._layers(tokens, state)[0][1:], max(self.widths)
        return torch.stack([nn.functional.pad(output, (0, width - output.shape[-1])) for output in outputs])

    def start(
        self, rows: int, prompt: Tensor | None = None, max_length: int = CAPACITY, static: bool = False
    ) -> RecurrentLanguageState:
        """Zeros, or the state after the prompts; it is always static."""
        weight = self.embedding.weight
        state = RecurrentLanguageState(
            [tuple(weight.new_zeros(rows, width) for _ in range(self.config.parts)) for width in self.widths]
        )
        return state if prompt is None or not prompt.shape[1] else self(prompt, state)[1]

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token a row."""
        hidden, after = self(tokens[:, None], state)
        for old, new in zip(state.layers, after.layers, strict=True):
            for part, value in zip(old, new, strict=True):
                part.copy_(value)
        return self.logits(hidden[:, 0])

    def carried(self, rows: int) -> dict[str, Tensor]:
        """`hidden.0`, `cell.0` ... of every layer, (rows, H), in float32."""
        return {
            f"{part}.{depth}": torch.zeros(rows, width)
            for depth, width in enumerate(self.widths)
            for part in PARTS[: self.config.parts]
        }

    def _layers(self, tokens: Tensor, state: RecurrentLanguageState | None) -> tuple[list[Tensor], list[State]]:
        """The input and the outputs of each layer (B, T, H), and the last state of each layer."""
        embedded = self.embedding(tokens) * self.scale  # (B, T, E)
        keep = self._kept_words(embedded)
        below, states = [embedded if keep is None else embedded * keep[tokens][:, :, None]], []
        for depth, layer in enumerate(self.layers):
            inputs = (self.between if depth else self.dropout)(self.connections.into(below))
            begin = None if state is None else _for_layer([part.to(inputs.dtype) for part in state.layers[depth]])
            outputs, last = call_with_dropped_weights(layer, self.config.weight_drop, inputs, begin)
            below.append(self.connections.out(depth, below, outputs))
            states.append(tuple(part[0] for part in (last if isinstance(last, tuple) else (last,))))
        return below, states

    def _kept_words(self, like: Tensor) -> Tensor | None:
        """(V,): 0 for the words that are dropped in the whole batch, 1 / (1 - p) for all others."""
        if not self.training or self.config.word_dropout == 0:
            return None
        share = 1 - self.config.word_dropout
        return like.new_empty(self.embedding.num_embeddings).bernoulli_(share).div_(share)

    def _penalty(self, states: Tensor, dropped: Tensor) -> Tensor | None:
        """Per token, from the top layer's states before and after dropout (B, T, H)."""
        if not (self.config.activation_penalty or self.config.temporal_penalty):
            return None
        penalty = self.config.activation_penalty * dropped.float().square().mean()
        if states.shape[1] > 1:
            penalty = penalty + self.config.temporal_penalty * (states[:, 1:] - states[:, :-1]).float().square().mean()
        return penalty


def _for_layer(state: Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """h, or (h, c), with torch's axis of layers."""
    parts = tuple(part[None] for part in state)
    return parts if len(parts) > 1 else parts[0]
