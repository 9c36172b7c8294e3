"""Rows of unequal length in a batch: packed, without their padding, or padded, with their lengths.

Packed, as in `torch.nn.utils.rnn.PackedSequence`: longest row first, step by step, without the rows that have ended.

    a b c          sorted_indices: 1, 0         packed: d a | e b | f c | g
    d e f g   ->   batch_sizes: 2, 2, 2, 1

Packed values (N, D) have one row for each real step, so products never see padding, and step t of a loop works on the
first batch_sizes[t] rows alone. Where all rows are of full length nothing is sorted. Lengths come in any order, on any
device.

>>> layout = Layout.of(torch.tensor([3, 4]), batch=2, time=4)
>>> layout.batch_sizes
[2, 2, 2, 1]
>>> values = torch.tensor([[[1.0], [2.0], [3.0], [9.0]], [[4.0], [5.0], [6.0], [7.0]]])
>>> layout.unpack(layout.pack(values))[..., 0].tolist()
[[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 7.0]]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Where the rows of a packed batch lie in the padded one."""

    batch_sizes: list[int]  # rows that run at each step, none of them 0
    batch: int
    time: int
    sorted_indices: Tensor | None = None  # (B,) rows, longest first; None: in their order, all of full length
    positions: Tensor | None = None  # (N,) of the packed rows in the padded batch (B x T)

    @classmethod
    def of(cls, lengths: Tensor | None, batch: int, time: int, device: torch.device | str = "cpu") -> Layout:
        """From lengths (B,), each from 0 to T; None where every row is of full length."""
        if lengths is None or lengths.is_meta:  # lengths without values count as full
            return cls([batch] * time, batch, time)
        known = check_lengths(lengths, batch, time)
        if min(known) == time:
            return cls([batch] * time, batch, time)
        lengths = lengths if torch.device(device).type == "meta" else lengths.to(device)
        order = torch.argsort(lengths, descending=True, stable=True)
        steps = torch.arange(max(known), device=lengths.device)[:, None]
        running = steps < lengths[order]  # (T, B)
        positions = (order * time + steps)[running]
        ended = Counter(known)
        batch_sizes = [batch - gone for gone in accumulate(ended[step] for step in range(max(known)))]
        return cls(batch_sizes, batch, time, order.to(device), positions.to(device))

    @property
    def full(self) -> bool:
        """Whether every row runs at every step."""
        return self.positions is None

    @property
    def is_rectangular(self) -> bool:
        """Whether every row runs at every step that any row has."""
        return self.full or self.batch_sizes[-1] == self.batch

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (N, D), step after step."""
        if self.positions is None:
            return values.transpose(0, 1).reshape(self.batch * self.time, -1)
        return values.reshape(self.batch * self.time, -1).index_select(0, self.positions)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, D) -> (B, T, D), 0 where a row has no step."""
        if self.positions is None:
            return packed.view(self.time, self.batch, -1).transpose(0, 1)
        padded = packed.new_zeros(self.batch * self.time, packed.shape[-1])
        return padded.index_copy(0, self.positions, packed).view(self.batch, self.time, -1)

    def sort(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Parts of a state (B, H), longest row first."""
        return state if self.sorted_indices is None else tuple(p.index_select(0, self.sorted_indices) for p in state)

    def unsort(self, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The inverse of `sort`, for parts of several states (directions, B, H)."""
        if self.sorted_indices is None:
            return states
        inverse = torch.argsort(self.sorted_indices)
        return tuple(part.index_select(1, inverse) for part in states)


@dataclass(frozen=True)
class PaddedLayout:
    """The batch as it is, time first; the same interface as `Layout`."""

    lengths: Tensor | None  # (B,)
    batch: int
    time: int
    sorted_indices: None = None

    def hide_padding(self, values: Tensor) -> Tensor:
        """(B, T, D), 0 behind the end of each row."""
        if self.lengths is None:
            return values
        is_padding = torch.arange(self.time, device=values.device) >= self.lengths[:, None]  # (B, T)
        return values.masked_fill(is_padding[:, :, None], 0.0)

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (T, B, D)."""
        return values.transpose(0, 1)

    def unpack(self, values: Tensor) -> Tensor:
        """(T, B, D) -> (B, T, D)."""
        return values.transpose(0, 1)

    def sort(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Rows stay in their order."""
        return state

    unsort = sort


def check_lengths(lengths: Tensor, batch: int, time: int) -> list[int]:
    """The lengths as numbers.

    Raises:
        ValueError: they are not lengths of a batch (B, T).
    """
    check_shape(lengths, batch)
    known: list[int] = lengths.tolist()
    if min(known) < 0 or max(known) > time or max(known) == 0:
        raise ValueError(f"lengths go from {min(known)} to {max(known)}, but the sequences have {time} steps")
    return known


def check_shape(lengths: Tensor, batch: int) -> None:
    """Check what can be known without reading the lengths."""
    if lengths.shape != (batch,) or lengths.is_floating_point():
        raise ValueError(
            f"lengths has shape {tuple(lengths.shape)} and {lengths.dtype}, but one whole number is needed for each of "
            f"the {batch} rows"
        )
