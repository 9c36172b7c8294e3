"""Attention of one new token a row, with keys and values in caches that are allocated once.

`StepCache` holds the keys and values of all layers and earlier tokens as (T, L, R, 2, N, K), time first: the part in
use is contiguous, a token writes one slice of it, and one gather reorders the hypotheses of all layers. Keys and values
of the source, which all hypotheses of a source share, are not in it: `cross_attention_step` attends to them with the
hypotheses of a source as queries of one batch entry.

`SelfAttention.step` and `CrossAttention.forward` (`multihead.py`) are the readable reference of the two functions here.

A cache is used in one of two ways. By default a step attends to the tokens written so far, so that its cost grows with
the length, and the cache grows where it is full. With `static` all shapes are fixed: a step attends to all T slots
under a mask made from `position`, a tensor, so that it can be captured as a CUDA graph and replayed.

>>> from harken.nn.attention.multihead import SelfAttention
>>> layer, values = SelfAttention(width=8, heads=2).eval(), torch.randn(3, 4, 8)
>>> cache = StepCache(1, 3, 2, 4, max_length=4)
>>> with torch.no_grad():
...     for time in range(4):
...         cache.advance_()
...         last, _ = self_attention_step(layer, values[:, time], cache, 0)
...     whole = layer(values, causal=True)
>>> torch.allclose(last, whole[:, -1], atol=1e-6)
True
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.nn.attention.functional import attend, attend_with_weights
from harken.nn.attention.head_scores import ScaledHeads
from harken.nn.attention.multihead import CrossAttention, KeyValue, SelfAttention


class StepCache:
    """Keys and values of every layer, one slot for each token and row.

    Args:
        layers, rows, heads, head_width: L, R, N and K.
        max_length: slots.
        like: its dtype and device are the cache's.
        static: fixed shapes and addresses.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        head_width: int,
        max_length: int,
        like: Tensor | None = None,
        static: bool = False,
    ) -> None:
        shape = (max(1, max_length), layers, rows, 2, heads, head_width)
        like = torch.empty(0) if like is None else like
        # unused slots are read, under a mask, where shapes are fixed
        self.values = like.new_zeros(shape) if static else like.new_empty(shape)
        self.spare: Tensor | None = None  # what hypotheses are gathered into; then the two change places
        self.static = static
        self.length = 0  # tokens written, counting the current one
        self.position = torch.full((1,), -1, device=self.values.device)  # slot of the current token
        self.slots: tuple[Tensor, ...] = ()  # of the current token, per layer (R, 2, N, K)
        self.keys: tuple[Tensor, ...] = ()  # per layer (R, N, T, K)
        self.contents: tuple[Tensor, ...] = ()  # the values, per layer (R, N, T, K)
        self.mask: Tensor | None = None  # static: (1, 1, 1, T), True up to the current token

    @property
    def rows(self) -> int:
        """R."""
        return self.values.shape[2]

    def advance_(self) -> None:
        """Open the slot of the next token: prepare, once for all layers, where to write and what to read."""
        self.length += 1
        if self.static:
            self.position.add_(1)
            self.mask = (torch.arange(len(self.values), device=self.values.device) <= self.position)[None, None, None]
            used = self.values
        else:
            if self.length > len(self.values):
                self.values = torch.cat((self.values, torch.empty_like(self.values)))
                self.spare = None
            self.slots = self.values[self.length - 1].unbind(0)
            used = self.values[: self.length]
        self.keys, self.contents = (part.unbind(0) for part in used.permute(3, 1, 2, 4, 0, 5).unbind(0))

    def write_(self, layer: int, key_value: Tensor) -> KeyValue:
        """Keys and values (R, 2, N, K) of the current token; returns those of all tokens, each (R, N, T, K)."""
        if self.static:
            self.values[:, layer].index_copy_(0, self.position, key_value[None].to(self.values.dtype))
        else:
            self.slots[layer].copy_(key_value)
        return self.keys[layer], self.contents[layer]

    def fill_(self, keys_values: list[KeyValue]) -> None:
        """Several tokens at once, from keys and values (R, N, T, K) of every layer; the cache must be empty."""
        time = keys_values[0][0].shape[2]
        for layer, (key, value) in enumerate(keys_values):
            self.values[:time, layer, :, 0] = key.permute(2, 0, 1, 3)
            self.values[:time, layer, :, 1] = value.permute(2, 0, 1, 3)
        self.length = time
        self.position.fill_(time - 1)

    def reset_(self) -> None:
        """Empty a static cache; unused slots are read under a mask, so they must be numbers."""
        self.values.zero_()
        self.position.fill_(-1)
        self.length = 0

    def reorder_(self, rows: Tensor, first: int = 0) -> None:
        """Row r goes on with the tokens of row rows[r] (R,), from slot `first` on."""
        if self.static or first:
            used = self.values[first:] if self.static else self.values[first : self.length]
            used.copy_(used.index_select(2, rows))
            return
        if self.spare is None:
            self.spare = torch.empty_like(self.values)
        torch.index_select(self.values[: self.length], 2, rows, out=self.spare[: self.length])
        self.values, self.spare = self.spare, self.values

    def select_(self, rows: Tensor) -> None:
        """Other rows (R',), fewer or more."""
        size = (len(self.values), self.values.shape[1], len(rows), *self.values.shape[3:])
        values = self.values.new_zeros(size) if self.static else self.values.new_empty(size)
        values[: self.length] = self.values[: self.length].index_select(2, rows)
        self.values, self.spare = values, None


