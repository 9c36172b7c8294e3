"""Keys and values of earlier tokens, in memory that is allocated once.

`KVCache` holds those of all layers as (T, L, R, 2, N, K), time first: the part in use is contiguous, a token writes one
slice of it, and one gather reorders the hypotheses of all layers. Keys and values of the source, which all hypotheses
of a source share, are not in it (`harken.nn.attention.multihead.CrossAttention`).

A cache is used in one of two ways. By default a step attends to the tokens written so far, so that its cost grows with
the length, and the cache grows where it is full. With `static` all shapes are fixed: a step of one token attends to all
T slots under a mask made from `position`, a tensor, so that it can be captured as a CUDA graph and replayed.

>>> from harken.nn.attention.multihead import SelfAttention
>>> layer, values = SelfAttention(width=8, heads=2).eval(), torch.randn(3, 4, 8)
>>> cache = KVCache(layers=1, rows=3, heads=2, head_width=4, max_length=4)
>>> with torch.no_grad():
...     for time in range(4):
...         cache.advance_()
...         last, _ = layer.step(values[:, time : time + 1], cache, layer=0)
...     whole = layer(values, causal=True)
>>> torch.allclose(last[:, 0], whole[:, -1], atol=1e-6)
True
"""

from __future__ import annotations

import torch
from torch import Tensor

KeyValue = tuple[Tensor, Tensor]  # each (B, N, S, K)


class KVCache:
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
        self.length = 0  # tokens written, counting the current ones
        self.position = torch.full((1,), -1, device=self.values.device)  # slot of the current token
        self.start: int | Tensor = 0  # position of the first of the current tokens; static: a tensor (1,)
        self.slots: tuple[Tensor, ...] = ()  # of the current tokens, per layer (2, R, N, t, K); not if static
        self.contents: tuple[Tensor, ...] = ()  # of all tokens, per layer (2, R, N, T, K)
        self.mask: Tensor | None = None  # static: (1, 1, 1, T), True up to the current token
        self.distances: Tensor | None = None  # static: (1, 1, T) from the current token to every slot

    @property
    def rows(self) -> int:
        """R."""
        return self.values.shape[2]

    def advance_(self, count: int = 1) -> None:
        """Open the slots of the next tokens: prepare, once for all layers, where to write and what to read."""
        if self.static:
            assert count == 1, "a static cache takes one token at a time"
            self.length += 1
            self.position.add_(1)
            self.start = self.position
            slots = torch.arange(len(self.values), device=self.values.device)
            self.mask = (slots <= self.position)[None, None, None]
            self.distances = (slots - self.position)[None, None]
            self.contents = self.values.permute(1, 3, 2, 4, 0, 5).unbind(0)
            return
        self.start, self.length = self.length, self.length + count
        if self.length > len(self.values):
            more = self.values.new_empty(max(count, len(self.values)), *self.values.shape[1:])
            self.values, self.spare = torch.cat((self.values, more)), None
        by_layer = self.values[: self.length].permute(1, 3, 2, 4, 0, 5)  # (L, 2, R, N, T, K)
        self.contents, self.slots = by_layer.unbind(0), by_layer[..., self.start :, :].unbind(0)

    def write_(self, layer: int, key_value: Tensor) -> KeyValue:
        """Keys and values (2, R, N, t, K) of the current tokens -> those of all tokens, each (R, N, T, K)."""
        if self.static:
            self.contents[layer].index_copy_(3, self.position, key_value.to(self.values.dtype))
        else:
            self.slots[layer].copy_(key_value)
        is_first = self.length == key_value.shape[3] and not self.static
        key, value = (key_value if is_first else self.contents[layer]).unbind(0)
        return key, value

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
