"""Recurrent decoder, with attention or with the encoder's last state alone.

    s_0 = tanh(W h_S)                                the bridge, one per layer

attend = "after" (Luong et al., 2015), with input feeding of the last attentional state o_{t-1}:

    s_t = cell([y_{t-1}; o_{t-1}], s_{t-1})
    e_ti = score(s_t, h_i)    a_t = softmax(e_t)    c_t = sum_i a_ti h_i
    o_t = tanh(W_c [c_t; s_t])

attend = "before" (Bahdanau et al., 2015): the last state is the query, and the step reads the context:

    e_ti = score(s_{t-1}, h_i)    a_t = softmax(e_t)    c_t = sum_i a_ti h_i
    s_t = cell([y_{t-1}; c_t], s_{t-1})
    o_t = tanh(W_c [c_t; s_t])

attention = "none" (Sutskever et al., 2014): o_t = s_t; with context = "constant" every step also reads c = h_S (Cho et
al., 2014). An encoder without a last state gives the mean of its memory instead.

The context goes to the first layer, or with context_to = "all" to every layer; look_from is the layer whose state is
the query (Wu et al., 2016). With coverage the additive score also sees the sum of earlier weights (Tu et al., 2016).

`advance` is these equations, `step` the same on a state in place, and `reference` a loop over it. `forward` gives the
same numbers and gradients faster (`harken.models.recurrent.loop`), and applies dropout, recurrent dropout and zoneout
in training.

>>> from harken.models.recurrent.config import RecurrentDecoderConfig
>>> decoder = RecurrentDecoder(RecurrentDecoderConfig(embedding=4, width=6)).eval()
>>> memory, embedded = Memory(torch.randn(2, 5, 6), None), torch.randn(2, 3, 4)
>>> bool(torch.allclose(decoder(embedded, memory), decoder.reference(embedded, memory)[0], atol=1e-6))
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.kernels.cuda_graphs import can_capture
from harken.models.base import CAPACITY, Decoder, DecoderState, Memory
from harken.models.recurrent import loop
from harken.models.recurrent.encoder import make_cell, make_connections, make_dropout
from harken.nn.attention.functional import Attention
from harken.nn.attention.scores import AdditiveScore
from harken.nn.recurrent.cell import Cell, State
from harken.registry import SCORES

if TYPE_CHECKING:
    from harken.models.recurrent.config import RecurrentStackConfig


@dataclass
class RecurrentState(DecoderState):
    """What the decoder carries from step to step, and the memory it attends to."""

    layers: list[State]  # s of each layer: (h,) or (h, c), each (R, H)
    feed: Tensor | None  # (R, H) the last attentional state o, or the constant context
    keys: Tensor | None  # (B, S, A) the memory as the score sees it
    memory: Tensor | None  # (B, S, H)
    mask: Tensor | None  # (B, S)
    coverage: Tensor | None = None  # (R, S) the sum of earlier weights

    beam: int = 1
    need_weights: bool = False
    attention: Tensor | None = None  # (R, S) of the last step

    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.layers = [tuple(function(part) for part in layer) for layer in self.layers]
        self.feed = None if self.feed is None else function(self.feed)
        self.coverage = None if self.coverage is None else function(self.coverage)

    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        self.keys = None if self.keys is None else function(self.keys)
        self.memory = None if self.memory is None else function(self.memory)
        self.mask = None if self.mask is None else function(self.mask)


class RecurrentDecoder(Decoder):
    """See the module's docstring."""

    traceable = True
    output_bias = True
    is_static = True

    def __init__(self, config: RecurrentStackConfig) -> None:
        super().__init__()
        width, attends = config.width, config.attention != "none"
        self.config, self.attends = config, attends
        self.embedding, self.width, self.memory_width = config.embedding, width, width
        self.scale = math.sqrt(config.embedding)  # embeddings are small, for the output layer that may share them
        self.attends_before = attends and config.attend == "before"
        self.feeds_back = attends and config.input_feeding and not self.attends_before
        self.constant_context = config.context == "constant"
        reads = self.attends_before or self.feeds_back or self.constant_context
        self.reads = [reads and (depth == 0 or config.context_to == "all") for depth in range(config.layers)]
        self.query_layer = 0 if config.look_from == "bottom" else -1
        self.dropout = make_dropout(config, config.dropout)
        self.connections = make_connections(config)
        sizes = zip(self.connections.input_sizes, self.reads, strict=True)
        self.layers = nn.ModuleList(make_cell(config, size + width * fed, config.width) for size, fed in sizes)
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(config.layers * config.parts))
        if attends:
            score = (
                AdditiveScore(width, width, coverage=True)
                if config.coverage
                else SCORES.find(config.attention)(width, width)
            )
            self.attend = Attention(score, config.hard_attention)
            self.combine = nn.Linear(2 * width, width, bias=False)

    def start(self, memory: Memory, beam: int = 1, max_length: int = CAPACITY, static: bool = False) -> RecurrentState:
        """s_0 by the bridge, and the keys of the memory, computed once; the state is always static."""
        values, batch = memory.values, memory.values.shape[0]
        layers = self._first_states(memory)
        if not self.attends:
            state = RecurrentState(layers, memory.summary() if self.constant_context else None, None, None, None)
        else:
            feed = layers[-1][0].new_zeros(batch, self.width) if self.feeds_back else None
            coverage = values.new_zeros(values.shape[:2]) if self.config.coverage else None
            keys = self.attend.score.keys(values)  # type: ignore[operator]
            state = RecurrentState(layers, feed, keys, values, memory.mask, coverage)
        state.expand_(beam)
        return state

    def step(self, embedded: Tensor, state: Any) -> Tensor:
        """y_{t-1} (R, E) -> o_t (R, H); the state becomes that of t, and a_t (R, S) its attention."""
        output, after = self.advance(embedded, state)
        for old, new in zip(state.layers, after.layers, strict=True):
            for part, value in zip(old, new, strict=True):
                part.copy_(value)
        if state.feed is not None and after.feed is not None:
            state.feed.copy_(after.feed)
        if state.coverage is not None and after.coverage is not None:
            state.coverage.copy_(after.coverage)
        state.attention = after.attention
        return output

    def advance(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """`step` as a function: y_{t-1} (R, E) and the state -> o_t (R, H) and the next state; the old one stays."""
        context, weights, feed = None, None, state.feed
        if self.attends_before:
            context, weights = self._attend(state.layers, state)  # c_t (R, H), a_t (R, S)
            feed = context
        below, layers = [embedded * self.scale], []
        for depth, cell in enumerate(self.layers):
            inputs = self.connections.into(below)
            if self.reads[depth]:
                assert feed is not None
                inputs = torch.cat((inputs, feed), -1)
            layers.append(self._advance(cell, inputs, state.layers[depth]))  # s_t
            below.append(self.connections.out(depth, below, layers[-1][0]))
        hidden = below[-1]
        if not self.attends:
            return hidden, replace(state, layers=layers)
        if context is None:
            context, weights = self._attend(layers, state)
        output = torch.tanh(self.combine(torch.cat((context, hidden), -1)))  # o_t
        coverage = None if state.coverage is None or weights is None else state.coverage + weights
        feed = output if self.feeds_back else None
        return output, replace(state, layers=layers, feed=feed, coverage=coverage, attention=weights)

    def reference(self, embedded: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """`advance` over a whole target: (B, T, E) -> hidden (B, T, H), weights (B, T, S)."""
        state, outputs, attention = self.start(memory), [], []
        for token in embedded.unbind(1):
            output, state = self.advance(token, state)
            outputs.append(output)
            attention += [] if state.attention is None else [state.attention]
        return torch.stack(outputs, 1), torch.stack(attention, 1) if attention else None

    def forward(self, embedded: Tensor, memory: Memory, trace: bool = False) -> Any:
        """(B, T, E) -> (B, T, H); with `trace` also every gate and state of every step."""
        if trace:
            hidden, _, traced = loop.unroll(self, embedded, self.start(memory), trace=True)
            return self.dropout(hidden), traced
        if can_capture(embedded.device):
            return self.dropout(loop.replay(self, embedded, memory))
        return self.dropout(loop.unroll(self, embedded, self.start(memory))[0])

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, 1, 1, T, S): one layer, one head."""
        if not self.attends:
            return None
        weights = loop.unroll(self, embedded, self.start(memory), weights=True)[1]
        return torch.stack(weights, 1)[:, None, None]  # type: ignore[arg-type]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, 1, 1, T, S) -> (B, T, S)."""
        return weights[:, 0, 0]

    def _advance(self, cell: nn.Module, inputs: Tensor, state: State) -> State:
        """s_t = cell(x_t, s_{t-1}), of which zoneout keeps its expected share of s_{t-1} (Krueger et al., 2017)."""
        assert isinstance(cell, Cell)
        new, stay = cell.step(inputs, state).state, self.config.zoneout
        return tuple(torch.lerp(*pair, stay) for pair in zip(new, state, strict=True)) if stay else new

    def _attend(self, layers: list[State], state: RecurrentState) -> tuple[Tensor, Tensor]:
        """The context (R, H) of the query layer's state, and its weights (R, S)."""
        query = layers[self.query_layer][0]
        context, weights = self.attend(query, state.keys, state.memory, state.mask, state.coverage)
        return context, weights

    def _first_states(self, memory: Memory) -> list[State]:
        """s_0 of each layer, from the encoder's layer at the same depth counted from the top, or from the summary."""
        found, bridge, first = memory.states or [(memory.summary(),)], iter(self.bridge), []
        for depth in range(len(self.layers)):
            parts = found[max(0, len(found) - len(self.layers) + depth)]
            chosen = [parts[min(part, len(parts) - 1)] for part in range(self.config.parts)]
            first.append(tuple(torch.tanh(next(bridge)(part)) for part in chosen))
        return first