def self_attention_step(
    layer: SelfAttention,
    values: Tensor,
    cache: StepCache,
    number: int,
    mask: Tensor | None = None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The current token of each row (R, D) attends to its own prefix -> (R, D), weights (R, N, T) or None.

    Args:
        number: of the layer in the cache.
        mask: (R, 1, 1, T), True where a slot may be seen, such as those that are no padding.
    """
    (rows, width), positions = values.shape, layer.positions
    size = width // layer.heads
    query, key_value = layer.query_key_value(values).split((width, 2 * width), 1)
    query, key_value = query.unflatten(1, (layer.heads, 1, size)), key_value.unflatten(1, (2, layer.heads, size))
    if type(layer.score) is not ScaledHeads or positions.rotates_qk:
        query, key = layer.score.queries(query), layer.score.keys(key_value[:, 0, :, None])  # (R, N, 1, K)
        query, key = positions.apply_rotary(query, key, cache.position if cache.static else cache.length - 1)
        key_value = torch.stack((key[:, :, 0], key_value[:, 1]), 1)
    keys, contents = cache.write_(number, key_value)
    if cache.mask is not None:
        mask = cache.mask if mask is None else mask & cache.mask
    time = keys.shape[2]
    apart = torch.arange(time, device=values.device)[None, None] - cache.position if cache.static else None
    score, bias, value_bias = positions.functions(layer.score, 1, time, apart)
    weights = None
    if need_weights:
        context, weights = attend_with_weights(
            query, keys, contents, mask, score=score, bias=bias, value_bias=value_bias
        )
        weights = weights[:, :, 0]
    elif bias is None and value_bias is None and _is_fused(layer.score, query):
        context = F.scaled_dot_product_attention(query, keys, contents, mask)
    else:
        context = attend(query, keys, contents, mask, score=score, bias=bias, value_bias=value_bias)
    return layer.output(context.reshape(rows, width)), weights


def cross_attention_step(
    layer: CrossAttention, values: Tensor, memory: KeyValue, mask: Tensor | None, need_weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    """One token of each hypothesis (R, D) attends to the memory of its source -> (R, D), weights (R, N, S) or None.

    Args:
        memory: keys and values (B, N, S, K); the R / B hypotheses of a source are side by side.
        mask: (B, 1, 1, S), boolean (True = visible), or added to the scores.
    """
    (rows, width), (sources, heads, _, size) = values.shape, memory[0].shape
    query = layer.query(values).view(sources, rows // sources, heads, size).transpose(1, 2)  # (B, N, beam, K)
    query = layer.score.queries(query)
    found = None
    if need_weights:
        seen = mask if mask is None or mask.dtype == torch.bool else mask == 0
        context, weights = attend_with_weights(query, *memory, seen, score=layer.score)
        found = weights.transpose(1, 2).flatten(0, 1)
    elif _is_fused(layer.score, query):
        context = F.scaled_dot_product_attention(query, *memory, mask)
    else:
        seen = mask if mask is None or mask.dtype == torch.bool else mask == 0
        context = attend(query, *memory, seen, score=layer.score)
    return layer.output(context.transpose(1, 2).reshape(rows, width)), found


def _is_fused(score: ScaledHeads, query: Tensor) -> bool:
    """Whether torch's fused attention applies; its CPU kernel is slow in bfloat16, which `attend` knows."""
    return score.is_dot_product and (query.is_cuda or query.dtype != torch.bfloat16)
