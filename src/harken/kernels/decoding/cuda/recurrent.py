"""The decoder step of a recurrent decoder on a GPU, for a few rows: six kernels and one more for each layer.

    cell_kernel       s_t = cell([y_{t-1}; o_{t-1}], s_{t-1}): embedding, products and gates of some units
    source_kernel     c_t = sum_i softmax_i(score(s_t, h_i)) h_i
    combine_kernel    o_t = tanh(W_c [c_t; s_t])
    linear.py         the query of the additive score, the map to the output layer's width, the output layer

The reference is `harken.models.recurrent.step.advance`. States are float32 and are not moved when
hypotheses change places: a step reads the states of its parents' rows and writes into the other half of the buffer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.decoder_loop.triton_kernels import lstm_step, sigmoid, tanh
from harken.kernels.decoding.cuda.linear import ROWS, few_rows_linear
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import Cell, Recurrent
from harken.kernels.triton_import import tl, triton

PROGRAMS = 128  # about as many as the device has multiprocessors
TILE = 20480  # elements of the weights in one program
BLOCK = 16  # words of a source read at a time
CELL_WARPS, SOURCE_WARPS, COMBINE_WARPS = 8, 8, 4
WIDEST = 1024


@triton.jit
def cell_kernel(
    table: tl.tensor,
    tokens: tl.tensor,
    feed: tl.tensor,
    hidden: tl.tensor,
    cells: tl.tensor,
    parents: tl.tensor,
    weight: tl.tensor,
    recurrent: tl.tensor,
    bias: tl.tensor,
    recurrent_bias: tl.tensor,
    new_hidden: tl.tensor,
    new_cells: tl.tensor,
    size: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    EMBEDS: tl.constexpr,
    FEEDS: tl.constexpr,
    LSTM: tl.constexpr,
    PARENTS: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """BLOCK units of all rows: table (V, E), or (R, size) of the layer below; feed, states (R, H); weight (4 H, I).

    The four parts of a unit: i, f, g, o of an LSTM; r, z, W_n x and U_n h of a GRU.
    """
    if OVERLAP:
        allow_next()
    part, feature, state = tl.arange(0, 4 * BLOCK) // BLOCK, tl.arange(0, SIZE), tl.arange(0, WIDTH)
    unit = tl.program_id(0) * BLOCK + tl.arange(0, 4 * BLOCK) % BLOCK
    of_input, of_hidden, real = part * width + unit, part * width + unit, unit < width
    reads_input, reads_hidden = real, real
    if not LSTM:
        of_input, of_hidden = tl.where(part == 3, 0, of_input), tl.where(part == 3, of_input - width, of_hidden)
        reads_input, reads_hidden = real & (part != 3), real & (part != 2)
    stride = size
    if FEEDS:
        stride = size + width
    inside, known_state = feature < size, state < width
    start = weight + of_input.to(tl.int64)[:, None] * stride
    tile = tl.load(start + feature[None, :], reads_input[:, None] & inside[None, :], other=0.0).to(tl.float32)
    valid = reads_hidden[:, None] & known_state[None, :]
    at = recurrent + of_hidden.to(tl.int64)[:, None] * width
    of_state = tl.load(at + state[None, :], valid, other=0.0).to(tl.float32)
    of_feed = of_state
    if FEEDS:
        fed = reads_input[:, None] & known_state[None, :]
        of_feed = tl.load(start + size + state[None, :], fed, other=0.0).to(tl.float32)
    known = tl.load(bias + of_input, reads_input, other=0.0).to(tl.float32)
    known += tl.load(recurrent_bias + of_hidden, reads_hidden, other=0.0).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    column, four = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 4)[:, None]
    exists = column < width
    for row in tl.static_range(ROWS):
        parent = row
        if PARENTS:
            parent = tl.load(parents + row)
        first = row
        if EMBEDS:
            first = tl.load(tokens + row)
        values = tl.load(table + first * size + feature, inside, other=0.0).to(tl.float32) * scale
        last = tl.load(hidden + parent * width + state, known_state, other=0.0)
        total = known + tl.sum(tile * values[None, :], 1) + tl.sum(of_state * last[None, :], 1)
        if FEEDS:
            total += tl.sum(of_feed * tl.load(feed + parent * width + state, known_state, other=0.0)[None, :], 1)
        gates = tl.reshape(total, (4, BLOCK))
        first_gate, second_gate = tl.sum(tl.where(four == 0, gates, 0.0), 0), tl.sum(tl.where(four == 1, gates, 0.0), 0)
        third_gate, fourth_gate = tl.sum(tl.where(four == 2, gates, 0.0), 0), tl.sum(tl.where(four == 3, gates, 0.0), 0)
        if LSTM:
            old = tl.load(cells + parent * width + column, exists, other=0.0)
            cell, output = lstm_step(first_gate, second_gate, third_gate, fourth_gate, old)
            tl.store(new_cells + row * width + column, cell, exists)
        else:
            old = tl.load(hidden + parent * width + column, exists, other=0.0)
            candidate = tanh(third_gate + sigmoid(first_gate) * fourth_gate)
            output = candidate + sigmoid(second_gate) * (old - candidate)
        tl.store(new_hidden + row * width + column, output, exists)


@triton.jit
def source_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    memory: tl.tensor,
    energy: tl.tensor,
    lengths: tl.tensor,
    context: tl.tensor,
    weights: tl.tensor,
    size: tl.tensor,
    width: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    scale: tl.tensor,
    ADDITIVE: tl.constexpr,
    WEIGHTS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row: queries (R, A), keys (B, S, A), memory (B, S, H), lengths (B,) -> context (R, H), weights (R, S)."""
    if OVERLAP:
        allow_next()
    row, feature, unit = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE), tl.arange(0, WIDTH)
    inside, exists = feature < size, unit < width
    vector = tl.zeros((SIZE,), tl.float32)
    if ADDITIVE:
        vector = tl.load(energy + feature, inside, other=0.0).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    owner = row // beam
    length = tl.load(lengths + owner).to(tl.int32)
    query = tl.load(queries + row * size + feature, inside, other=0.0) * scale
    peak, total = float("-inf"), 0.0
    mixed = tl.zeros((WIDTH,), tl.float32)
    for first in range(0, length, BLOCK):
        word = first + tl.arange(0, BLOCK)
        valid = word < length
        line = (owner * capacity + word)[:, None]
        key = tl.load(keys + line * size + feature[None, :], valid[:, None] & inside[None, :], other=0.0).to(tl.float32)
        values = tl.load(memory + line * width + unit[None, :], valid[:, None] & exists[None, :], other=0.0)
        if ADDITIVE:
            score = tl.sum(tanh(key + query[None, :]) * vector[None, :], 1)
        else:
            score = tl.sum(key * query[None, :], 1)
        score = tl.where(valid, score, float("-inf"))
        if WEIGHTS:
            tl.store(weights + row * capacity + word, score, valid)
        higher = tl.maximum(peak, tl.max(score, 0))
        share, shrink = tl.exp(score - higher), tl.exp(peak - higher)
        total = total * shrink + tl.sum(share, 0)
        mixed = mixed * shrink + tl.sum(share[:, None] * values.to(tl.float32), 0)
        peak = higher
    tl.store(context + row * width + unit, mixed / total, exists)
    if WEIGHTS:
        tl.debug_barrier()  # scores become probabilities
        for first in range(0, length, BLOCK):
            word = first + tl.arange(0, BLOCK)
            score = tl.load(weights + row * capacity + word, word < length, other=float("-inf"))
            tl.store(weights + row * capacity + word, tl.exp(score - peak) / total, word < length)


