"""One step of the recurrent decoder; search and training both run it.

attend = "after" (Luong et al., 2015), with input feeding of the last attentional state o_{t-1}:

    s_t = cell([y_{t-1}; o_{t-1}], s_{t-1})
    e_ti = score(s_t, h_i)    a_t = softmax(e_t)    c_t = sum_i a_ti h_i
    o_t = tanh(W_c [c_t; s_t])

attend = "before" (Bahdanau et al., 2015): the last state is the query, and the step reads the context:

    e_ti = score(s_{t-1}, h_i)    a_t = softmax(e_t)    c_t = sum_i a_ti h_i
    s_t = cell([y_{t-1}; c_t], s_{t-1})
    o_t = tanh(W_c [c_t; s_t])

attention = "none" (Sutskever et al., 2014): o_t = s_t; with context = "constant" every step also reads c = h_S (Cho et
al., 2014).

`advance` is these equations. The parts that they call are those of `StepParts`, or in training those of
`harken.models.recurrent.unrolling.UnrolledParts`, which share work between the steps and apply dropout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harken.models.base import DecoderState
from harken.nn.recurrent.cell import Cell, State, Step

if TYPE_CHECKING:
    from harken.models.recurrent.decoder import RecurrentDecoder


@dataclass
class RecurrentState(DecoderState):
    """The state from step to step, and the memory that the decoder attends to."""

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


class StepParts:
    """The parts of a step of a decoder that evaluates, each step on its own."""

    def __init__(self, decoder: RecurrentDecoder) -> None:
        self.decoder = decoder

    def step_cell(self, depth: int, inputs: Tensor, feed: Tensor | None, state: State, time: int) -> Step:
        """s_t = cell([x_t; feed], s_{t-1}), of which zoneout keeps its expected share of s_{t-1} (Krueger et al.,
        2017): (R, I), (R, H) and s_{t-1} -> s_t and the gates."""
        cell, stay = self.decoder.layers[depth], self.decoder.config.zoneout
        assert isinstance(cell, Cell)
        step = cell.step(inputs if feed is None else torch.cat((inputs, feed), -1), state)
        if not stay:
            return step
        return Step(tuple(torch.lerp(*pair, stay) for pair in zip(step.state, state, strict=True)), step.gates)

    def attend(self, layers: list[State], state: RecurrentState) -> tuple[Tensor, Tensor | None]:
        """The context (R, H) of the query layer's state, and its weights (R, S)."""
        query = layers[self.decoder.query_layer][0]
        context, weights = self.decoder.attend(query, state.keys, state.memory, state.mask, state.coverage)
        return context, weights

    def combine(self, values: Tensor) -> Tensor:
        """W_c [c_t; s_t]."""
        return self.decoder.combine(values)

    def drop_feed(self, feed: Tensor) -> Tensor:
        """Dropout on the context or the last attentional state."""
        return feed

    def drop_inputs(self, depth: int, inputs: Tensor) -> Tensor:
        """Dropout between the layers."""
        return inputs


def advance(
    parts: StepParts, token: Tensor, state: RecurrentState, time: int = 0
) -> tuple[Tensor, RecurrentState, list[Step]]:
    """y_{t-1} (R, E), scaled, and the state -> o_t (R, H), the next state, and what each cell computed."""
    decoder = parts.decoder
    context, weights, feed = None, None, state.feed
    if decoder.attends_before:
        context, weights = parts.attend(state.layers, state)  # c_t (R, H), a_t (R, S)
        feed = context
    feed = None if feed is None else parts.drop_feed(feed)
    below: list[Tensor] = [token]
    steps: list[Step] = []
    for depth in range(len(decoder.layers)):
        inputs = decoder.connections.into(below)
        inputs = parts.drop_inputs(depth, inputs) if depth else inputs  # the token has its own
        fed = feed if decoder.reads[depth] else None
        steps.append(parts.step_cell(depth, inputs, fed, state.layers[depth], time))  # s_t
        below.append(decoder.connections.out(depth, below, steps[-1].state[0]))
    hidden, layers = below[-1], [step.state for step in steps]
    if not decoder.attends:
        return hidden, replace(state, layers=layers), steps
    if context is None:
        context, weights = parts.attend(layers, state)
    output = torch.tanh(parts.combine(torch.cat((context, hidden), -1)))  # o_t
    coverage = None if state.coverage is None or weights is None else state.coverage + weights
    feed = output if decoder.feeds_back else None
    return output, replace(state, layers=layers, feed=feed, coverage=coverage, attention=weights), steps
