"""A Transformer encoder-decoder in the form the kernels take: packed once, then used for many batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.kernels.caching import is_kept
from harken.kernels.decoding.description import (
    SSRU,
    CrossAttention,
    FeedForward,
    Linear,
    Norm,
    SelfAttention,
    Stack,
    StackLayer,
    Table,
    Transformer,
)
from harken.kernels.decoding.products import GELU, RELU, STRIDE, SWIGLU, round_up
from harken.kernels.decoding.search import Found, Rules, decode, nothing_found
from harken.kernels.decoding.stack import Blocks, encode
from harken.kernels.decoding.topk import all_allowed
from harken.kernels.decoding.weights import OutputLayer, cache_line_array, pack

ACTIVATIONS = {"relu": RELU, "gelu": GELU, "swiglu": SWIGLU}


@dataclass
class _Side:
    """A packed stack with its embeddings and the tables of its positions, which grow with the longest sequence."""

    stack: Stack
    packed: Any
    table: Any  # (V, D) embeddings
    inner: int  # columns of the widest layer
    made: tuple[int, Any] = (-1, None)  # the longest sequence so far, and its `Blocks`

    def for_length(self, length: int) -> Any:
        """`Blocks` with positions for sequences of this length."""
        longest, blocks = self.made  # read at once: several threads may be here
        if length > longest:
            blocks = self._blocks(length)
            self.made = length, blocks
        return blocks

    def _blocks(self, length: int) -> Any:
        stack, head_width = self.stack, self.stack.width // self.stack.heads
        slopes = torch.zeros(stack.heads) if stack.slopes is None else stack.slopes

        def table(make: Table | None, width: int) -> Any:
            return np.zeros((0, width), np.float32) if make is None else _array(make(length))

        return Blocks(
            layers=len(stack.layers),
            width=stack.width,
            heads=stack.heads,
            inner=stack.feedforward,
            pre=stack.pre,
            activation=ACTIVATIONS[stack.activation],
            rotary=stack.angles is not None,
            scale=np.float32(1 / math.sqrt(head_width) if stack.scaled else 1),
            embedding_scale=np.float32(math.sqrt(stack.width)),
            epsilon=np.float32(stack.epsilon),
            slopes=_array(slopes),
            positions=table(stack.positions, stack.width),
            angles=table(stack.angles, head_width),
            ssru=stack.ssru,
        )


def starts_of(sizes: Any) -> Any:
    """Where each of the sources of these lengths starts when they lie one after the other, and the end.

    >>> starts_of(np.array([3, 1])).tolist()
    [0, 3, 4]
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _array(tensor: Tensor) -> Any:
    """A contiguous float32 array; shares memory where it can."""
    return np.ascontiguousarray(tensor.detach().numpy())


def _side(stack: Stack, embedding: Tensor, more: list[Linear], precision: str) -> _Side:
    linears = [linear for layer in stack.layers for linear in _linears(layer)]
    norms = [norm for layer in stack.layers for norm in _norms(layer)] + ([] if stack.norm is None else [stack.norm])
    inner = max(len(linear.weight) for linear in linears)
    return _Side(stack, pack([*linears, *more], norms, precision), _array(embedding), inner)


def _linears(layer: StackLayer) -> list[Linear]:
    """In the order of `harken.kernels.decoding.stack`."""
    mixer, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    first = [mixer.forget_candidate] if isinstance(mixer, SSRU) else [mixer.query_key_value, mixer.output]
    last = [] if cross is None else [cross.query, cross.key_value, cross.output]
    return [*first, feed_forward.expand, feed_forward.contract, *last]


def _norms(layer: StackLayer) -> list[Norm]:
    """In the order of `harken.kernels.decoding.stack`."""
    cross = [] if layer.cross_attention is None else [layer.cross_attention.norm]
    return [layer.self_attention.norm, layer.feed_forward.norm, *cross]


