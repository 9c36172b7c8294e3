"""Recurrent decoder, with attention or with the encoder's last state alone.

    s_0 = tanh(W h_S)                                the bridge, one per layer

A step attends after or before it advances, or not at all; its equations are in `step.py`. An encoder without a last
state gives the mean of its memory instead.

The context goes to the first layer, or with context_to = "all" to every layer; look_from is the layer whose state is
the query (Wu et al., 2016). With coverage the additive score also sees the sum of earlier weights (Tu et al., 2016).

`reference` is a loop over steps. `forward` gives the same numbers and gradients faster (`unrolling.py`), and applies
dropout, recurrent dropout and zoneout in training.

>>> from harken.models.recurrent.config import RecurrentDecoderConfig
>>> decoder = RecurrentDecoder(RecurrentDecoderConfig(embedding=4, width=6)).eval()
>>> memory, embedded = Memory(torch.randn(2, 5, 6), None), torch.randn(2, 3, 4)
>>> bool(torch.allclose(decoder(embedded, memory), decoder.reference(embedded, memory)[0], atol=1e-6))
True
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.kernels.backend import choose, reference
from harken.models.base import CAPACITY, Decoder, Memory
from harken.models.recurrent.captured import REPLAY
from harken.models.recurrent.encoder import make_cell, make_connections, make_dropout
from harken.models.recurrent.step import RecurrentState, StepParts, advance
from harken.models.recurrent.unrolling import unroll
from harken.nn.attention.functional import Attention
from harken.nn.attention.scores import AdditiveScore
from harken.nn.recurrent.cell import State
from harken.registry import SCORES

if TYPE_CHECKING:
    from harken.models.recurrent.config import RecurrentStackConfig


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
        output, after, _ = advance(StepParts(self), embedded * self.scale, state)
        for old, new in zip(state.layers, after.layers, strict=True):
            for part, value in zip(old, new, strict=True):
                part.copy_(value)
        if state.feed is not None and after.feed is not None:
            state.feed.copy_(after.feed)
        if state.coverage is not None and after.coverage is not None:
            state.coverage.copy_(after.coverage)
        state.attention = after.attention
        return output

    def reference(self, embedded: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Step by step over a whole target: (B, T, E) -> hidden (B, T, H), weights (B, T, S)."""
        state, outputs, attention = self.start(memory), [], []
        for token in embedded.unbind(1):
            output, state, _ = advance(StepParts(self), token * self.scale, state)
            outputs.append(output)
            attention += [] if state.attention is None else [state.attention]
        return torch.stack(outputs, 1), torch.stack(attention, 1) if attention else None

    def forward(self, embedded: Tensor, memory: Memory, trace: bool = False) -> Any:
        """(B, T, E) -> (B, T, H); with `trace` also every gate and state of every step."""
        if trace:
            hidden, _, traced = unroll(self, embedded, self.start(memory), trace=True)
            return self.dropout(hidden), traced
        return self.dropout(choose(LOOPS, embedded).run(self, embedded, memory))

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, 1, 1, T, S): one layer, one head."""
        if not self.attends:
            return None
        weights = unroll(self, embedded, self.start(memory), weights=True)[1]
        return torch.stack(weights, 1)[:, None, None]  # type: ignore[arg-type]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, 1, 1, T, S) -> (B, T, S)."""
        return weights[:, 0, 0]

    def _first_states(self, memory: Memory) -> list[State]:
        """s_0 of each layer, from the encoder's layer at the same depth counted from the top, or from the summary."""
        last, bridge, first = memory.states or [(memory.summary(),)], iter(self.bridge), []
        for depth in range(len(self.layers)):
            parts = last[max(0, len(last) - len(self.layers) + depth)]
            chosen = [parts[min(part, len(parts) - 1)] for part in range(self.config.parts)]
            first.append(tuple(torch.tanh(next(bridge)(part)) for part in chosen))
        return first


# Over a whole target.
LOOPS = (
    REPLAY,
    reference("unroll", lambda decoder, embedded, memory: unroll(decoder, embedded, decoder.start(memory))[0]),
)
