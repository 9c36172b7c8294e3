"""A Transformer encoder-decoder in the form the kernels take: described by its tensors, packed once, decoded many times.

`harken.models.transformer.decoding` describes a model; this module knows tensors alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.kernels.decoding.products import GELU, RELU, STRIDE, SWIGLU, round_up
from harken.kernels.decoding.search import Found, Rules, decode, nothing_found
from harken.kernels.decoding.stack import Blocks, encode
from harken.kernels.decoding.weights import Linear, Norm, cache_line_array, pack

ACTIVATIONS = {"relu": RELU, "gelu": GELU, "swiglu": SWIGLU}
Table = Callable[[int], Tensor]  # length -> (length, width)


@dataclass(frozen=True)
class Stack:
    """One side of a model: the linear maps and norms of its layers in the order of `stack.py`, then the last norm."""

    linears: list[Linear]
    norms: list[Norm]
    layers: int
    width: int
    heads: int
    feedforward: int
    pre: bool
    activation: str
    scaled: bool  # scores divided by sqrt(K)
    positions: Table | None = None  # added to the embeddings
    angles: Table | None = None  # of rotary positions
    slopes: Tensor | None = None  # (N,) of ALiBi


@dataclass(frozen=True)
class Transformer:
    """A whole model; without an encoder of this kind the memory is given."""

    encoder: Stack | None
    source_embedding: Tensor
    decoder: Stack
    target_embedding: Tensor
    output: Linear
    parameters: list[Tensor]  # all that were packed, to notice when they change


@dataclass
class _Side:
    """A packed stack with its embeddings and the tables of its positions, which grow with the longest sequence."""

    stack: Stack
    packed: Any
    table: Any  # (V, D) embeddings
    inner: int  # columns of the widest layer
    blocks: Any = None
    length: int = -1

    def for_length(self, length: int) -> Any:
        """`Blocks` with positions for sequences of this length."""
        if length > self.length:
            self.length = max(length, min(2 * length, 256)) if self.stack.positions is None else length
            self.blocks = self._blocks(length)
            self.length = length
        return self.blocks

    def _blocks(self, length: int) -> Any:
        stack, head_width = self.stack, self.stack.width // self.stack.heads
        slopes = torch.zeros(stack.heads) if stack.slopes is None else stack.slopes

        def table(make: Table | None, width: int) -> Any:
            return np.zeros((0, width), np.float32) if make is None else _array(make(length))

        return Blocks(
            layers=stack.layers,
            width=stack.width,
            heads=stack.heads,
            inner=stack.feedforward,
            pre=stack.pre,
            activation=ACTIVATIONS[stack.activation],
            rotary=stack.angles is not None,
            scale=np.float32(1 / math.sqrt(head_width) if stack.scaled else 1),
            embedding_scale=np.float32(math.sqrt(stack.width)),
            epsilon=np.float32(stack.norms[0].epsilon),
            slopes=_array(slopes),
            positions=table(stack.positions, stack.width),
            angles=table(stack.angles, head_width),
        )


def _array(tensor: Tensor) -> Any:
    """A contiguous float32 array; shares memory where it can."""
    return np.ascontiguousarray(tensor.detach().numpy())


def _side(stack: Stack, embedding: Tensor, more: list[Linear], precision: str) -> _Side:
    linears = [*stack.linears, *more]
    inner = max(len(one.weight) for one in stack.linears)
    return _Side(stack, pack(linears, stack.norms, precision), _array(embedding), inner)


@dataclass
class CompiledTransformer:
    """Packed weights and the calls of the compiled functions."""

    model: Transformer
    precision: str = "float32"
    versions: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        self.versions = versions(model.parameters)
        self._kept = threading.local()
        self.decoder = _side(model.decoder, model.target_embedding, [model.output], self.precision)
        encoder = model.encoder
        self.encoder = None if encoder is None else _side(encoder, model.source_embedding, [], self.precision)

    @property
    def is_current(self) -> bool:
        """Whether the weights are still those that were packed."""
        return self.versions == versions(self.model.parameters)

    def _workspace(self, size: int) -> Any:
        """Memory for the caches, kept for the next call of this thread: fresh pages cost more than what fills them."""
        kept = getattr(self._kept, "workspace", None)
        if kept is None or len(kept) < size:
            self._kept.workspace = kept = np.empty(size, np.float32)
        return kept

    def encode(self, tokens: Any, starts: Any) -> Any:
        """The tokens of all sources one after the other -> memory (tokens, whole panels)."""
        side = self.encoder
        assert side is not None
        longest = int(np.diff(starts).max())
        return encode(side.packed, side.for_length(longest), side.table, tokens, starts, side.inner)

    def pad_memory(self, values: Tensor, lengths: Any) -> Any:
        """Memory (B, S, D) of another encoder, without its padding."""
        stride = round_up(self.model.decoder.width, STRIDE)
        flat = cache_line_array(int(lengths.sum()) * stride, np.float32).reshape(-1, stride)
        rows = np.arange(values.shape[1])[None] < lengths[:, None]
        flat[:, : values.shape[2]] = values.detach().numpy()[rows]
        return flat

    def search(self, memory: Any, starts: Any, limits: Any, rules: Rules, minimums: Any = None) -> Found | None:
        """Decodes all sources; None where the model's outputs are not finite numbers."""
        batch, longest = len(limits), int(limits.max())
        found = nothing_found(batch, rules.nbest, longest)
        minimums = np.zeros(batch, np.int64) if minimums is None else minimums
        side = self.decoder
        blocks = side.for_length(longest)
        workspace = self._workspace(side.stack.layers * longest * batch * rules.beam * 2 * memory.shape[1])
        is_finite = decode(
            side.packed, blocks, side.table, memory, starts, limits, minimums, rules, side.inner, workspace, found
        )
        return found if is_finite else None


def versions(parameters: list[Tensor]) -> list[tuple[int, int]]:
    """Where each tensor lies and how often it was changed in place."""
    return [(one.data_ptr(), one._version) for one in parameters]
