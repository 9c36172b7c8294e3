"""A decoder-only translator as ONNX nodes: `DecoderOnly.read_source` as the encoder, `DecoderOnly.step` as the step.

The caches hold the right-aligned source, then the target; `shift` (B,) says how far each source was moved to the right.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harken.export.graph import Graph
from harken.export.onnx_transformer import (
    after,
    feed_forward,
    positions_table,
    refuse_unsupported,
    self_attention,
    stack_layers,
)
from harken.models.transformer.decoder_only import DecoderOnly

MEMORY, STATE = ["shift"], ["keys", "values"]


def refuse(model: DecoderOnly) -> None:
    """Check a model before anything is written.

    Raises:
        UserError: ONNX has no form for one of its options.
    """
    refuse_unsupported(model.stack)


def write_encoder(graph: Graph, model: DecoderOnly) -> None:
    """The graph from source ids to the caches with the source in them."""
    source = graph.input("source", ["batch", "source"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    size = graph.size(source, 1)
    shift = graph.add("Sub", size, lengths)  # (B,)
    places = graph.range(graph.ints(0), size)
    column = graph.add("Unsqueeze", shift, graph.ints(1))
    moved = graph.add("Mod", graph.add("Sub", places, column), size)  # (B, S); the divisor's sign, as in Python
    source = graph.add("GatherElements", source, moved, axis=1)
    mask = graph.added_mask(graph.add("GreaterOrEqual", places, column), 1, 2)  # (B, 1, 1, S)
    values = embed(graph, model, source, model.source_embedding, places, column)
    _, keys, contents = blocks(graph, model, values, graph.ints(0), size, mask, None)
    shape = shape_of(model, "source")
    graph.output("shift", shift, ["batch"], torch.int64)
    graph.output("keys", stack_layers(graph, keys), shape)
    graph.output("values", stack_layers(graph, contents), shape)


def write_decoder(graph: Graph, model: DecoderOnly) -> None:
    """The graph of one step."""
    tokens = graph.input("tokens", ["batch"], torch.int64)
    graph.input("lengths", ["batch"], torch.int64)  # as every decoder has it; `shift` says what is needed here
    shift = graph.input("shift", ["batch"], torch.int64)
    past = {name: graph.input(name, shape_of(model, "time")) for name in STATE}
    begin = graph.size(past["keys"], 3)
    end = graph.add("Add", begin, graph.ints(1))
    column = graph.add("Unsqueeze", shift, graph.ints(1))
    seen = graph.add("GreaterOrEqual", graph.range(graph.ints(0), end), column)
    token = graph.add("Unsqueeze", tokens, graph.ints(1))  # (B, 1)
    values = embed(graph, model, token, model.target_embedding, begin, column)
    values, keys, contents = blocks(graph, model, values, begin, end, graph.added_mask(seen, 1, 2), past)
    hidden = graph.add("Squeeze", graph.apply(model.stack.norm, values), graph.ints(1))
    logits = graph.add("Gemm", hidden, graph.constant(model.output_weight), transB=1)
    graph.output("logits", logits, ["batch", model.output_weight.shape[0]])
    graph.output("next_keys", stack_layers(graph, keys), shape_of(model, "next_time"))
    graph.output("next_values", stack_layers(graph, contents), shape_of(model, "next_time"))


def shape_of(model: DecoderOnly, time: str) -> list[Any]:
    """Of the caches."""
    layers: Any = model.stack.blocks
    heads = layers[0].attention.heads
    return [len(layers), "batch", heads, time, model.width // heads]


def embed(graph: Graph, model: DecoderOnly, ids: str, table: Any, places: str, shift: str) -> str:
    """(B, T, D): scaled, plus the positions `places` - `shift`, if they are of the added kind."""
    values = graph.embed(ids, table, math.sqrt(model.width))
    added = positions_table(model.stack)
    if added is None:
        return values
    numbers = graph.add("Max", graph.add("Sub", places, shift), graph.ints(0))  # padding stands before the first
    return graph.add("Add", values, graph.add("Gather", graph.constant(added), numbers))


def blocks(
    graph: Graph, model: DecoderOnly, values: str, begin: str, end: str, mask: str, past: dict[str, str] | None
) -> tuple[str, list[str], list[str]]:
    """New positions (B, T, D) through all blocks -> (B, T, D), and the keys and values of every layer."""
    keys, contents = [], []
    stack: Any = model.stack
    for layer, block in enumerate(stack.blocks):
        number = graph.constant(layer, torch.int64)
        before = tuple(graph.add("Gather", past[name], number, axis=0) for name in STATE) if past else ()
        inputs = graph.apply(block.attention_norm, values) if block.pre else values
        change, key, content = self_attention(graph, block.attention, inputs, begin, end, mask, before)
        values = feed_forward(graph, block, after(graph, block, block.attention_norm, values, change))
        keys.append(key)
        contents.append(content)
    return values, keys, contents
