"""The recurrent decoder over a whole target: `harken.models.recurrent.step.advance` in a loop whose steps share work.

Whatever does not depend on the last step is computed for all steps at once: with W x = W_y y + W_r r, the token's part
W_y y, while the rest r (the context, the layer below) is multiplied step by step. The products of all steps share one
weight gradient (`harken.kernels.recurrent.deferred`). A plain LSTM adds W_r r and U h, so both are one product. On a
GPU, attention is one fused kernel per step (`harken.nn.attention.functional.Attention.fused`). The reference is
`RecurrentDecoder.reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.decoder_loop.gates import LSTM_GATES
from harken.kernels.recurrent.call import Noise
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.kernels.recurrent.packing import Layout
from harken.models.recurrent.step import RecurrentState, StepParts, advance
from harken.nn.dropout import VariationalDropout
from harken.nn.recurrent.cell import Cell, State, Step
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.regularization import draw_noise, zoneout
from harken.nn.recurrent.trace import DirectionTrace, Recurrence, Trace

if TYPE_CHECKING:
    from harken.models.recurrent.decoder import RecurrentDecoder

Product = Callable[[Tensor], Tensor]


def unroll(
    decoder: RecurrentDecoder, embedded: Tensor, state: RecurrentState, trace: bool = False, weights: bool = False
) -> tuple[Tensor, list[Tensor | None], Trace | None]:
    """(B, T, E) from a state -> hidden (B, T, H), the weights (B, S) of each step, the trace.

    The weights are None where there is no attention, or where a fused kernel did not return them; `weights=True`
    rules that kernel out.
    """
    embedded = decoder.dropout(embedded * decoder.scale)
    parts = UnrolledParts(decoder, state, embedded, joined=not trace, weights=weights)
    hidden, attention, steps = [], [], []
    for time, token in enumerate(embedded.unbind(1)):
        output, state, cells = advance(parts, token, state, time)
        hidden.append(output)
        attention.append(state.attention)
        steps.append(cells)
    return torch.stack(hidden, 1), attention, _trace(steps, parts.cells) if trace else None


class UnrolledParts(StepParts):
    """The parts of all steps of one pass over embedded targets (B, T, E), with the dropout of training."""

    def __init__(
        self, decoder: RecurrentDecoder, state: RecurrentState, embedded: Tensor, joined: bool, weights: bool
    ) -> None:
        super().__init__(decoder)
        config, like, time = decoder.config, state.layers[0][0], embedded.shape[1]
        deferred = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        self.cells: list[UnrolledCell] = []
        for depth, cell in enumerate(decoder.layers):
            assert isinstance(cell, Cell)
            noise = draw_noise(
                config.recurrent_dropout, config.zoneout, decoder.training, time, len(like), cell.state_sizes, like
            )
            self.cells.append(UnrolledCell(cell, 0 if depth else decoder.embedding, noise, deferred, joined))
        self.weigh_combined = product_with(decoder.combine.weight, deferred) if decoder.attends else None
        self.masks: list[Tensor | None] = [None for _ in self.cells]  # of the context, then of higher layers' inputs
        if isinstance(decoder.dropout, VariationalDropout):
            sizes = [decoder.width if any(decoder.reads) else 0, *decoder.connections.input_sizes[1:]]
            self.masks = [decoder.dropout.mask(len(like), size, like) if size else None for size in sizes]
        self.context: Product | None = None  # query (B, H) -> context (B, H) by the fused kernel
        if deferred and not weights and not config.coverage and state.keys is not None and state.memory is not None:
            self.context = decoder.attend.fused(state.keys, state.memory, state.mask)
        self.tokens = self.cells[0].project_tokens(embedded).unbind(1)  # T x (B, gates x H)

    def step_cell(self, depth: int, inputs: Tensor, feed: Tensor | None, state: State, time: int) -> Step:
        if depth == 0:
            return self.cells[0].step(self.tokens[time], feed, state, time)
        return self.cells[depth].step(None, inputs if feed is None else torch.cat((inputs, feed), -1), state, time)

    def attend(self, layers: list[State], state: RecurrentState) -> tuple[Tensor, Tensor | None]:
        if self.context is not None:
            return self.context(layers[self.decoder.query_layer][0]), None
        return super().attend(layers, state)

    def combine(self, values: Tensor) -> Tensor:
        assert self.weigh_combined is not None
        return self.weigh_combined(values)

    def drop_feed(self, feed: Tensor) -> Tensor:
        return feed if self.masks[0] is None else feed * self.masks[0]

    def drop_inputs(self, depth: int, inputs: Tensor) -> Tensor:
        if not isinstance(self.decoder.dropout, VariationalDropout):
            return self.decoder.dropout(inputs)
        mask = self.masks[depth]
        return inputs if mask is None else inputs * mask


class UnrolledCell:
    """The cell of one layer in one pass; the first `tokens` of its inputs are the token's."""

    def __init__(self, cell: Cell, tokens: int, noise: Noise, deferred: bool, joined: bool) -> None:
        self.cell, self.noise, self.deferred = cell, noise, deferred
        self.inputs: list[Tensor] = []  # W x + b of each step and the state before it, for the trace
        self.before: list[State] = []
        self.bias = cell.summed_bias()
        self.token_weight, rest = cell.weight_ih[:, :tokens], cell.weight_ih[:, tokens:]
        self.joined: Product | None = None
        self.rest: Product | None = None
        if joined and _is_plain_lstm(cell, noise):
            self.joined = product_with(torch.cat((rest, cell.weight_hh), 1), deferred)
        else:
            self.rest = product_with(rest, deferred) if rest.shape[1] else None
        self.products = cell.products(deferred and self.joined is None)

    def project_tokens(self, embedded: Tensor) -> Tensor:
        """W_y y (..., E) -> (..., gates x H), with the biases unless W x is normalised first."""
        return F.linear(embedded, self.token_weight, self.bias if self.cell.norm_ih is None else None)

    def step(self, token: Tensor | None, rest: Tensor | None, state: State, time: int) -> Step:
        """W_y y (B, gates x H), the other inputs r (B, R) and the last state -> the new one."""
        if self.joined is not None and isinstance(self.cell, LSTMCell):
            gates = self.joined(state[0] if rest is None else torch.cat((rest, state[0]), -1))
            if self.deferred and LSTM_GATES.supports(gates):
                bias = self.bias if token is None else token
                bias = None if bias is None else bias.expand(gates.shape[0], -1)
                return Step(LSTM_GATES.run(gates, bias, state[1]), {})
            return self.cell.apply_gates(self._add_bias(gates, token), state[1], self.products)
        self.inputs.append(self._project(token, rest))
        self.before.append(state)
        step = self.cell.step(self.inputs[-1], state, self.products, self.noise.keep)
        return Step(zoneout(self.noise, time, state, step.state), step.gates) if self.noise.stay else step

    def _project(self, token: Tensor | None, rest: Tensor | None) -> Tensor:
        """W x + b."""
        product = None if rest is None or self.rest is None else self.rest(rest)
        if self.cell.norm_ih is None:
            return self._add_bias(product, token)
        parts = [part for part in (product, token) if part is not None]
        return self._add_bias(self.cell.norm_ih(sum(parts[1:], parts[0])), None)

    def _add_bias(self, product: Tensor | None, token: Tensor | None) -> Tensor:
        """W_r r + W_y y + b, as far as there are any; W_y y has the biases in it."""
        bias = self.bias if token is None else token
        terms = [term for term in (product, bias) if term is not None]
        return terms[0] + terms[1] if len(terms) > 1 else terms[0]


def product_with(weight: Tensor, deferred: bool) -> Product:
    """x -> W x, with one weight gradient for all steps where it is deferred."""
    return DeferredLinear(weight) if deferred else partial(F.linear, weight=weight)


def _is_plain_lstm(cell: Cell, noise: Noise) -> bool:
    plain = isinstance(cell, LSTMCell) and not cell.coupled and cell.peephole is None and cell.norm_ih is None
    return plain and cell.is_plain and noise.keep is None and not noise.stay


def _trace(cells_by_step: list[list[Step]], cells: list[UnrolledCell]) -> Trace:
    """T x L steps as `harken.nn.recurrent.trace` shows them."""
    layout, layers = Layout.of(None, len(cells_by_step[0][0].state[0]), len(cells_by_step)), []
    for depth, cell in enumerate(cells):
        layer = [step[depth] for step in cells_by_step]
        steps = [{**step.gates, **dict(zip(("hidden", "cell"), step.state, strict=False))} for step in layer]
        by_name = {name: [step[name] for step in steps] for name in steps[0]}
        layers.append([DirectionTrace(by_name, layout, Recurrence(cell.cell, cell.inputs, cell.before, cell.noise))])
    return Trace(layers)
