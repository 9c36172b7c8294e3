"""The blocks of a Transformer over packed weights: whole sources in the encoder, one token a row in the decoder.

The references are `harken.nn.transformer.block`, `harken.nn.transformer.stack` and `harken.nn.recurrent.ssru`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harken.kernels.caching import cached_njit
from harken.kernels.decoding.attention import attend_all, attend_past, attend_source, rotate
from harken.kernels.decoding.products import (
    FLAGS,
    NO_LIMIT,
    RELU,
    STRIDE,
    VALUE_BYTES,
    VNNI,
    activate,
    aligned,
    layer_norm,
    linear,
)
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import sigmoid

# products and norms of a layer, in the order in which they are packed; an SSRU has no SELF_OUTPUT
SELF, SELF_OUTPUT, EXPAND, CONTRACT, QUERY, MEMORY, CROSS_OUTPUT = range(7)
ENCODER_PRODUCTS, DECODER_PRODUCTS = 4, 7
SELF_NORM, FEEDFORWARD_NORM, CROSS_NORM = range(3)
ENCODER_NORMS, DECODER_NORMS = 2, 3
ACTIVATION_TYPE: Any = np.uint8 if VNNI else np.int16
ZERO = np.float32(0)


class Blocks(NamedTuple):
    """The shape of a stack and how its positions enter."""

    layers: int
    width: int  # D
    heads: int  # N
    head_width: int  # K
    inner: int  # inputs of the last map of the feed-forward layer
    pre: bool  # norm before the sub-layers, not after
    activation: int
    rotary: bool
    scale: Any  # float32: of the attention scores, 1 / sqrt(K)
    embedding_scale: Any  # float32: of the embeddings, sqrt(D)
    epsilon: Any  # float32: of the norms
    biases: Any  # (N, 2 T - 1) float32 of the scores at distances 1 - T to T - 1, or (N, 0)
    positions: Any  # (T, D) float32 added to the embeddings, or (0, D)
    angles: Any  # (T, K) float32 of rotary positions, or (0, 0)
    ssru: bool  # a decoder with an SSRU in the place of self-attention
    embedding_norm: bool  # embeddings are normalised, by the last norm that is packed
    alignment_layer: int  # the layer whose attention is the alignment
    alignment: Any  # (N,) float32: the weight of each of its heads


class Buffers(NamedTuple):
    """Memory of one step, (rows, whole panels) each."""

    values: Any  # the residual stream
    normed: Any
    wide: Any  # queries, keys and values; then the feed-forward layer
    context: Any
    quantised: Any
    scales: Any


@linked_njit(**FLAGS)
def whole_panels(width: Any) -> Any:
    """The next multiple of the columns of a panel."""
    return (width + STRIDE - 1) // STRIDE * STRIDE


@linked_njit(**FLAGS)
def new_buffers(rows: Any, width: Any, inner: Any, attended: Any) -> Any:
    """Buffers for stacks of this width; `inner` is the width of the widest layer, `attended` that of all heads."""
    narrow, wide = whole_panels(width), whole_panels(max(3 * attended, inner))
    return Buffers(
        aligned(rows, narrow),
        aligned(rows, narrow),
        aligned(rows, wide),
        aligned(rows, whole_panels(attended)),
        np.zeros((rows, max(wide, narrow)), ACTIVATION_TYPE),
        np.zeros(rows, np.float32),
    )


@linked_njit(**FLAGS)
def embed(blocks: Any, table: Any, token: Any, position: Any, out: Any) -> None:
    """One row: the embedding, scaled, plus its position."""
    out_of_line()
    line = table[token]
    for k in range(blocks.width):
        out[k] = line[k] * blocks.embedding_scale
    if blocks.positions.shape[0] > 0:
        added = blocks.positions[position]
        for k in range(blocks.width):
            out[k] += added[k]


@linked_njit(**FLAGS)
def normalise_embeddings(packed: Any, blocks: Any, b: Any, rows: Any) -> None:
    """b.values (rows, D) in place, in a stack whose embeddings are normalised."""
    out_of_line()
    if blocks.embedding_norm:
        last = packed.norms.shape[0] - 1
        layer_norm(packed, last, b.values, blocks.width, rows, b.values, blocks.epsilon)


@linked_njit(**FLAGS)
def _project(packed: Any, blocks: Any, product: Any, norm: Any, b: Any, rows: Any, out: Any, low: Any) -> None:
    """The first product of a sub-layer, after its norm if the norm comes first."""
    out_of_line()
    if blocks.pre:
        layer_norm(packed, norm, b.values, blocks.width, rows, b.normed, blocks.epsilon)
        linear(packed, product, b.normed, b.quantised, b.scales, rows, out, low, np.int64(0))
    else:
        linear(packed, product, b.values, b.quantised, b.scales, rows, out, low, np.int64(0))


@linked_njit(**FLAGS)
def _return(packed: Any, blocks: Any, product: Any, norm: Any, b: Any, rows: Any, x: Any) -> None:
    """The last product of a sub-layer, added to the residual stream, which is normalised if the norm comes last."""
    out_of_line()
    linear(packed, product, x, b.quantised, b.scales, rows, b.values, NO_LIMIT, np.int64(1))
    if not blocks.pre:
        layer_norm(packed, norm, b.values, blocks.width, rows, b.values, blocks.epsilon)


@linked_njit(**FLAGS)
def _feed_forward(packed: Any, blocks: Any, product: Any, norm: Any, b: Any, rows: Any) -> None:
    out_of_line()
    low = ZERO if blocks.activation == RELU else NO_LIMIT
    _project(packed, blocks, product + EXPAND, norm + FEEDFORWARD_NORM, b, rows, b.wide, low)
    activate(blocks.activation, b.wide, blocks.inner, rows)
    _return(packed, blocks, product + CONTRACT, norm + FEEDFORWARD_NORM, b, rows, b.wide)


@cached_njit
def encode(packed: Any, blocks: Any, table: Any, tokens: Any, starts: Any, inner: Any) -> Any:
    """Tokens of all sources one after the other, source b from starts[b] -> memory (tokens, whole panels)."""
    rows, longest = tokens.shape[0], 0
    for source in range(starts.shape[0] - 1):
        longest = max(longest, starts[source + 1] - starts[source])
    head_width = blocks.head_width
    b = new_buffers(rows, blocks.width, inner, blocks.heads * head_width)
    scores, places = np.empty((blocks.heads, longest), np.float32), np.empty(longest, np.int64)
    for source in range(starts.shape[0] - 1):
        for row in range(starts[source], starts[source + 1]):
            embed(blocks, table, np.int64(tokens[row]), row - starts[source], b.values[row])
    normalise_embeddings(packed, blocks, b, rows)
    for layer in range(blocks.layers):
        product, norm = layer * ENCODER_PRODUCTS, layer * ENCODER_NORMS
        _project(packed, blocks, product + SELF, norm + SELF_NORM, b, rows, b.wide, NO_LIMIT)
        if blocks.rotary:
            for source in range(starts.shape[0] - 1):
                for row in range(starts[source], starts[source + 1]):
                    angles = blocks.angles[row - starts[source]]
                    rotate(b.wide, row, 2 * blocks.heads, head_width, angles)  # queries and keys
        attend_all(b.wide, starts, blocks.heads, head_width, blocks.scale, blocks.biases, scores, places, b.context)
        _return(packed, blocks, product + SELF_OUTPUT, norm + SELF_NORM, b, rows, b.context)
        _feed_forward(packed, blocks, product, norm, b, rows)
    if blocks.pre:
        norm = blocks.layers * ENCODER_NORMS
        layer_norm(packed, norm, b.values, blocks.width, rows, b.values, blocks.epsilon)
    return b.values


@linked_njit(**FLAGS)
def _decoder_product(blocks: Any, layer: Any) -> Any:
    """The offset of the number of a product, other than SELF, of a decoder's layer."""
    return layer * (DECODER_PRODUCTS - 1) - 1 if blocks.ssru else layer * DECODER_PRODUCTS


