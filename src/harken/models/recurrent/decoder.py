"""Recurrent decoder, with attention or with the encoder's last state as all it gets.

s_0 = tanh(W h_S)                                the bridge, for each layer
s_t = cell([y_{t-1}; a_{t-1}], s_{t-1})          input feeding: the last attentional state comes along
c_t = attention(s_t, h)                          E8, with a score of E9
a_t = tanh(W_c [c_t; s_t])                       what the output layer sees; without attention a_t = s_t

That is the order of Luong et al. (2015), attend = "after". In that of Bahdanau et al. (2015), "before", the decoder
looks with its last state and takes the context into the step, which leaves nothing for input feeding to do:

c_t = attention(s_{t-1}, h)      s_t = cell([y_{t-1}; c_t], s_{t-1})      a_t = tanh(W_c [c_t; s_t])

Without attention, context = "constant" feeds c = h_S to every step (E7, Cho et al., 2014); "initial" leaves it at s_0.
An encoder that has no last state gives the mean of its memory. What is fed goes to the first layer, or with
context_to = "all" to every one, and look_from says whose state looks: both for deep stacks as in Wu et al. (2016).

With coverage, the additive score also sees the sum of the weights so far (Tu et al., 2016). All that does not depend on
the last step (the input half of the first layer's gates, the keys, the output layer) is made for all steps at once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from harken.kernels.decoder_loop import cuda_graph as decoder_loop
from harken.models.decoder import Decoder
from harken.models.memory import Memory
from harken.models.recurrent.attention import quick_look
from harken.models.recurrent.cell_options import CellOptions
from harken.models.recurrent.cells import make_cell
from harken.models.recurrent.replay import replayed
from harken.models.recurrent.state import RecurrentState
from harken.models.recurrent.step import LayerPass, Pass, product_with, trace_of
from harken.nn.attention.functional import Attention
from harken.nn.attention.scores import AdditiveScore
from harken.nn.causality import refuse_bidirectional
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.recurrent.cell import Cell, Step
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.regularization import draw_noise
from harken.nn.recurrent.trace import Trace
from harken.registry import SCORES


class RecurrentDecoder(Decoder):
    """See the module's text."""

    traceable = True
    output_bias = True

    def __init__(
        self,
        *,
        embedding: int = 256,
        width: int = 512,
        layers: int = 1,
        cell: CellOptions = CellOptions(),  # noqa: B008 - frozen
        attention: str = "additive",
        attend: str = "after",
        look_from: str = "top",
        context: str = "initial",
        context_to: str = "first",
        coverage: bool = False,
        hard_attention: bool = False,
        input_feeding: bool = True,
        connections: str = "none",
        connections_from: int = 2,
        bidirectional: bool = False,
        dropout: float = 0.2,
        variational: bool = True,
    ) -> None:
        super().__init__()
        refuse_bidirectional(bool(bidirectional), "a decoder")
        self.embedding, self.width, self.memory_width = embedding, width, width
        self.scale = math.sqrt(embedding)  # embeddings are drawn small for the output layer they are tied to
        self.options, self.constant_context = cell, context == "constant"
        self.attends, self.looks_first, self.covers = attention != "none", attend == "before", coverage
        self.feeds_back = self.attends and input_feeding and not self.looks_first
        self.looking = 0 if look_from == "bottom" else -1
        reads = self.feeds_back or self.constant_context or (self.attends and self.looks_first)
        self.reads = [reads and (depth == 0 or context_to == "all") for depth in range(layers)]
        self.dropout = VariationalDropout(dropout) if variational else Dropout(dropout)
        kind = None if connections == "none" else connections
        self.connections = Connections(kind, embedding, width, layers, connections_from - 1)
        sizes = zip(self.connections.input_sizes, self.reads, strict=True)
        self.layers = nn.ModuleList(make_cell(cell, size + fed * width, width) for size, fed in sizes)
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(layers * cell.parts))
        if self.attends:
            score = AdditiveScore(width, width, coverage=True) if coverage else SCORES.find(attention)(width, width)
            self.attend = Attention(score, hard_attention)
            self.combine = nn.Linear(2 * width, width, bias=False)

    def start(self, memory: Memory) -> RecurrentState:
        """The first states by the bridge; the keys are made here, once."""
        values, batch = memory.values, memory.values.shape[0]
        layers, owner = self._first(memory), torch.arange(batch, device=values.device)
        if not self.attends:
            return RecurrentState(layers, memory.summary() if self.constant_context else None, None, None, None, owner)
        feed = layers[-1][0].new_zeros(batch, self.width) if self.feeds_back else None
        coverage = values.new_zeros(values.shape[:2]) if self.covers else None
        keys = self.attend.score.keys(values)  # type: ignore[operator]
        return RecurrentState(layers, feed, keys, values, memory.mask, owner, coverage)

    def step(self, embedded: Tensor, state: Any) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """One token a row."""
        embedded = embedded * self.scale
        run = self._pass(state, 1, deferred=False, joined=False, weights=True)
        hidden, state, weights, _ = self._advance(embedded, run.layers[0].read_tokens(embedded), state, run, 0)
        return hidden, state, weights

    def forward(self, embedded: Tensor, memory: Memory, trace: bool = False) -> Any:
        """(B, T, E) -> (B, T, H), the loop over T inside; with `trace` also every gate and state of every step."""
        if trace:
            hidden, _, seen = self._unroll(embedded, self.start(memory), trace=True)
            return self.dropout(hidden), seen
        if decoder_loop.is_supported(embedded.device):
            return self.dropout(replayed(self, self._read, embedded, memory))
        return self.dropout(self._read(embedded, memory))

    def _read(self, embedded: Tensor, memory: Memory) -> Tensor:
        return self._unroll(embedded, self.start(memory))[0]

    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """Weights (B, 1, 1, T, S): one layer, one head."""
        if not self.attends:
            return None
        weights = self._unroll(embedded, self.start(memory), weights=True)[1]
        return torch.stack(weights, 1)[:, None, None]  # type: ignore[arg-type]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, 1, 1, T, S) -> (B, T, S)."""
        return weights[:, 0, 0]

    def _first(self, memory: Memory) -> list[tuple[Tensor, ...]]:
        """s_0 of each layer, from the encoder's layer at the same height counted from the top, or from the summary."""
        found, bridge, first = memory.states or [(memory.summary(),)], iter(self.bridge), []
        for depth in range(len(self.layers)):
            parts = found[max(0, len(found) - len(self.layers) + depth)]
            chosen = [parts[min(part, len(parts) - 1)] for part in range(self.options.parts)]
            first.append(tuple(torch.tanh(next(bridge)(part)) for part in chosen))
        return first

    def _unroll(
        self, embedded: Tensor, state: RecurrentState, trace: bool = False, weights: bool = False
    ) -> tuple[Tensor, list[Tensor | None], Trace | None]:
        embedded = self.dropout(embedded * self.scale)
        time = embedded.shape[1]
        deferred = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        run = self._pass(state, time, deferred, joined=not trace, weights=weights)
        tokens, steps = run.layers[0].read_tokens(embedded).unbind(1), embedded.unbind(1)  # T x (B, gates), T x (B, E)
        hidden, attention, made = [], [], []
        for place in range(time):
            now, state, looked, seen = self._advance(steps[place], tokens[place], state, run, place)
            hidden.append(now)
            attention.append(looked)
            made.append(seen)
        traced = trace_of(made, run.layers) if trace else None
        return torch.stack(hidden, 1), attention, traced

    def _pass(self, state: RecurrentState, time: int, deferred: bool, joined: bool, weights: bool) -> Pass:
        like, options = state.layers[0][0], self.options
        layers = []
        for depth, cell in enumerate(self.layers):
            assert isinstance(cell, Cell)
            noise = draw_noise(
                options.recurrent_dropout, options.zoneout, self.training, time, len(like), cell.state_sizes, like
            )
            layers.append(LayerPass(cell, 0 if depth else self.embedding, noise, deferred, joined))
        combine = product_with(self.combine.weight, deferred) if self.attends else None
        masks: list[Tensor | None] = [None for _ in layers]
        if isinstance(self.dropout, VariationalDropout):
            sizes = [self.width if any(self.reads) else 0, *self.connections.input_sizes[1:]]
            masks = [self.dropout.mask(len(like), size, like) if size else None for size in sizes]
        look, keys, memory = None, state.keys, state.memory
        plain = not weights and not self.covers and (self.training or not (self.attends and self.attend.hard))
        if deferred and plain and keys is not None and memory is not None:
            look = quick_look(self.attend.score, keys, memory, state.mask)
        return Pass(layers, combine, look, masks)

    def _advance(
        self, embedded: Tensor, token: Tensor, state: RecurrentState, run: Pass, time: int
    ) -> tuple[Tensor, RecurrentState, Tensor | None, list[Step]]:
        """One step from the token (B, E) and its gates to the hidden state (B, H) that the output layer sees."""
        feed, context, weights = state.feed, None, None
        if self.looks_first and state.keys is not None:
            context, weights = self._look(state.layers, state, run)
            feed = context
        if feed is not None and run.masks[0] is not None:
            feed = feed * run.masks[0]
        below, steps = [embedded], []
        for depth, layer in enumerate(run.layers):
            fed = feed if self.reads[depth] else None
            if depth == 0:
                made = layer.step(token, fed, state.layers[0], time)
            else:
                seen = self._dropped(self.connections.into(below), run.masks[depth])
                made = layer.step(None, seen if fed is None else torch.cat((seen, fed), -1), state.layers[depth], time)
            below.append(self.connections.out(depth, below, made.state[0]))
            steps.append(made)
        hidden, layers = below[-1], [made.state for made in steps]
        if run.combine is None:
            return hidden, replace(state, layers=layers), None, steps
        if context is None:
            context, weights = self._look(layers, state, run)
        hidden = torch.tanh(run.combine(torch.cat((context, hidden), -1)))
        coverage = None if state.coverage is None or weights is None else state.coverage + weights
        feed = hidden if self.feeds_back else None
        return hidden, replace(state, layers=layers, feed=feed, coverage=coverage), weights, steps

    def _look(self, layers: list[tuple[Tensor, ...]], state: RecurrentState, run: Pass) -> tuple[Tensor, Tensor | None]:
        """The context (B, H) of one state, and its weights (B, S) unless it was made the quick way."""
        if run.look is not None:
            return run.look(layers[self.looking][0]), None
        return self.attend(layers[self.looking][0], state.keys, state.memory, state.mask, state.coverage)

    def _dropped(self, values: Tensor, mask: Tensor | None) -> Tensor:
        if isinstance(self.dropout, VariationalDropout):
            return values if mask is None else values * mask
        return self.dropout(values)
