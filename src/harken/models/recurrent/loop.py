"""The fast path of `RecurrentDecoder.forward`; its reference is `RecurrentDecoder.reference`.

What does not depend on the last step is computed for all steps at once: with W x = W_y y + W_r r, the token's part
W_y y, while the rest r (the context, the layer below) is multiplied step by step. The products of all steps share one
weight gradient (`harken.kernels.recurrent.deferred`). A plain LSTM adds W_r r and U h, so both are one product.

On a GPU, attention is one fused kernel per step (`harken.kernels.decoder_loop.attention`), and the whole loop is
replayed as a CUDA graph, in sizes rounded up so that few graphs are captured (`replay`).

>>> [rounded_rows(rows) for rows in (1, 32, 33, 100, 300, 1000)]
[16, 32, 48, 112, 320, 1024]
>>> [rounded_steps(steps, 4) for steps in (1, 13, 63, 65, 130)]
[4, 16, 64, 72, 144]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.cuda_graphs import is_available
from harken.kernels.decoder_loop import cuda_graph
from harken.kernels.decoder_loop import gates as fused_gates
from harken.kernels.decoder_loop.attention import DeferredAttention, is_supported
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.kernels.settings import has_triton
from harken.models.base import Memory
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.dropout import VariationalDropout
from harken.nn.recurrent.cell import Cell, State, Step
from harken.nn.recurrent.lstm import LSTMCell, lstm_gates
from harken.nn.recurrent.packing import Layout
from harken.nn.recurrent.regularization import Noise, draw_noise
from harken.nn.recurrent.trace import DirectionTrace, Recurrence, Trace

if TYPE_CHECKING:
    from harken.models.recurrent.decoder import RecurrentDecoder, RecurrentState

Product = Callable[[Tensor], Tensor]
# Sizes of captured CUDA graphs: steps are computed one after another, so padding them costs most; rows cost least.
TARGET_MULTIPLE, SOURCE_MULTIPLE, ROW_MULTIPLE = 4, 8, 16


def unroll(
    decoder: RecurrentDecoder, embedded: Tensor, state: RecurrentState, trace: bool = False, weights: bool = False
) -> tuple[Tensor, list[Tensor | None], Trace | None]:
    """(B, T, E) from a state -> hidden (B, T, H), the weights (B, S) of each step, the trace.

    The weights are None where there is no attention, or where a fused kernel did not return them; `weights=True`
    rules that kernel out.
    """
    embedded = decoder.dropout(embedded * decoder.scale)
    run = Pass(decoder, state, embedded.shape[1], joined=not trace, weights=weights)
    tokens = run.layers[0].project_tokens(embedded).unbind(1)  # T x (B, gates x H)
    hidden, attention, steps = [], [], []
    for time, token in enumerate(embedded.unbind(1)):
        output, state, found, made = run.step(token, tokens[time], state, time)
        hidden.append(output)
        attention.append(found)
        steps.append(made)
    traced = _trace(steps, run.layers) if trace else None
    return torch.stack(hidden, 1), attention, traced


class Pass:
    """What is the same at all steps of one pass: products, dropout masks, the way attention is computed."""

    def __init__(
        self, decoder: RecurrentDecoder, state: RecurrentState, time: int, joined: bool, weights: bool
    ) -> None:
        self.decoder = decoder
        config, like = decoder.config, state.layers[0][0]
        deferred = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        self.layers: list[LayerPass] = []
        for depth, cell in enumerate(decoder.layers):
            assert isinstance(cell, Cell)
            noise = draw_noise(
                config.recurrent_dropout, config.zoneout, decoder.training, time, len(like), cell.state_sizes, like
            )
            self.layers.append(LayerPass(cell, 0 if depth else decoder.embedding, noise, deferred, joined))
        self.combine = product_with(decoder.combine.weight, deferred) if decoder.attends else None
        self.masks: list[Tensor | None] = [None for _ in self.layers]  # of the context, then of higher layers' inputs
        if isinstance(decoder.dropout, VariationalDropout):
            sizes = [decoder.width if any(decoder.reads) else 0, *decoder.connections.input_sizes[1:]]
            self.masks = [decoder.dropout.mask(len(like), size, like) if size else None for size in sizes]
        soft = decoder.training or not config.hard_attention
        self.context: Product | None = None  # query (B, H) -> context (B, H) by the fused kernel
        if deferred and soft and not weights and not config.coverage and state.keys is not None:
            assert state.memory is not None
            self.context = fused_attention(decoder.attend.score, state.keys, state.memory, state.mask)

    def step(
        self, embedded: Tensor, token: Tensor, state: RecurrentState, time: int
    ) -> tuple[Tensor, RecurrentState, Tensor | None, list[Step]]:
        """`RecurrentDecoder.step` from the token (B, E) and its projection (B, gates x H)."""
        decoder = self.decoder
        context, weights, feed = None, None, state.feed
        if decoder.attends_before:
            context, weights = self._attend(state.layers, state)
            feed = context
        if feed is not None and self.masks[0] is not None:
            feed = feed * self.masks[0]
        below, steps = [embedded], []
        for depth, layer in enumerate(self.layers):
            fed = feed if decoder.reads[depth] else None
            if depth == 0:
                step = layer.step(token, fed, state.layers[0], time)
            else:
                inputs = self._drop(decoder.connections.into(below), self.masks[depth])
                rest = inputs if fed is None else torch.cat((inputs, fed), -1)
                step = layer.step(None, rest, state.layers[depth], time)
            below.append(decoder.connections.out(depth, below, step.state[0]))
            steps.append(step)
        hidden, layers = below[-1], [step.state for step in steps]
        if self.combine is None:
            return hidden, replace(state, layers=layers), None, steps
        if context is None:
            context, weights = self._attend(layers, state)
        output = torch.tanh(self.combine(torch.cat((context, hidden), -1)))
        coverage = None if state.coverage is None or weights is None else state.coverage + weights
        feed = output if decoder.feeds_back else None
        return output, replace(state, layers=layers, feed=feed, coverage=coverage), weights, steps

    def _attend(self, layers: list[State], state: RecurrentState) -> tuple[Tensor, Tensor | None]:
        if self.context is not None:
            return self.context(layers[self.decoder.query_layer][0]), None
        return self.decoder._attend(layers, state)

    def _drop(self, values: Tensor, mask: Tensor | None) -> Tensor:
        if isinstance(self.decoder.dropout, VariationalDropout):
            return values if mask is None else values * mask
        return self.decoder.dropout(values)


class LayerPass:
    """The cell of one layer in one pass; the first `tokens` of its inputs are the token's."""

    def __init__(self, cell: Cell, tokens: int, noise: Noise, deferred: bool, joined: bool) -> None:
        self.cell, self.noise, self.deferred = cell, noise, deferred
        self.inputs: list[Tensor] = []  # W x + b of each step and the state before it, for the trace
        self.before: list[State] = []
        self.bias = cell.constant()
        self.token_weight, rest = cell.weight_ih[:, :tokens], cell.weight_ih[:, tokens:]
        self.joined: Product | None = None
        self.rest: Product | None = None
        if joined and _is_plain_lstm(cell, noise):
            self.joined = product_with(torch.cat((rest, cell.weight_hh), 1), deferred)
        else:
            self.rest = product_with(rest, deferred) if rest.shape[1] else None
            self.products = cell.products(deferred)

    def project_tokens(self, embedded: Tensor) -> Tensor:
        """W_y y (..., E) -> (..., gates x H), with the biases unless W x is normalised first."""
        return F.linear(embedded, self.token_weight, self.bias if self.cell.norm_ih is None else None)

    def step(self, token: Tensor | None, rest: Tensor | None, state: State, time: int) -> Step:
        """W_y y (B, gates x H), the other inputs r (B, R) and the last state -> the new one."""
        if self.joined is not None:
            gates = self.joined(state[0] if rest is None else torch.cat((rest, state[0]), -1))
            if self.deferred and has_fused_kernels(gates):
                known = self.bias if token is None else token
                known = None if known is None else known.expand(gates.shape[0], -1)
                return Step(fused_gates.lstm_gates(gates, known, state[1]), {})
            return Step(lstm_gates(self._add_known(gates, token), state[1]), {})
        self.inputs.append(self._project(token, rest))
        self.before.append(state)
        step = self.cell.step(self.inputs[-1], state, self.products, self.noise.keep)
        if not self.noise.stay:
            return step
        return Step(self.noise.zone(time, state, step.state), step.gates)

    def _project(self, token: Tensor | None, rest: Tensor | None) -> Tensor:
        """W x + b."""
        product = None if rest is None or self.rest is None else self.rest(rest)
        if self.cell.norm_ih is None:
            return self._add_known(product, token)
        parts = [part for part in (product, token) if part is not None]
        return self._add_known(self.cell.norm_ih(sum(parts[1:], parts[0])), None)

    def _add_known(self, product: Tensor | None, token: Tensor | None) -> Tensor:
        """W_r r + W_y y + b, as far as there are any; W_y y has the biases in it."""
        known = self.bias if token is None else token
        if product is None or known is None:
            found = product if known is None else known
            assert found is not None, "a layer has some input"
            return found
        return product + known


