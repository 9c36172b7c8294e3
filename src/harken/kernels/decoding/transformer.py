"""A Transformer encoder-decoder in the form the kernels take: packed once, then used for many batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.kernels.caching import is_cached
from harken.kernels.decoding.description import (
    SSRU,
    CrossAttention,
    FeedForward,
    Linear,
    Norm,
    SelfAttention,
    SpecialTokens,
    Stack,
    StackLayer,
    Table,
    Transformer,
)
from harken.kernels.decoding.products import GEGLU, GELU, GELU_TANH, RELU, SILU, STRIDE, SWIGLU, round_up
from harken.kernels.decoding.search import (
    Decoding,
    Rules,
    TransformerState,
    decode,
    empty_result,
    new_search,
    starts_of,
)
from harken.kernels.decoding.stack import ACTIVATION_TYPE, Blocks, Buffers, encode
from harken.kernels.decoding.topk import all_allowed
from harken.kernels.decoding.weights import OutputLayer, cache_line_array, pack
from harken.lazy_torch import as_array, torch

if TYPE_CHECKING:
    from torch import Tensor

ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU, "swiglu": SWIGLU, "geglu": GEGLU}


@dataclass
class _Side:
    """A packed stack with its embeddings and the tables of its positions, which grow with the longest sequence."""

    stack: Stack
    packed: Any
    table: Any  # (V, D) embeddings
    inner: int  # columns of the widest layer
    alignment_layer: int = 0
    alignment_heads: tuple[int, ...] = ()  # empty: all
    longest: tuple[int, Any] = (-1, None)  # the longest sequence so far, and its `Blocks`

    def for_length(self, length: int) -> Any:
        """`Blocks` with positions for sequences of this length."""
        longest, blocks = self.longest  # read at once: several threads may be here
        if length > longest:
            blocks = self._blocks(length)
            self.longest = length, blocks
        return blocks

    def _blocks(self, length: int) -> Any:
        stack, head_width = self.stack, self.stack.head_width

        def table(make: Table | None, *empty: int) -> Any:
            return np.zeros(empty, np.float32) if make is None else np.ascontiguousarray(as_array(make(length)))

        return Blocks(
            layers=len(stack.layers),
            width=stack.width,
            heads=stack.heads,
            head_width=head_width,
            inner=stack.feedforward,
            pre=stack.pre,
            activation=ACTIVATIONS[stack.activation],
            rotary=stack.angles is not None,
            scale=np.float32(1 / math.sqrt(head_width) if stack.scaled else 1),
            embedding_scale=np.float32(stack.embedding_scale),
            epsilon=np.float32(stack.epsilon),
            biases=table(stack.biases, stack.heads, 0),
            positions=table(stack.positions, 0, stack.width),
            angles=table(stack.angles, 0, head_width),
            ssru=stack.ssru,
            embedding_norm=stack.embedding_norm is not None,
            alignment_layer=self.alignment_layer,
            alignment=self._shares(),
        )

    def _shares(self) -> Any:
        """(N,) the weight of each head in the alignment."""
        shares = np.zeros(self.stack.heads, np.float32)
        shares[list(self.alignment_heads) or slice(None)] = 1
        return shares / shares.sum()


def _panels(rows: int, width: int) -> Any:
    """Zeros (rows, width in whole panels)."""
    width = round_up(width, STRIDE)
    return cache_line_array(rows * width, np.float32).reshape(rows, width)


def _side(stack: Stack, embedding: Tensor, more: list[Linear], precision: str) -> _Side:
    linears = [linear for layer in stack.layers for linear in _linears(layer)]
    norms = [norm for layer in stack.layers for norm in _norms(layer)]
    norms += [norm for norm in (stack.norm, stack.embedding_norm) if norm is not None]
    inner = max(len(linear.weight) for linear in linears)
    return _Side(stack, pack([*linears, *more], norms, precision), np.ascontiguousarray(as_array(embedding)), inner)


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
        self.decoder.alignment_layer, self.decoder.alignment_heads = model.alignment_layer, model.alignment_heads
        encoder = model.encoder
        self.encoder = None if encoder is None else _side(encoder, model.source_embedding, [], self.precision)

    @property
    def vocabulary(self) -> int:
        """V."""
        return len(self.model.output.weight)

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
        slots, width = 2 if decoder.ssru else longest, max(decoder.width, decoder.heads * decoder.head_width)
        return 2 * round_up(width, STRIDE) * len(decoder.layers) * rows * slots

    def read(self, model: Any, source: Tensor | np.ndarray, lengths: Tensor | None, sizes: Any) -> Any:
        """The memory (tokens, whole panels) of sources (B, S); `sizes` (B,) are the lengths."""
        if self.encoder is None:
            with torch.inference_mode():
                memory = model.encode(source, lengths).values
            return self.without_padding(memory, sizes)
        inside = np.arange(source.shape[1])[None] < sizes[:, None]
        return encode(*self.encode_arguments(np.asarray(source)[inside].astype(np.int64), sizes))

    def begin(
        self, memory: Any, sizes: Any, limits: Any, minimums: Any, rules: Rules, stop: Any, allowed: Any = None
    ) -> Decoding:
        """The decoding of all sources, before its first step.

        Args:
            memory: from `read`.
            sizes: (B,) lengths of the sources.
            limits, minimums: (B,) the most and the fewest tokens of each output, EOS included.
            stop: (1,) another thread sets it to end the search (`harken.kernels.decoding.choosing`).
            allowed: (B, V) bool, a shortlist: the tokens that each source may write, EOS among them.
        """
        side, longest, most = self.decoder, int(limits.max()), len(limits) * rules.beam
        stack, tokens, positions = side.stack, len(memory), max(longest, int(sizes.max()))
        slots, attended = 2 if stack.ssru else longest, stack.heads * stack.head_width
        numbers = self.cache_numbers(most, longest)
        workspace = self._acquire(numbers)
        cache = workspace[:numbers].reshape(len(stack.layers), slots, most, -1)
        projected = _panels(len(stack.layers) * tokens, 2 * attended).reshape(len(stack.layers), tokens, -1)
        scores, places = np.empty((stack.heads, positions), np.float32), np.empty(positions, np.int64)
        state = TransformerState(side.table, memory, starts_of(sizes), projected, cache, scores, places)
        wide = _panels(most, max(3 * attended, side.inner))
        quantised = np.zeros((most, max(wide.shape[1], round_up(stack.width, STRIDE))), ACTIVATION_TYPE)
        values, normed, context = (_panels(most, width) for width in (stack.width, stack.width, attended))
        b = Buffers(values, normed, wide, context, quantised, np.zeros(most, np.float32))
        last, part = (side.packed, all_allowed()) if allowed is None else self.output.part(allowed, rules.special)
        blocks, result = side.for_length(longest), empty_result(len(limits), rules.nbest, longest)
        arguments = side.packed, blocks, state, b, limits, minimums, rules, stop, result, last, part
        return Decoding(decode, arguments, lambda: self._spare.append(workspace))

    def encode_arguments(self, tokens: Any, sizes: Any) -> tuple[Any, ...]:
        """The arguments of the compiled function, for the tokens of sources of these lengths one after the other."""
        side = self.encoder
        assert side is not None
        return side.packed, side.for_length(int(sizes.max())), side.table, tokens, starts_of(sizes), side.inner

    def without_padding(self, values: Tensor, lengths: Any) -> Any:
        """Memory (B, S, D) of another encoder in the layout of `encode`."""
        stride = round_up(self.model.decoder.width, STRIDE)
        flat = cache_line_array(int(lengths.sum()) * stride, np.float32).reshape(-1, stride)
        rows = np.arange(values.shape[1])[None] < lengths[:, None]
        flat[:, : values.shape[2]] = values.detach().numpy()[rows]
        return flat


def tiny() -> Transformer:
    """The smallest model: compiled code depends on types alone, so it stands for all."""

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    def linear(outputs: int) -> Linear:
        return Linear(zeros(outputs, 2), zeros(outputs))

    norm, table = Norm(zeros(2), zeros(2), 1e-5), zeros(8, 2)
    attention, feed_forward = SelfAttention(linear(6), linear(2), norm), FeedForward(linear(2), linear(2), norm)
    cross = CrossAttention(linear(2), linear(4), linear(2), norm)
    encoder, decoder = (
        Stack((StackLayer(attention, to_memory, feed_forward),), norm, 2, 1, 2, True, "relu", True)
        for to_memory in (None, cross)
    )
    return Transformer(encoder, table, decoder, table, Linear(table, None, is_output=True))


def _tiny_calls() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    model, ones = CompiledTransformer(tiny()), np.ones(1, np.int64)
    memory, rules = cache_line_array(STRIDE, np.float32).reshape(1, STRIDE), Rules(SpecialTokens(0, 1, 2), 1, 1, 1.0)
    decoding = model.begin(memory, ones, ones, ones, rules, np.zeros(1, np.int64))
    return model.encode_arguments(ones, ones), decoding.arguments_of(new_search(rules, ones, 1, 8, 8))


def is_compiled() -> bool:
    """Whether the compiled functions are in this process or on disk for this CPU."""
    encoding, decoding = _tiny_calls()
    return is_cached(encode, encoding) and is_cached(decode, decoding)


def compile_ahead() -> None:
    """Compiles both functions, or loads them from disk; takes some 20 seconds the first time on a machine."""
    encoding, decoding = _tiny_calls()
    encode(*encoding)
    decode(*decoding)
