"""The step of a recurrent decoder over packed weights: one token a row, attention to the row's source.

The reference is `harken.models.recurrent.step.advance`; its docstring has the equations. States are
not moved when a beam is reordered: a step reads the states of the rows that its hypotheses descend from, which it finds
in `ancestors` (`harken.kernels.decoding.search`), and writes those of its own rows into the other half of the buffer.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from harken.kernels.decoding.attention import exponentials, maximum, mix
from harken.kernels.decoding.products import FLAGS, NO_LIMIT, STRIDE, SUMS, linear, round_up
from harken.kernels.decoding.stack import ACTIVATION_TYPE
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.decoding.weights import cache_line_array
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import sigmoid, tanh

CELLS = {"rnn": 0, "lstm": 1, "gru": 2, "gru-before": 3}
RNN, LSTM, GRU, GRU_BEFORE = range(4)
PRODUCTS = (1, 1, 3, 2)  # of a layer
SCORES = {None: 0, "additive": 1, "dot": 2, "cosine": 3}
NONE, ADDITIVE, DOT, COSINE = range(4)
ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-12)


class Cells(NamedTuple):
    """The shape of a decoder; see `harken.kernels.decoding.description.Recurrent`."""

    cell: int
    products: int  # of a layer
    layers: int
    embedding: int  # E
    width: int  # H
    embedding_scale: Any  # float32
    score: int
    scale: Any  # float32
    energy: Any  # (A,)
    coverage: Any  # (A,), or (0,)
    before: bool
    feeds: bool
    reads: Any  # (L,)
    query_layer: int
    residual_from: int
    zoneout: Any  # float32
    narrows: bool


class Source(NamedTuple):
    """The first states of a decoder and the memory of its sources."""

    states: Any  # (L, P, B, H in whole panels): h, and c of an LSTM
    feed: Any  # (B, H in whole panels): the first attentional state, or the constant context
    memory: Any  # (tokens, A + H, each in whole panels): keys, then values
    values: int  # column of the values


class State(NamedTuple):
    """Memory of a search of R rows; widths in whole panels."""

    table: Any  # (V, E) target embeddings
    memory: Any
    values: int
    starts: Any  # (B + 1,) first token of each source in the memory
    states: Any  # (2, L, P, R, H): of the last step and of this one, which change places
    feeds: Any  # (2, R, H)
    sums: Any  # (2, R, S) of earlier weights, or (2, 0, 0)
    parents: Any  # (R,) row of the last step
    inputs: Any  # (R, I + H) what a cell reads: [below; context; h]
    wide: Any  # (R, 4 H) the gates; the queries of the additive score
    below: Any  # (R, E or H) output of the layer below
    context: Any  # (R, H)
    spare: Any  # (3, R, H) of a GRU
    weights: Any  # (S,) of one row's attention
    places: Any  # (S,)


class Output(NamedTuple):
    """The input of the output layer, as in `harken.kernels.decoding.stack.Buffers`."""

    values: Any  # (R, D)
    quantised: Any
    scales: Any


def new_state(cells: Cells, table: Any, source: Source, starts: Any, most: int, hidden: int) -> tuple[State, Output]:
    """The state before the first step, with room for `most` rows; `hidden` is the width of the output layer's input."""

    def panels(*shape: int) -> Any:
        shape = (*shape[:-1], round_up(shape[-1], STRIDE))
        return cache_line_array(math.prod(shape), np.float32).reshape(shape)

    layers, parts, batch, width = source.states.shape
    longest = int(np.diff(starts).max())
    states, feeds = panels(2, layers, parts, most, width), panels(2, most, width)
    states[0, :, :, :batch], feeds[0, :batch] = source.states, source.feed
    sums = np.zeros((2, most, longest) if cells.coverage.size else (2, 0, 0), np.float32)
    widest = round_up(max(cells.embedding, width) + 2 * width, STRIDE)
    state = State(
        table, source.memory, source.values, starts, states, feeds, sums, np.arange(most), panels(most, widest),
        panels(most, max(4 * width, cells.energy.size)), panels(most, max(cells.embedding, cells.width)),
        panels(most, width), panels(3, most if cells.cell >= GRU else 1, width), np.zeros(longest, np.float32),
        np.zeros(longest, np.int64),
    )  # fmt: skip
    b = Output(panels(most, hidden), np.zeros((most, widest), ACTIVATION_TYPE), np.zeros(most, np.float32))
    return state, b


@linked_njit(**FLAGS)
def _copy(values: Any, width: Any, out: Any, start: Any) -> None:
    for k in range(width):
        out[start + k] = values[k]


@linked_njit(**SUMS)
def _dot(query: Any, key: Any, width: Any) -> Any:
    total = ZERO
    for k in range(width):
        total += query[k] * key[k]
    return total