def product_with(weight: Tensor, deferred: bool) -> Product:
    """x -> W x, with one weight gradient for all steps where it is deferred."""
    return DeferredLinear(weight) if deferred else partial(F.linear, weight=weight)


def _is_plain_lstm(cell: Cell, noise: Noise) -> bool:
    plain = isinstance(cell, LSTMCell) and not cell.coupled and cell.peephole is None and cell.norm_ih is None
    return plain and noise.keep is None and not noise.stay


def _trace(made: list[list[Step]], layers: list[LayerPass]) -> Trace:
    """Of T x L steps, what `harken.nn.recurrent.trace` shows."""
    layout, traced = Layout.of(None, made[0][0].state[0].shape[0], len(made)), []
    for depth, layer in enumerate(layers):
        steps = [{**one[depth].gates, **dict(zip(("hidden", "cell"), one[depth].state, strict=False))} for one in made]
        by_name = {name: [step[name] for step in steps] for name in steps[0]}
        recurrence = Recurrence(layer.cell, layer.inputs, layer.before, layer.noise)
        traced.append([DirectionTrace(by_name, layout, recurrence)])
    return Trace(traced)


def has_fused_kernels(values: Tensor) -> bool:
    """Whether the loop's GPU kernels are used for these values."""
    return is_available(values.device) and has_triton() and values.dtype != torch.float64