@linked_njit(**FLAGS)
def _ssru_step(
    packed: Any, blocks: Any, product: Any, norm: Any, b: Any, cache: Any, ancestors: Any, rows: Any, time: Any
) -> None:
    """c = f c' + (1 - f) W x and values + ReLU(c); c' is in slot (time - 1) % 2 of the cache (2, R, D)."""
    out_of_line()
    width = blocks.width
    _project(packed, blocks, product, norm, b, rows, b.wide, NO_LIMIT)  # forget gate, candidate
    for row in range(rows):
        line, here, values = b.wide[row], cache[time % 2, row], b.values[row]
        if time == 0:
            for k in range(width):
                here[k] = (np.float32(1) - sigmoid(line[k])) * line[width + k]
        else:
            before = cache[(time + 1) % 2, ancestors[row, time - 1]]
            for k in range(width):
                forget = sigmoid(line[k])
                here[k] = forget * before[k] + (np.float32(1) - forget) * line[width + k]
        for k in range(width):
            values[k] += ZERO if here[k] < ZERO else here[k]  # NaN stays NaN
    if not blocks.pre:
        layer_norm(packed, norm, b.values, width, rows, b.values, blocks.epsilon)


@linked_njit(**FLAGS)
def project_memory(packed: Any, blocks: Any, memory: Any, projected: Any) -> None:
    """Keys and values (L, tokens, 2 D) of every layer's cross-attention."""
    out_of_line()
    rows = memory.shape[0]
    quantised = np.zeros((rows if packed.values.size > 0 else 1, memory.shape[1]), ACTIVATION_TYPE)
    scales = np.zeros(rows, np.float32)
    for layer in range(blocks.layers):
        product = _decoder_product(blocks, layer) + MEMORY
        linear(packed, product, memory, quantised, scales, rows, projected[layer], NO_LIMIT, np.int64(0))