@linked_njit(**SUMS)
def _additive(query: Any, key: Any, energy: Any) -> Any:
    """v^T tanh(q + k)."""
    total = ZERO
    for k in range(len(energy)):
        total += energy[k] * tanh(query[k] + key[k])
    return total


@linked_njit(**SUMS)
def _additive_with_coverage(query: Any, key: Any, energy: Any, coverage: Any, covered: Any) -> Any:
    """v^T tanh(q + k + w c), c the sum of earlier weights."""
    total = ZERO
    for k in range(len(energy)):
        total += energy[k] * tanh(query[k] + key[k] + coverage[k] * covered)
    return total


@linked_njit(**FLAGS)
def _attend(
    packed: Any, cells: Any, s: Any, b: Any, queries: Any, product: Any, sources: Any, attention: Any, rows: Any,
    last: Any,
) -> None:  # fmt: skip
    """s.context: of queries (rows, H); the weights also in `attention` (R, S), where it is not empty."""
    out_of_line()
    width, covers = cells.width, cells.coverage.size > 0
    if cells.score == ADDITIVE:
        linear(packed, product, queries, b.quantised, b.scales, rows, s.wide, NO_LIMIT, np.int64(0))
    for row in range(rows):
        first, count = s.starts[sources[row]], s.starts[sources[row] + 1] - s.starts[sources[row]]
        scale = cells.scale
        if cells.score == COSINE:
            scale /= max(np.float32(math.sqrt(_dot(queries[row], queries[row], width))), TINY)
        for token in range(count):
            key = s.memory[first + token]
            s.places[token] = s.memory.ctypes.data + 4 * (first + token) * s.memory.shape[1]
            if covers:
                covered = s.sums[last, s.parents[row], token]
                s.weights[token] = _additive_with_coverage(s.wide[row], key, cells.energy, cells.coverage, covered)
            elif cells.score == ADDITIVE:
                s.weights[token] = _additive(s.wide[row], key, cells.energy)
            else:
                s.weights[token] = _dot(queries[row], key, width) * scale
        inverse = ONE / exponentials(s.weights, count, maximum(s.weights, count))
        mix(
            s.places, 4 * s.values, count, s.weights, inverse, width,
            s.context.ctypes.data + 4 * row * s.context.shape[1],
        )  # fmt: skip
        if attention.shape[0] > 0:
            for token in range(count):
                attention[row, token] = s.weights[token] * inverse
        if covers:
            for token in range(count):
                s.sums[1 - last, row, token] = s.sums[last, s.parents[row], token] + s.weights[token] * inverse


@linked_njit(**FLAGS)
def _lstm(gates: Any, width: Any, cell: Any, new_cell: Any, hidden: Any) -> None:
    """One row: gates i, f, g, o before their functions."""
    i_f, g, o = gates[: 2 * width], gates[2 * width : 3 * width], gates[3 * width : 4 * width]
    for k in range(2 * width):
        i_f[k] = sigmoid(i_f[k])
    for k in range(width):
        g[k] = tanh(g[k])
    f = i_f[width:]
    for k in range(width):
        new_cell[k] = f[k] * cell[k] + i_f[k] * g[k]
    for k in range(width):
        o[k] = sigmoid(o[k])
    for k in range(width):
        hidden[k] = o[k] * tanh(new_cell[k])


@linked_njit(**FLAGS)
def _gru(gates: Any, of_input: Any, of_hidden: Any, width: Any, old: Any, hidden: Any) -> None:
    """One row: gates r, z, already sigmoids; n = tanh(W x + r * (U h)), h = n + z (h - n)."""
    z = gates[width:]
    for k in range(width):
        of_input[k] = tanh(of_input[k] + gates[k] * of_hidden[k])
    for k in range(width):
        hidden[k] = of_input[k] + z[k] * (old[k] - of_input[k])


@linked_njit(**FLAGS)
def _keep(new: Any, old: Any, width: Any, share: Any) -> None:
    """Zoneout: the expected share of the old state."""
    for k in range(width):
        new[k] += share * (old[k] - new[k])