@dataclass
class CompiledTransformer:
    """Packed weights and the calls of the compiled functions."""

    model: Transformer
    precision: str = "float32"

    def __post_init__(self) -> None:
        model = self.model
        self._spare: list[Any] = []  # workspaces that no call is using
        self.output = OutputLayer(model.output, self.precision)
        self.decoder = _side(model.decoder, model.target_embedding, [model.output], self.precision)
        encoder = model.encoder
        self.encoder = None if encoder is None else _side(encoder, model.source_embedding, [], self.precision)

    def _acquire(self, size: int) -> Any:
        """Memory for the cache of a call; that of an earlier call if it suffices, since fresh pages are slow."""
        try:
            spare = self._spare.pop()
        except IndexError:  # none, or another thread took it
            spare = np.empty(0, np.float32)
        return spare if len(spare) >= size else np.empty(size, np.float32)

    def cache_numbers(self, rows: int, longest: int) -> int:
        """Numbers in the cache of so many hypotheses of at most `longest` tokens."""
        decoder = self.model.decoder
        slots = 2 if decoder.ssru else longest
        return 2 * round_up(decoder.width, STRIDE) * len(decoder.layers) * rows * slots

    def read(self, model: Any, source: Tensor, lengths: Tensor | None, sizes: Any) -> Any:
        """The memory (tokens, whole panels) of sources (B, S); `sizes` (B,) are the lengths."""
        if self.encoder is None:
            with torch.inference_mode():
                memory = model.encode(source, lengths).values
            return self.without_padding(memory, sizes)
        inside = np.arange(source.shape[1])[None] < sizes[:, None]
        return self.encode(source.numpy()[inside].astype(np.int64), starts_of(sizes))

    def encode(self, tokens: Any, starts: Any) -> Any:
        """The tokens of all sources one after the other, source b from starts[b] -> memory (tokens, whole panels)."""
        return encode(*self.encode_arguments(tokens, starts))

    def search(
        self,
        memory: Any,
        starts: Any,
        limits: Any,
        rules: Rules,
        minimums: Any = None,
        stop: Any = None,
        allowed: Any = None,
    ) -> Found | None:
        """Decodes all sources; None where the model's outputs are not finite numbers.

        Args:
            allowed: (B, V) bool, the tokens that each source may write, EOS among them.
        """
        arguments = self.decode_arguments(memory, starts, limits, rules, minimums, stop, allowed)
        *_, workspace, _, found, _, _ = arguments
        is_finite = decode(*arguments)
        self._spare.append(workspace)
        return found if is_finite else None

    def encode_arguments(self, tokens: Any, starts: Any) -> tuple[Any, ...]:
        """Of the compiled function."""
        side = self.encoder
        assert side is not None
        return side.packed, side.for_length(int(np.diff(starts).max())), side.table, tokens, starts, side.inner

    def decode_arguments(
        self,
        memory: Any,
        starts: Any,
        limits: Any,
        rules: Rules,
        minimums: Any = None,
        stop: Any = None,
        allowed: Any = None,
    ) -> tuple[Any, ...]:
        """Of the compiled function."""
        side, batch, longest = self.decoder, len(limits), int(limits.max())
        minimums = np.zeros(batch, np.int64) if minimums is None else minimums
        stop = np.zeros(1, np.int64) if stop is None else stop
        slots = 2 if side.stack.ssru else longest
        workspace = self._acquire(len(side.stack.layers) * slots * batch * rules.beam * 2 * memory.shape[1])
        found = nothing_found(batch, rules.nbest, longest)
        blocks = side.for_length(longest)
        last, part = (side.packed, all_allowed()) if allowed is None else self.output.part(allowed)
        batch_arguments = (memory, starts, limits, minimums, rules, side.inner, workspace, stop, found, last, part)
        return side.packed, blocks, side.table, *batch_arguments

    def without_padding(self, values: Tensor, lengths: Any) -> Any:
        """Memory (B, S, D) of another encoder in the layout of `encode`."""
        stride = round_up(self.model.decoder.width, STRIDE)
        flat = cache_line_array(int(lengths.sum()) * stride, np.float32).reshape(-1, stride)
        rows = np.arange(values.shape[1])[None] < lengths[:, None]
        flat[:, : values.shape[2]] = values.detach().numpy()[rows]
        return flat


def tiny() -> Transformer:
    """The smallest model: compiled code depends on types alone, so it stands for all."""

    def linear(outputs: int) -> Linear:
        return Linear(torch.zeros(outputs, 2), torch.zeros(outputs))

    norm, table = Norm(torch.ones(2), torch.zeros(2), 1e-5), torch.zeros(8, 2)
    attention, feed_forward = SelfAttention(linear(6), linear(2), norm), FeedForward(linear(2), linear(2), norm)
    cross = CrossAttention(linear(2), linear(4), linear(2), norm)
    encoder, decoder = (
        Stack((StackLayer(attention, to_memory, feed_forward),), norm, 2, 1, 2, True, "relu", True)
        for to_memory in (None, cross)
    )
    return Transformer(encoder, table, decoder, table, Linear(table, None, is_output=True))


def _tiny_calls() -> tuple[CompiledTransformer, tuple[Any, ...], tuple[Any, ...]]:
    model, starts = CompiledTransformer(tiny()), np.array([0, 1])
    memory = cache_line_array(STRIDE, np.float32).reshape(1, STRIDE)
    encoding = model.encode_arguments(np.array([3]), starts)
    return model, encoding, model.decode_arguments(memory, starts, np.array([1]), Rules(1, 1, 1.0))


def is_compiled() -> bool:
    """Whether the compiled functions are in this process or on disk for this CPU."""
    _, encoding, decoding = _tiny_calls()
    return is_kept(encode, encoding) and is_kept(decode, decoding)


def compile_ahead() -> None:
    """Compiles both functions, or loads them from disk; takes some 15 seconds the first time on a machine."""
    _, encoding, decoding = _tiny_calls()
    encode(*encoding)
    decode(*decoding)
