"""The decoder step of a Transformer on a GPU: R rows, caches of fixed size, position and ancestry as tensors.

For a few rows every product is one kernel with the norm before and the residual after it (`linear.py`), and
cross-attention is one with the norm and the product before it (`projected.py`): seven kernels a layer. For more rows
products are torch's, with `add_norm` between them: eleven kernels a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.decoding.cuda.attention import cross_attention, is_fused, self_attention
from harken.kernels.decoding.cuda.linear import ROWS, few_rows_linear
from harken.kernels.decoding.cuda.norm import add_norm, embed
from harken.kernels.decoding.cuda.projected import PROJECTED
from harken.kernels.decoding.cuda.selection import reorder_ancestry
from harken.kernels.decoding.description import Linear, Norm, SelfAttention, Transformer

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
HEAD_WIDTHS = (16, 32, 64, 128)


def why_not_transformer(described: Transformer) -> str | None:
    """Self-attention, positions that are added or none, and heads whose width the kernels know."""
    stack = described.decoder
    own = stack.ssru or stack.angles is not None or stack.slopes is not None or stack.buckets is not None
    if own or stack.activation not in ACTIVATIONS:
        return "the decoder has an SSRU, positions in its attention, or an activation that the kernels lack"
    if stack.is_rms or stack.layers[0].feed_forward.expand.bias is None:
        return "the decoder has RMS norms, or linear maps without bias"
    if stack.width != stack.heads * stack.head_width or stack.head_width not in HEAD_WIDTHS:
        return "the kernels lack heads of this width"
    return None


class TransformerStep:
    """The state and the step of `sources` x `beam` rows, with at most `length` tokens and sources of `width` words.

    Args:
        reorders: whether hypotheses change places.
    """

    def __init__(
        self, described: Transformer, sources: int, beam: int, length: int, width: int, reorders: bool = True
    ) -> None:
        self.described, self.beam = described, beam
        stack, like = described.decoder, described.target_embedding
        rows, size = sources * beam, stack.width // stack.heads
        self.keys, self.values = like.new_zeros(2, len(stack.layers), rows, stack.heads, length, size).unbind(0)
        self.memory = like.new_zeros(len(stack.layers), 2, sources, stack.heads, width, size)
        self.lengths = torch.ones(sources, dtype=torch.int32, device=like.device)
        self.ancestry: Tensor | None = None
        if beam > 1 and reorders:
            self.ancestry = torch.zeros(rows, length, dtype=torch.int32, device=like.device)
        self.residual = torch.zeros(rows, stack.width, device=like.device)
        self.attention: Tensor | None = None  # (R, S) of the last step, where `need_weights` is set
        self.need_weights = False
        self.positions: Tensor | None = None
        if stack.positions is not None:
            self.positions = torch.zeros(length, stack.width, device=like.device)
            self.load_positions(always=True)
        self.scale = size**-0.5 if stack.scaled else 1.0

    def load_positions(self, always: bool = False) -> None:
        """Learned positions as they are now, or `always`; beyond the last there are only rows that are done."""
        stack = self.described.decoder
        if self.positions is None or stack.positions is None or not (always or stack.max_length is not None):
            return
        length = len(self.positions)
        known = stack.positions(length if stack.max_length is None else min(length, stack.max_length))
        self.positions[: len(known)] = known
        self.positions[len(known) :] = known[-1]

    @property
    def bytes(self) -> int:
        """The memory of the caches."""
        return sum(part.nbytes for part in (self.keys, self.values, self.memory, self.residual))

    def load(self, memory: Tensor, lengths: Tensor) -> None:
        """A memory (B, S, D) of sources with lengths (B,)."""
        stack, sources, words = self.described.decoder, *memory.shape[:2]
        for number, layer in enumerate(stack.layers):
            assert layer.cross_attention is not None
            pairs = _linear(memory, layer.cross_attention.key_value).view(sources, words, 2, stack.heads, -1)
            self.memory[number, :, :sources, :, :words].copy_(pairs.permute(2, 0, 3, 1, 4))
        self.lengths[:sources] = lengths

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) at position (1,), which is 0 after `load` -> logits (R, V)."""
        described, stack, self.position = self.described, self.described.decoder, position
        embed(tokens, described.target_embedding, stack.embedding_scale, self.positions, self.position, self.residual)
        if (norm := stack.embedding_norm) is not None:
            assert norm.bias is not None
            weight, bias = norm.weight.float(), norm.bias.float()
            self.residual.copy_(F.layer_norm(self.residual, weight.shape, weight, bias, norm.epsilon))
        is_few = is_fused(self.residual) and len(tokens) <= ROWS and stack.pre
        return self._few_rows() if is_few else self._many_rows()

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the hypothesis of row rows[r]; called after every step of a beam."""
        assert self.ancestry is not None
        if is_fused(self.residual):
            reorder_ancestry(self.ancestry, rows, self.position, self.beam)
            return
        self.ancestry.copy_(self.ancestry.index_select(0, rows))
        self.ancestry.index_copy_(1, self.position, rows.to(torch.int32)[:, None])

    def _few_rows(self) -> Tensor:
        stack, x, rows = self.described.decoder, self.residual, len(self.residual)
        like = self.described.target_embedding

        def new(layer: Linear) -> Tensor:
            return like.new_empty(rows, len(layer.weight))

        for number, layer in enumerate(stack.layers):
            attention, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
            assert isinstance(attention, SelfAttention)
            assert cross is not None
            first = attention.query_key_value
            queries_keys_values = few_rows_linear(x, first, new(first), norm=attention.norm)
            few_rows_linear(self._attend(number, queries_keys_values), attention.output, x, add=True)
            few_rows_linear(self._attend_source_few(number, cross.query, cross.norm), cross.output, x, add=True)
            relu = stack.activation == "relu"
            inner = few_rows_linear(x, feed.expand, new(feed.expand), norm=feed.norm, relu=relu)
            few_rows_linear(inner if relu else ACTIVATIONS[stack.activation](inner), feed.contract, x, add=True)
        output = self.described.output
        return few_rows_linear(x, output, new(output), norm=stack.norm)

    def _attend_source_few(self, layer: int, query: Linear, norm: Norm) -> Tensor:
        (keys, values), x = self.memory[layer], self.residual
        if not self._is_read(layer) and PROJECTED.supports(query, keys):
            return PROJECTED.run(x, query, norm, keys, values, self.lengths, self.scale)
        buffer = keys.new_empty(len(x), len(query.weight))
        return self._attend_source(layer, few_rows_linear(x, query, buffer, norm=norm))

    def _many_rows(self) -> Tensor:
        stack, x = self.described.decoder, self.residual
        like, pre = self.described.target_embedding, stack.pre
        hidden = add_norm(x, None, stack.layers[0].self_attention.norm, pre, like) if pre else x.to(like.dtype)
        last = [layer.self_attention.norm for layer in stack.layers[1:]]  # with the norm first: those of the next layer
        for number, (layer, following) in enumerate(zip(stack.layers, [*last, stack.norm], strict=True)):
            attention, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
            assert isinstance(attention, SelfAttention)
            assert cross is not None
            change = _linear(self._attend(number, _linear(hidden, attention.query_key_value)), attention.output)
            hidden = add_norm(x, change, cross.norm if pre else attention.norm, pre, like)
            change = _linear(self._attend_source(number, _linear(hidden, cross.query)), cross.output)
            hidden = add_norm(x, change, feed.norm if pre else cross.norm, pre, like)
            change = _linear(self._expand(hidden, feed.expand), feed.contract)
            hidden = add_norm(x, change, following if pre and following is not None else feed.norm, pre, like)
        return _linear(hidden, self.described.output)

    def _attend(self, layer: int, qkv: Tensor) -> Tensor:
        return self_attention(qkv, self.keys[layer], self.values[layer], self.ancestry, self.position, self.scale)

    def _attend_source(self, layer: int, queries: Tensor) -> Tensor:
        keys, values = self.memory[layer]
        if self._is_read(layer):
            self.attention = self._weights(queries, keys)
        return cross_attention(queries, keys, values, self.lengths, self.scale)

    def _is_read(self, layer: int) -> bool:
        return self.need_weights and layer == self.described.alignment_layer

    def _weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Queries (R, D), keys (B, N, S, K) -> the mean attention (R, S) of the heads of the alignment."""
        sources, heads, words, size = keys.shape
        per_head = queries.view(sources, self.beam, heads, size).transpose(1, 2).float()
        scores = per_head @ keys.float().transpose(2, 3) * self.scale  # (B, N, beam, S)
        padding = torch.arange(words, device=keys.device) >= self.lengths[:, None]
        weights = torch.softmax(scores.masked_fill(padding[:, None, None], -torch.inf), -1)
        if chosen := self.described.alignment_heads:
            weights = torch.stack([weights[:, head] for head in chosen], 1)
        return weights.mean(1).flatten(0, 1)

    def _expand(self, hidden: Tensor, layer: Linear) -> Tensor:
        if self.described.decoder.activation == "relu" and hidden.is_cuda and layer.bias is not None:
            return torch._addmm_activation(layer.bias, hidden, layer.weight.t())
        return ACTIVATIONS[self.described.decoder.activation](_linear(hidden, layer))


def _linear(values: Tensor, layer: Linear) -> Tensor:
    return F.linear(values, layer.weight, layer.bias)


TRANSFORMER_STEP = Backend("fused transformer", why_not_transformer, TransformerStep)
