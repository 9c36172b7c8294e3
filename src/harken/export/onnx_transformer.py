"""Transformer encoders, decoder steps and decoder-only models as ONNX nodes; see `harken.nn.transformer.block`.

The caches of a decoder-only model hold the right-aligned source, then the target; `shift` (B,) says how far each source
was moved to the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.export.graph import Graph, Memory, Step
from harken.kernels.decoding.description import CrossAttention, FeedForward, Norm, SelfAttention, Stack, Undescribed
from harken.nn.activations import GATED
from harken.nn.positions.absolute import sinusoids

if TYPE_CHECKING:
    from harken.models.transformer.decoder_only import DecoderOnly

LENGTH = 4096  # rows of the tables of sinusoidal and rotary positions, and largest distance of biases
CACHES = ("keys", "values")
MEMORY = ("memory_keys", "memory_values")


def check(stack: Stack) -> None:
    """Check a stack before anything is written.

    Raises:
        Undescribed: the formats have no SSRU.
    """
    if stack.ssru:
        raise Undescribed("model.decoder_mixer = 'ssru'")


def positions_table(stack: Stack) -> Tensor | None:
    """(length, D) what is added to the embeddings at each position, if anything is."""
    if stack.positions is None:
        return None
    return sinusoids(LENGTH, stack.width) if stack.max_length is None else stack.positions(stack.max_length)


def encode(graph: Graph, stack: Stack, embedded: str, lengths: str) -> Memory:
    """Embeddings (B, S, D), scaled already -> the memory (B, S, D)."""
    size = graph.size(embedded, 1)
    inside = graph.inside(lengths, size)
    values = add_positions(graph, stack, embedded, graph.ints(0), size)
    blocks = Blocks(graph, stack, graph.ints(0), size, graph.added_mask(inside, 1, 2))
    return Memory(blocks.run(values), inside)


def start(graph: Graph, stack: Stack, memory: Memory) -> tuple[dict[str, str], dict[str, str]]:
    """Keys and values of the memory (L, B, N, S, K), and the empty caches (L, B, N, 0, K)."""
    stacked: dict[str, list[str]] = {name: [] for name in MEMORY}
    for layer in stack.layers:
        assert layer.cross_attention is not None
        parts = graph.split(
            graph.linear(memory.values, layer.cross_attention.key_value), 2, stack.heads * stack.head_width
        )
        for name, part in zip(MEMORY, parts, strict=True):
            stacked[name].append(split_heads(graph, part, stack.heads))
    sizes = [graph.ints(len(stack.layers)), graph.size(memory.values, 0), graph.ints(stack.heads, 0, stack.head_width)]
    empty = graph.add("ConstantOfShape", graph.add("Concat", *sizes, axis=0))  # float32 zeros
    return {name: stack_layers(graph, parts) for name, parts in stacked.items()}, dict.fromkeys(CACHES, empty)


def shapes(stack: Stack) -> dict[str, list[Any]]:
    """The shape of each tensor of `start`, with names for free sizes."""
    return {name: cache_shape(stack, "source") for name in MEMORY} | {
        name: cache_shape(stack, "time") for name in CACHES
    }


def cache_shape(stack: Stack, time: str) -> list[Any]:
    """The shape of keys and of values, with a name for the time."""
    return [len(stack.layers), "batch", stack.heads, time, stack.head_width]


def step(
    graph: Graph, stack: Stack, embedded: str, lengths: str, memory: dict[str, str], state: dict[str, str]
) -> Step:
    """Embeddings of one token (B, D), scaled already -> hidden (B, D), and the caches with it."""
    begin = graph.size(state["keys"], 3)
    end = graph.add("Add", begin, graph.ints(1))
    mask = graph.added_mask(graph.inside(lengths, graph.size(memory["memory_keys"], 3)), 1, 2)
    values = add_positions(graph, stack, graph.add("Unsqueeze", embedded, graph.ints(1)), begin, end)
    blocks = Blocks(graph, stack, begin, end, None, state, {name: memory[name] for name in MEMORY}, mask)
    hidden = graph.add("Squeeze", blocks.run(values), graph.ints(1))
    return Step(hidden, blocks.caches())


class Blocks:
    """The blocks of a stack over the tokens from `begin` to `end`.

    Args:
        mask: added to the scores of self-attention.
        past: the caches of earlier tokens by the names of `CACHES`.
        memory, memory_mask: keys and values of the sources by the names of `MEMORY`, and what is added to their scores.
    """

    def __init__(
        self,
        graph: Graph,
        stack: Stack,
        begin: str,
        end: str,
        mask: str | None,
        past: dict[str, str] | None = None,
        memory: dict[str, str] | None = None,
        memory_mask: str | None = None,
    ) -> None:
        self.graph, self.stack, self.begin, self.end = graph, stack, begin, end
        self.past, self.memory, self.memory_mask = past, memory, memory_mask
        self.keys: list[str] = []
        self.contents: list[str] = []
        if stack.biases is not None:
            bias = self._distance_bias(stack.biases(LENGTH))
            mask = bias if mask is None else graph.add("Add", mask, bias)
        self.mask = mask

    def run(self, values: str) -> str:
        """(B, T, D) -> (B, T, D), with the last norm."""
        for number, layer in enumerate(self.stack.layers):
            mixer, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
            assert isinstance(mixer, SelfAttention)
            values = self._connect(values, mixer.norm, lambda x, m=mixer, n=number: self._self_attention(m, n, x))  # type: ignore[misc]
            if cross is not None:
                values = self._connect(values, cross.norm, lambda x, c=cross, n=number: self._cross_attention(c, n, x))  # type: ignore[misc]
            values = self._connect(values, feed_forward.norm, lambda x, f=feed_forward: self._feed_forward(f, x))  # type: ignore[misc]
        return values if self.stack.norm is None else self.graph.norm(values, self.stack.norm)

    def caches(self) -> dict[str, str]:
        """Keys and values (L, B, N, T, K) of all tokens."""
        stacked = (stack_layers(self.graph, parts) for parts in (self.keys, self.contents))
        return dict(zip(CACHES, stacked, strict=True))

    def _connect(self, values: str, norm: Norm, sublayer: Callable[[str], str]) -> str:
        """A sub-layer with its residual connection and norm."""
        graph, pre = self.graph, self.stack.pre
        values = graph.add("Add", values, sublayer(graph.norm(values, norm) if pre else values))
        return values if pre else graph.norm(values, norm)

    def _self_attention(self, layer: SelfAttention, number: int, values: str) -> str:
        graph, stack = self.graph, self.stack
        parts = graph.split(graph.linear(values, layer.query_key_value), 3, stack.heads * stack.head_width)
        query, key, value = (split_heads(graph, part, stack.heads) for part in parts)
        if stack.angles is not None:
            query, key = self._rotate(query), self._rotate(key)
        if self.past is not None:
            past = (self._layer_of(self.past[name], number) for name in CACHES)
            key, value = (graph.add("Concat", *pair, axis=2) for pair in zip(past, (key, value), strict=True))
        self.keys.append(key)
        self.contents.append(value)
        return graph.linear(self._attend(query, key, value, self.mask), layer.output)

    def _cross_attention(self, layer: CrossAttention, number: int, values: str) -> str:
        assert self.memory is not None
        key, value = (self._layer_of(self.memory[name], number) for name in MEMORY)
        query = split_heads(self.graph, self.graph.linear(values, layer.query), self.stack.heads)
        return self.graph.linear(self._attend(query, key, value, self.memory_mask), layer.output)

    def _attend(self, query: str, key: str, value: str, mask: str | None) -> str:
        """(B, N, T, K) and (B, N, S, K) -> contexts (B, T, D)."""
        graph = self.graph
        scale = 1 / math.sqrt(self.stack.head_width) if self.stack.scaled else 1.0
        query = graph.add("Mul", query, graph.constant(scale))
        scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 1, 3, 2]))
        scores = scores if mask is None else graph.add("Add", scores, mask)
        context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
        return graph.reshape(graph.add("Transpose", context, perm=[0, 2, 1, 3]), 0, 0, -1)

    def _feed_forward(self, layer: FeedForward, values: str) -> str:
        graph, inner = self.graph, self.graph.linear(values, layer.expand)
        if self.stack.activation in GATED:
            gate, candidate = graph.split(inner, 2, self.stack.feedforward)
            gate = graph.silu(gate) if self.stack.activation == "swiglu" else graph.gelu_tanh(gate)
            inner = graph.add("Mul", gate, candidate)
        else:
            activation = {"gelu": graph.gelu, "gelu_tanh": graph.gelu_tanh, "silu": graph.silu}.get(
                self.stack.activation
            )
            inner = graph.add("Relu", inner) if activation is None else activation(inner)
        return graph.linear(inner, layer.contract)

    def _rotate(self, values: str) -> str:
        """Rotary positions of (B, N, T, K)."""
        graph, size = self.graph, self.stack.head_width
        angles = graph.rows(sinusoids(LENGTH, size), self.begin, self.end)
        sine, cosine = graph.split(graph.reshape(angles, 0, size // 2, 2), 2, 1)  # (T, K / 2, 1) each
        first, second = graph.split(graph.reshape(values, 0, 0, 0, size // 2, 2), 2, 1)  # (B, N, T, K / 2, 1) each
        rotated = (
            graph.add("Sub", graph.add("Mul", first, cosine), graph.add("Mul", second, sine)),
            graph.add("Add", graph.add("Mul", first, sine), graph.add("Mul", second, cosine)),
        )
        return graph.reshape(graph.add("Concat", *rotated, axis=-1), 0, 0, 0, size)

    def _distance_bias(self, table: Tensor) -> str:
        """(N, T, S) from a table (N, 2 LENGTH - 1) of distances j - i."""
        graph = self.graph
        rows = graph.add("Unsqueeze", graph.range(self.begin, self.end), graph.ints(1))
        apart = graph.add("Sub", graph.range(graph.ints(0), self.end), rows)  # (T, S)
        return graph.add("Gather", graph.constant(table), graph.add("Add", apart, graph.ints(LENGTH - 1)), axis=1)

    def _layer_of(self, stacked: str, number: int) -> str:
        return self.graph.add("Gather", stacked, self.graph.constant(number, torch.int64), axis=0)


def write_decoder_only_encoder(graph: Graph, model: DecoderOnly, stack: Stack) -> None:
    """The graph from source ids to the caches with the source in them."""
    source = graph.input("source", ["batch", "source"], torch.int64)
    lengths = graph.input("lengths", ["batch"], torch.int64)
    size = graph.size(source, 1)
    shift = graph.add("Sub", size, lengths)  # (B,)
    positions = graph.range(graph.ints(0), size)
    column = graph.add("Unsqueeze", shift, graph.ints(1))
    moved = graph.add("Mod", graph.add("Sub", positions, column), size)  # (B, S); the divisor's sign, as in Python
    source = graph.add("GatherElements", source, moved, axis=1)
    mask = graph.added_mask(graph.add("GreaterOrEqual", positions, column), 1, 2)  # (B, 1, 1, S)
    values = embed_shifted(graph, stack, source, model.source_embedding.weight, positions, column)
    blocks = Blocks(graph, stack, graph.ints(0), size, mask)
    blocks.run(values)
    graph.output("shift", shift, ["batch"], torch.int64)
    for name, values in blocks.caches().items():
        graph.output(name, values, cache_shape(stack, "source"))


def write_decoder_only_step(graph: Graph, model: DecoderOnly, stack: Stack) -> None:
    """The graph of one step."""
    tokens = graph.input("tokens", ["batch"], torch.int64)
    graph.input("lengths", ["batch"], torch.int64)  # as every decoder has it; `shift` says what is needed here
    shift = graph.input("shift", ["batch"], torch.int64)
    past = {name: graph.input(name, cache_shape(stack, "time")) for name in CACHES}
    begin = graph.size(past["keys"], 3)
    end = graph.add("Add", begin, graph.ints(1))
    column = graph.add("Unsqueeze", shift, graph.ints(1))
    visible = graph.add("GreaterOrEqual", graph.range(graph.ints(0), end), column)
    token = graph.add("Unsqueeze", tokens, graph.ints(1))  # (B, 1)
    values = embed_shifted(graph, stack, token, model.target_embedding.weight, begin, column)
    blocks = Blocks(graph, stack, begin, end, graph.added_mask(visible, 1, 2), past)
    hidden = graph.add("Squeeze", blocks.run(values), graph.ints(1))
    logits = graph.add("Gemm", hidden, graph.constant(model.output_weight), transB=1)
    graph.output("logits", logits, ["batch", model.output_weight.shape[0]])
    for name, values in blocks.caches().items():
        graph.output(f"next_{name}", values, cache_shape(stack, "next_time"))


def embed_shifted(graph: Graph, stack: Stack, ids: str, table: Tensor, positions: str, shift: str) -> str:
    """(B, T, D): scaled, plus the positions minus the shift, if they are of the added kind."""
    values = graph.embed(ids, table, stack.embedding_scale)
    added = positions_table(stack)
    if added is None:
        return normalise(graph, stack, values)
    numbers = graph.add("Max", graph.add("Sub", positions, shift), graph.ints(0))  # padding stands before the first
    return normalise(graph, stack, graph.add("Add", values, graph.add("Gather", graph.constant(added), numbers)))


def add_positions(graph: Graph, stack: Stack, values: str, begin: str, end: str) -> str:
    """(B, T, D) plus the positions from `begin` to `end`, if they are of the added kind, and normalised."""
    table = positions_table(stack)
    return normalise(graph, stack, values if table is None else graph.add("Add", values, graph.rows(table, begin, end)))


def normalise(graph: Graph, stack: Stack, values: str) -> str:
    """(B, T, D): the norm of embeddings, if the stack has one."""
    return values if stack.embedding_norm is None else graph.norm(values, stack.embedding_norm)


def split_heads(graph: Graph, values: str, heads: int) -> str:
    """(B, T, D) -> (B, N, T, K)."""
    apart = graph.add("Reshape", values, graph.ints(0, 0, heads, -1))
    return graph.add("Transpose", apart, perm=[0, 2, 1, 3])


def stack_layers(graph: Graph, values: list[str]) -> str:
    """One tensor for each layer -> one with the layers first."""
    return graph.add("Concat", *(graph.add("Unsqueeze", value, graph.ints(0)) for value in values), axis=0)