@linked_njit(**FLAGS)
def _advance(packed: Any, cells: Any, s: Any, b: Any, layer: Any, size: Any, rows: Any, last: Any) -> None:
    """The new state of a layer, from s.inputs (rows, size + H): its input and, last, h."""
    out_of_line()
    width, product, now = cells.width, layer * cells.products, 1 - last
    old, new = s.states[last, layer], s.states[now, layer]
    linear(packed, product, s.inputs, b.quantised, b.scales, rows, s.wide, NO_LIMIT, np.int64(0))
    if cells.cell == LSTM:
        for row in range(rows):
            _lstm(s.wide[row], width, old[1, s.parents[row]], new[1, row], new[0, row])
    elif cells.cell == RNN:
        for row in range(rows):
            line, out = s.wide[row], new[0, row]
            for k in range(width):
                out[k] = tanh(line[k])
    else:
        for row in range(rows):
            gates = s.wide[row]
            for k in range(2 * width):
                gates[k] = sigmoid(gates[k])
            if cells.cell == GRU:
                _copy(old[0, s.parents[row]], width, s.spare[0, row], 0)
            else:
                hidden = s.inputs[row, size:]
                for k in range(width):
                    hidden[k] *= gates[k]
        linear(packed, product + 1, s.inputs, b.quantised, b.scales, rows, s.spare[1], NO_LIMIT, np.int64(0))
        if cells.cell == GRU:
            linear(packed, product + 2, s.spare[0], b.quantised, b.scales, rows, s.spare[2], NO_LIMIT, np.int64(0))
            for row in range(rows):
                gates = s.wide[row]
                _gru(gates, s.spare[1, row], s.spare[2, row], width, old[0, s.parents[row]], new[0, row])
        else:
            for row in range(rows):
                z, n, before, out = s.wide[row, width:], s.spare[1, row], old[0, s.parents[row]], new[0, row]
                for k in range(width):
                    out[k] = before[k] + z[k] * (tanh(n[k]) - before[k])
    if cells.zoneout > ZERO:
        for row in range(rows):
            for part in range(old.shape[0]):
                _keep(new[part, row], old[part, s.parents[row]], width, cells.zoneout)


@linked_njit(**FLAGS)
def _read(cells: Any, s: Any, layer: Any, size: Any, rows: Any, last: Any) -> Any:
    """s.inputs of a layer; returns the width of its input, without h."""
    out_of_line()
    hidden, width, reads = s.states[last, layer, 0], cells.width, cells.reads[layer]
    whole = size + width if reads else size
    for row in range(rows):
        line, parent = s.inputs[row], s.parents[row]
        _copy(s.below[row], size, line, 0)
        if reads and cells.before:
            _copy(s.context[row], width, line, size)
        elif reads:
            _copy(s.feeds[last, parent], width, line, size)
        _copy(hidden[parent], width, line, whole)
    return whole


@linked_njit(**FLAGS)
def recurrent_step(
    packed: Any, cells: Any, s: Any, b: Any, tokens: Any, sources: Any, ancestors: Any, attention: Any,
    rows: Any, time: Any,
) -> None:  # fmt: skip
    """Tokens (rows,) -> b.values (rows, D), the input of the output layer; the states become those of this step."""
    out_of_line()
    width, last, now, query = cells.width, time % 2, 1 - time % 2, cells.layers * cells.products
    combine = query + 1 if cells.score == ADDITIVE else query
    for row in range(rows):
        s.parents[row] = ancestors[row, time - 1] if time > 0 else sources[row]
        embedding, out = s.table[tokens[row]], s.below[row]
        for k in range(cells.embedding):
            out[k] = embedding[k] * cells.embedding_scale
    if cells.before:
        hidden = s.states[last, cells.query_layer, 0]
        for row in range(rows):
            _copy(hidden[s.parents[row]], width, s.inputs[row], 0)
        _attend(packed, cells, s, b, s.inputs, query, sources, attention, rows, last)
    size = np.int64(cells.embedding)
    for layer in range(cells.layers):
        whole = _read(cells, s, layer, size, rows, last)
        _advance(packed, cells, s, b, layer, whole, rows, last)
        hidden = s.states[now, layer, 0]
        for row in range(rows):
            out, new_hidden = s.below[row], hidden[row]
            for k in range(width):
                out[k] = new_hidden[k] + (out[k] if layer >= cells.residual_from else ZERO)
        size = np.int64(width)
    if cells.score != NONE:
        if not cells.before:
            _attend(packed, cells, s, b, s.states[now, cells.query_layer, 0], query, sources, attention, rows, last)
        for row in range(rows):
            _copy(s.context[row], width, s.inputs[row], 0)
            _copy(s.below[row], width, s.inputs[row], width)
        linear(packed, combine, s.inputs, b.quantised, b.scales, rows, s.below, NO_LIMIT, np.int64(0))
        for row in range(rows):
            out = s.below[row]
            for k in range(width):
                out[k] = tanh(out[k])
    for row in range(rows):
        _copy(s.below[row] if cells.feeds else s.feeds[last, s.parents[row]], width, s.feeds[now, row], 0)
    if cells.narrows:
        narrow = query if cells.score == NONE else combine + 1
        linear(packed, narrow, s.below, b.quantised, b.scales, rows, b.values, NO_LIMIT, np.int64(0))
    else:
        for row in range(rows):
            _copy(s.below[row], width, b.values[row], 0)