def prepare_query(score: nn.Module) -> Product | None:
    """What a score does to its query (B, H) before it is compared with the keys; None for a score that does more."""
    if type(score) is AdditiveScore and score.coverage is None:
        return DeferredLinear(score.query.weight)
    if type(score) is CosineScore:
        return lambda query: F.normalize(query, dim=-1) * torch.exp(-score.log_temperature)
    if type(score) is ScaledDotScore:
        return lambda query: query / math.sqrt(query.shape[-1])
    if type(score) in (DotScore, MultiplicativeScore):
        return lambda query: query
    return None


def fused_attention(score: nn.Module, keys: Tensor, memory: Tensor, mask: Tensor | None) -> Product | None:
    """Query (B, H) -> context (B, M) by one kernel per step; None where `Attention` computes it."""
    if not has_fused_kernels(memory) or not is_supported(keys, memory):
        return None
    prepare = prepare_query(score)
    if prepare is None:
        return None
    if torch.is_autocast_enabled("cuda"):
        low = torch.get_autocast_dtype("cuda")
        keys, memory = keys.to(low), memory.to(low)
    vector = score.energy.weight[0] if isinstance(score, AdditiveScore) else None
    attend = DeferredAttention(keys, memory, mask, vector)
    return lambda query: attend(prepare(query))


def replay(decoder: RecurrentDecoder, embedded: Tensor, memory: Memory) -> Tensor:
    """`unroll` as a captured CUDA graph: (B, T, E) -> (B, T, H)."""
    batch, time = embedded.shape[:2]
    embedded, memory = pad_sizes(embedded, memory)
    states = memory.states or []

    def function(embedded: Tensor, values: Tensor, mask: Tensor | None, *parts: Tensor) -> Tensor:
        rest = iter(parts)
        given = [tuple(next(rest) for _ in layer) for layer in states] if memory.states is not None else None
        return unroll(decoder, embedded, decoder.start(Memory(values, mask, given)))[0]

    flat = [part for layer in states for part in layer]
    inputs: tuple[Any, ...] = (embedded, memory.values, memory.mask, *flat)
    return cuda_graph.replay(decoder, function, inputs)[:batch, :time]


def rounded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def rounded_steps(steps: int, multiple: int) -> int:
    """The next multiple; of long sequences at most eight sizes between a power of two and the next."""
    return rounded(steps, max(multiple, 1 << max(0, (steps - 1).bit_length() - 4)))


def rounded_rows(rows: int) -> int:
    """Multiples of 16, at most four sizes between a power of two and the next: batches of a token budget have almost
    any number of rows."""
    return rounded(rows, max(ROW_MULTIPLE, 1 << max(0, (rows - 1).bit_length() - 3)))


def pad_sizes(embedded: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    """Embedded (B, T, E) and a memory (B, S, W) with B, T and S rounded up.

    Targets and sources get padding, which is masked or cut off; the batch repeats its last row.
    """
    batch, time = embedded.shape[:2]
    sources = memory.values.shape[1]
    rows, columns = rounded_rows(batch) - batch, rounded_steps(sources, SOURCE_MULTIPLE) - sources

    def repeat_last(values: Tensor) -> Tensor:
        return values if not rows else torch.cat((values, values[-1:].expand(rows, *values.shape[1:])))

    mask = memory.mask
    if columns and mask is None:
        mask = torch.ones(batch, sources, dtype=torch.bool, device=embedded.device)
    mask = None if mask is None else repeat_last(F.pad(mask, (0, columns)))
    states = None if memory.states is None else [tuple(map(repeat_last, parts)) for parts in memory.states]
    values = repeat_last(F.pad(memory.values, (0, 0, 0, columns)))
    wider = replace(memory, values=values, mask=mask, states=states)
    return repeat_last(F.pad(embedded, (0, 0, 0, rounded_steps(time, TARGET_MULTIPLE) - time))), wider