@triton.jit
def combine_kernel(
    context: tl.tensor,
    hidden: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """BLOCK units of all rows: context, hidden and out (R, H), weight (H, 2 H)."""
    if OVERLAP:
        allow_next()
    unit, feature = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    exists, inside = unit < width, feature < width
    start = weight + unit.to(tl.int64)[:, None] * (2 * width) + feature[None, :]
    valid = exists[:, None] & inside[None, :]
    of_context = tl.load(start, valid, other=0.0).to(tl.float32)
    of_hidden = tl.load(start + width, valid, other=0.0).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    for row in tl.static_range(ROWS):
        mixed = tl.load(context + row * width + feature, inside, other=0.0)
        state = tl.load(hidden + row * width + feature, inside, other=0.0)
        total_output = tl.sum(of_context * mixed[None, :], 1) + tl.sum(of_hidden * state[None, :], 1)
        tl.store(out + row * width + unit, tanh(total_output), exists)


def why_not_recurrent(described: Any, rows: int) -> str | None:
    """LSTM or GRU layers without connections that attend after the step, by an additive score or a dot product."""
    if not isinstance(described, Recurrent):
        return "the decoder is not recurrent"
    if described.coverage is not None or described.zoneout != 0 or described.connections.kind is not None:
        return "the decoder has coverage, zoneout or connections"
    if described.score not in ("additive", "dot") or described.attends_before:
        return "the decoder attends in another way"
    if not all(_has_kernel(cell) for cell in described.cells) or max(described.width, described.embedding) > WIDEST:
        return "the kernels lack these cells, or so many units"
    return None if rows <= ROWS else f"there are more than {ROWS} rows"


def _has_kernel(cell: Cell) -> bool:
    plain = not cell.coupled and cell.peephole is None and cell.reset == "after"
    return plain and cell.kind in ("lstm", "gru") and cell.bias_ih is not None and cell.bias_hh is not None


def _units(width: int, elements: int) -> int:
    """A power of two: units of a program, each with so many weights."""
    most = max(1, min(width // PROGRAMS, TILE // elements))
    return 1 << (most.bit_length() - 1)


class RecurrentStep:
    """The state and the step of `sources` x `beam` rows with sources of at most `words` words."""

    def __init__(self, described: Recurrent, sources: int, beam: int, words: int) -> None:
        self.described, self.beam, self.half = described, beam, 0
        like, width, rows = described.target_embedding, described.width, sources * beam
        attention = width if described.energy is None else len(described.energy)
        self.states = torch.zeros(2, len(described.cells), 2, rows, width, device=like.device)  # h and c
        self.feeds = torch.zeros(2, rows, width, device=like.device)
        self.keys, self.memory = like.new_zeros(sources, words, attention), like.new_zeros(sources, words, width)
        self.lengths = torch.ones(sources, dtype=torch.int32, device=like.device)
        self.parents = torch.arange(rows, device=like.device)
        self.attention = torch.zeros(rows, words, device=like.device)  # of the last step, where `need_weights` is set
        self.need_weights = False

    def load(self, state: Any, lengths: Tensor) -> None:
        """A fresh `RecurrentState` of B' sources with one hypothesis each, and the lengths (B',) of the sources."""
        (sources, words), self.half = state.keys.shape[:2], 0
        for layer, parts in enumerate(state.layers):
            for part, values in enumerate(parts):
                whole = self.states[0, layer, part].view(-1, self.beam, self.described.width)
                whole[:sources].copy_(values[:, None])
        self.feeds[0].zero_()
        self.keys[:sources, :words].copy_(state.keys)
        self.memory[:sources, :words].copy_(state.memory)
        self.lengths[:sources] = lengths
        torch.arange(len(self.parents), out=self.parents)
        self.attention.zero_()

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) -> logits (R, V)."""
        described, rows, last, self.half = self.described, len(tokens), self.half, 1 - self.half
        width, below = described.width, described.target_embedding
        for layer in range(len(described.cells)):
            self._advance(layer, below, tokens, last)
            below = self.states[self.half, layer, 0]
        query = self.states[self.half, described.query_layer, 0]
        if described.query is not None:
            query = few_rows_linear(query, described.query, query.new_empty(rows, len(described.query.weight)))
        context = torch.empty_like(below)
        energy = self.keys if described.energy is None else described.energy
        chosen = options(below.is_cuda)
        wide = triton.next_power_of_2(width)
        source_kernel[(rows,)](
            query, self.keys, self.memory, energy, self.lengths, context, self.attention,
            query.shape[1], width, self.keys.shape[1], self.beam, described.scale,
            ADDITIVE=described.energy is not None, WEIGHTS=self.need_weights,
            SIZE=triton.next_power_of_2(query.shape[1]), WIDTH=wide, BLOCK=BLOCK, num_warps=SOURCE_WARPS, **chosen,
        )  # fmt: skip
        assert described.combine is not None
        hidden, units = self.feeds[self.half], _units(width, 2 * wide)
        combine_kernel[(triton.cdiv(width, units),)](
            context,
            below,
            described.combine.weight,
            hidden,
            width,
            ROWS=rows,
            WIDTH=wide,
            BLOCK=units,
            num_warps=COMBINE_WARPS,
            **chosen,
        )
        if described.narrow is not None:
            hidden = few_rows_linear(hidden, described.narrow, hidden.new_empty(rows, len(described.narrow.weight)))
        output = described.output
        return few_rows_linear(hidden, output, output.weight.new_empty(rows, len(output.weight)))

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the hypothesis of row rows[r]; called after every step of a beam."""
        self.parents.copy_(rows)

    def _advance(self, layer: int, below: Tensor, tokens: Tensor, last: int) -> None:
        """The new state of a layer; `below` are the target embeddings, or the new h of the layer below."""
        described, new, old = self.described, self.states[1 - last, layer], self.states[last, layer]
        cell = described.cells[layer]
        size, width, rows = below.shape[1], described.width, len(tokens)
        narrow, wide = triton.next_power_of_2(size), triton.next_power_of_2(width)
        units = _units(width, 4 * (narrow + 2 * wide))
        cell_kernel[(triton.cdiv(width, units),)](
            below, tokens, self.feeds[last], old[0], old[1], self.parents, cell.weight_ih, cell.weight_hh,
            cell.bias_ih, cell.bias_hh, new[0], new[1], size, width, described.embedding_scale if layer == 0 else 1.0,
            EMBEDS=layer == 0, FEEDS=described.reads[layer], LSTM=cell.kind == "lstm", PARENTS=self.beam > 1,
            ROWS=rows, SIZE=narrow, WIDTH=wide, BLOCK=units, num_warps=CELL_WARPS, **options(new.is_cuda),
        )  # fmt: skip


RECURRENT_STEP = Backend("fused recurrent", why_not_recurrent, RecurrentStep)