@linked_njit(**FLAGS)
def decoder_step(
    packed: Any, blocks: Any, b: Any, memory: Any, sources: Any, starts: Any, cache: Any, ancestors: Any, rows: Any,
    time: Any, scores: Any, places: Any, attention: Any,
) -> None:  # fmt: skip
    """b.values (rows, D): the embedded tokens at position `time`, then the input of the output layer.

    `attention` (R, S) gets the mean of the alignment heads, or is (0, 0).
    Keys and values of this position are written into the cache (L, T, R, 2 N K), or the state of an SSRU into a slot of
    (L, 2, R, D).
    """
    out_of_line()
    width, heads, head_width = blocks.width, blocks.heads, blocks.head_width
    attended = heads * head_width
    for layer in range(blocks.layers):
        product, norm = _decoder_product(blocks, layer), layer * DECODER_NORMS
        if blocks.ssru:
            first = product + 1
            _ssru_step(packed, blocks, first, norm + SELF_NORM, b, cache[layer], ancestors, rows, time)
        else:
            _project(packed, blocks, product + SELF, norm + SELF_NORM, b, rows, b.wide, NO_LIMIT)
            for row in range(rows):
                if blocks.rotary:
                    rotate(b.wide, row, 2 * heads, head_width, blocks.angles[time])
                line, here = b.wide[row], cache[layer, time, row]
                for k in range(2 * attended):
                    here[k] = line[attended + k]
            attend_past(
                b.wide, cache[layer], ancestors, rows, time, heads, head_width, blocks.scale, blocks.biases, scores,
                places, b.context,
            )  # fmt: skip
            _return(packed, blocks, product + SELF_OUTPUT, norm + SELF_NORM, b, rows, b.context)
        _project(packed, blocks, product + QUERY, norm + CROSS_NORM, b, rows, b.wide, NO_LIMIT)
        attend_source(
            b.wide, memory[layer], sources, starts, rows, heads, head_width, blocks.scale, scores, places, b.context,
            blocks.alignment, attention if layer == blocks.alignment_layer else attention[:0],
        )  # fmt: skip
        _return(packed, blocks, product + CROSS_OUTPUT, norm + CROSS_NORM, b, rows, b.context)
        _feed_forward(packed, blocks, product, norm, b, rows)
    if blocks.pre:
        layer_norm(packed, blocks.layers * DECODER_NORMS, b.values, width, rows, b.values, blocks.epsilon)


assert np.dtype(ACTIVATION_TYPE).itemsize == VALUE_BYTES
