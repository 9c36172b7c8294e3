"""Encoder and decoder step of a Transformer as ONNX nodes; what they compute is in `harken.nn.transformer.block`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harken.errors import UserError
from harken.export.graph import Graph, Memory, Step
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.activations import ACTIVATIONS
from harken.nn.attention.head_scores import DotHeads, ScaledHeads
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions, sinusoids
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.transformer.block import FeedForward

LENGTH = 4096  # rows of the tables of sinusoidal and rotary positions


def refuse_stack(stack: Any, what: str, supported_positions: tuple[type, ...]) -> None:
    """Check a stack of blocks before anything is written.

    Raises:
        UserError: it has experts, or a score or positions that the format does not have.
    """
    first = stack.blocks[0]
    found = None
    if not isinstance(first.feedforward, FeedForward):
        found = "model.experts"
    elif type(first.attention.score) not in (ScaledHeads, DotHeads):
        found = f"model.attention = {type(first.attention.score).__name__.removesuffix('Heads').lower()!r}"
    elif type(first.attention.positions) not in supported_positions:
        found = f"model.positions = {type(first.attention.positions).__name__.removesuffix('Positions').lower()!r}"
    elif not isinstance(stack.positions, SinusoidalPositions | LearnedPositions | None):
        found = "model.positions of your own"
    if found:
        raise UserError(f"{what} has no form for {found}; train without it to export the model")


def refuse_unsupported(stack: Any) -> None:
    """`refuse_stack` for ONNX."""
    refuse_stack(stack, "the export to ONNX", (AttentionPositions, RotaryPositions, AlibiPositions))


def positions_table(stack: Any, length: int = LENGTH) -> Tensor | None:
    """(length, D) what is added to the embeddings at each position, if anything is."""
    if stack.positions is None:
        return None
    if isinstance(stack.positions, LearnedPositions):
        return stack.positions.embedding.weight
    return sinusoids(length, stack.width)


def scale_of(score: Any, head_width: int) -> float:
    """What scores are multiplied by."""
    return 1.0 if isinstance(score, DotHeads) else 1 / math.sqrt(head_width)


def encode(graph: Graph, encoder: TransformerEncoder, embedded: str, lengths: str) -> Memory:
    """Embeddings (B, S, D), times sqrt(D) already -> the memory (B, S, D)."""
    stack, size = encoder.stack, graph.size(embedded, 1)
    blocks: Any = stack.blocks
    inside = graph.inside(lengths, size)
    mask = graph.added_mask(inside, 1, 2)  # (B, 1, 1, S)
    values = add_positions(graph, stack, embedded, graph.ints(0), size)
    for block in blocks:
        inputs = graph.apply(block.attention_norm, values) if block.pre else values
        change, _, _ = self_attention(graph, block.attention, inputs, graph.ints(0), size, mask)
        values = feed_forward(graph, block, after(graph, block, block.attention_norm, values, change))
    return Memory(graph.apply(stack.norm, values), inside)


def start(graph: Graph, decoder: TransformerDecoder, memory: Memory) -> tuple[dict[str, str], dict[str, str]]:
    """Keys and values of the memory (L, B, N, S, K), and the empty caches (L, B, N, 0, K)."""
    blocks: Any = decoder.stack.blocks
    pairs = [cross_keys_values(graph, block.cross, memory.values) for block in blocks]
    names = ("memory_keys", "memory_values")
    stacked = {
        name: stack_layers(graph, list(part)) for name, part in zip(names, zip(*pairs, strict=True), strict=True)
    }
    heads = blocks[0].attention.heads
    sizes = [graph.ints(len(blocks)), graph.size(memory.values, 0), graph.ints(heads, 0, decoder.width // heads)]
    empty = graph.add("ConstantOfShape", graph.add("Concat", *sizes, axis=0))  # float32 zeros
    return stacked, {"keys": empty, "values": empty}


def shapes(decoder: TransformerDecoder) -> dict[str, list[Any]]:
    """The shape of each tensor of `start`, with names for free sizes."""
    blocks: Any = decoder.stack.blocks
    layers, heads = len(blocks), blocks[0].attention.heads
    size = decoder.width // heads
    memory = {name: [layers, "batch", heads, "source", size] for name in ("memory_keys", "memory_values")}
    return {**memory, **{name: [layers, "batch", heads, "time", size] for name in ("keys", "values")}}


def step(
    graph: Graph,
    decoder: TransformerDecoder,
    embedded: str,
    lengths: str,
    memory: dict[str, str],
    state: dict[str, str],
) -> Step:
    """Embeddings of one token (B, D), times sqrt(D) already -> hidden (B, D), and the caches with it."""
    stack = decoder.stack
    blocks: Any = stack.blocks
    begin = graph.size(state["keys"], 3)
    end = graph.add("Add", begin, graph.ints(1))
    mask = graph.added_mask(graph.inside(lengths, graph.size(memory["memory_keys"], 3)), 1, 2)
    values = add_positions(graph, stack, graph.add("Unsqueeze", embedded, graph.ints(1)), begin, end)
    keys_values: list[tuple[str, str]] = []
    for layer, block in enumerate(blocks):
        number = graph.constant(layer, torch.int64)
        past = tuple(graph.add("Gather", state[name], number, axis=0) for name in ("keys", "values"))
        inputs = graph.apply(block.attention_norm, values) if block.pre else values
        change, *pair = self_attention(graph, block.attention, inputs, begin, end, None, past)
        keys_values.append((pair[0], pair[1]))
        values = after(graph, block, block.attention_norm, values, change)
        inputs = graph.apply(block.cross_norm, values) if block.pre else values
        seen = [graph.add("Gather", memory[name], number, axis=0) for name in ("memory_keys", "memory_values")]
        query = split_heads(graph, graph.apply(block.cross.query, inputs), block.cross.heads)
        context = attend(
            graph, query, seen[0], seen[1], scale_of(block.cross.score, decoder.width // block.cross.heads), mask
        )
        change = graph.apply(block.cross.output, context)
        values = feed_forward(graph, block, after(graph, block, block.cross_norm, values, change))
    hidden = graph.add("Squeeze", graph.apply(stack.norm, values), graph.ints(1))
    keys, contents = zip(*keys_values, strict=True)
    return Step(hidden, {"keys": stack_layers(graph, list(keys)), "values": stack_layers(graph, list(contents))})


def add_positions(graph: Graph, stack: Any, values: str, begin: str, end: str) -> str:
    """(B, T, D) plus the positions from `begin` to `end`, if they are of the added kind."""
    table = positions_table(stack)
    return values if table is None else graph.add("Add", values, rows_of(graph, table, begin, end))


def rows_of(graph: Graph, table: Tensor, begin: str, end: str) -> str:
    """Some rows of a table; both ends are (1,)."""
    return graph.add("Slice", graph.constant(table), begin, end, graph.ints(0))


def self_attention(
    graph: Graph,
    layer: SelfAttention,
    values: str,
    begin: str,
    end: str,
    mask: str | None,
    past: tuple[str, ...] = (),
) -> tuple[str, str, str]:
    """(B, T, D) at positions `begin` to `end` attend to themselves and the past -> (B, T, D), all keys and values."""
    width = layer.output.in_features
    projected = graph.apply(layer.query_key_value, values)
    parts = graph.add_many("Split", projected, graph.ints(width, width, width), outputs=3, axis=-1)
    query, key, value = (split_heads(graph, part, layer.heads) for part in parts)
    positions, size = layer.positions, width // layer.heads
    if isinstance(positions, RotaryPositions):
        query, key = (rotate(graph, one, size, begin, end) for one in (query, key))
    if past:
        key, value = (graph.add("Concat", *pair, axis=2) for pair in zip(past, (key, value), strict=True))
    if isinstance(positions, AlibiPositions):
        bias = alibi(graph, positions, begin, end)
        mask = bias if mask is None else graph.add("Add", mask, bias)
    context = attend(graph, query, key, value, scale_of(layer.score, size), mask)
    return graph.apply(layer.output, context), key, value


def attend(graph: Graph, query: str, key: str, value: str, scale: float, mask: str | None) -> str:
    """(B, N, T, K) and (B, N, S, K) -> contexts (B, T, D)."""
    query = graph.add("Mul", query, graph.constant(scale))
    scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 1, 3, 2]))
    scores = scores if mask is None else graph.add("Add", scores, mask)
    context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    return graph.reshape(graph.add("Transpose", context, perm=[0, 2, 1, 3]), 0, 0, -1)


def cross_keys_values(graph: Graph, layer: CrossAttention, memory: str) -> tuple[str, str]:
    """(B, S, D) -> keys and values (B, N, S, K)."""
    width = layer.output.in_features
    projected = graph.apply(layer.key_value, memory)
    key, value = graph.add_many("Split", projected, graph.ints(width, width), outputs=2, axis=-1)
    return split_heads(graph, key, layer.heads), split_heads(graph, value, layer.heads)


def rotate(graph: Graph, values: str, size: int, begin: str, end: str) -> str:
    """Rotary positions of (B, N, T, K)."""
    angles = graph.reshape(rows_of(graph, sinusoids(LENGTH, size), begin, end), 0, size // 2, 2)  # (T, K / 2, 2)
    sine, cosine = halves(graph, angles)
    first, second = halves(graph, graph.reshape(values, 0, 0, 0, size // 2, 2))  # (B, N, T, K / 2, 1) each
    turned = (
        graph.add("Sub", graph.add("Mul", first, cosine), graph.add("Mul", second, sine)),
        graph.add("Add", graph.add("Mul", first, sine), graph.add("Mul", second, cosine)),
    )
    return graph.reshape(graph.add("Concat", *turned, axis=-1), 0, 0, 0, size)


def halves(graph: Graph, values: str) -> list[str]:
    """(..., 2) -> (..., 1) twice."""
    return graph.add_many("Split", values, graph.ints(1, 1), outputs=2, axis=-1)


def alibi(graph: Graph, positions: AlibiPositions, begin: str, end: str) -> str:
    """-m |i - j| (N, T, S)."""
    rows = graph.add("Unsqueeze", graph.range(begin, end), graph.ints(1))
    apart = graph.add("Abs", graph.add("Sub", graph.range(graph.ints(0), end), rows))  # (T, S)
    apart = graph.add("Cast", apart, to=graph.onnx.TensorProto.FLOAT)
    return graph.add("Mul", apart, graph.constant(-positions.slopes[:, None, None]))


def feed_forward(graph: Graph, block: Any, values: str) -> str:
    """The last sub-layer of a block."""
    layer: FeedForward = block.feedforward
    inner = graph.apply(layer.expand, graph.apply(block.feedforward_norm, values) if block.pre else values)
    if layer.activation is ACTIVATIONS["swiglu"]:
        size = layer.contract.in_features
        gate, candidate = graph.add_many("Split", inner, graph.ints(size, size), outputs=2, axis=-1)
        inner = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), candidate)
    else:
        inner = graph.gelu(inner) if layer.activation is ACTIVATIONS["gelu"] else graph.add("Relu", inner)
    return after(graph, block, block.feedforward_norm, values, graph.apply(layer.contract, inner))


def after(graph: Graph, block: Any, norm: Any, values: str, change: str) -> str:
    """The residual connection around a sub-layer."""
    values = graph.add("Add", values, change)
    return values if block.pre else graph.apply(norm, values)


def split_heads(graph: Graph, values: str, heads: int) -> str:
    """(B, T, D) -> (B, N, T, K)."""
    apart = graph.add("Reshape", values, graph.ints(0, 0, heads, -1))
    return graph.add("Transpose", apart, perm=[0, 2, 1, 3])


def stack_layers(graph: Graph, values: list[str]) -> str:
    """One tensor for each layer -> one with the layers first."""
    return graph.add("Concat", *(graph.add("Unsqueeze", one, graph.ints(0)) for one in values), axis=0)
