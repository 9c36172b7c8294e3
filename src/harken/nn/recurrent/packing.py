"""Rows of unequal length without their padding: longest first, step by step, finished rows left out.

    a b c          order: rows 1, 0          packed: d a | e b | f c | g
    d e f g   ->   sizes: 2, 2, 2, 1

What is packed has one row for each real step, (N, D), so that products never meet padding, and step t of a loop works
on the first sizes[t] rows alone. Where no row is shorter than the others nothing is sorted. Lengths come in any order
and lie on any device.

>>> layout = Layout.of(torch.tensor([3, 4]), batch=2, time=4)
>>> layout.sizes
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
    """Where the rows of a packed sequence lie in the padded one."""

    sizes: list[int]  # rows that are still running at each step, none of them 0
    batch: int
    time: int
    order: Tensor | None = None  # (B,) rows, longest first; None: as they come, all of them of full length
    places: Tensor | None = None  # (N,) places in a padded batch (B x T)

    @classmethod
    def of(cls, lengths: Tensor | None, batch: int, time: int, device: torch.device | str = "cpu") -> Layout:
        """From lengths (B,), each from 0 to T; None where every row is of full length."""
        if lengths is None:
            return cls([batch] * time, batch, time)
        if lengths.is_meta:  # without values: counted as if every row were of full length
            return cls([batch] * time, batch, time)
        known = check_lengths(lengths, batch, time)
        if min(known) == time:
            return cls([batch] * time, batch, time)
        target, device = torch.device(device), lengths.device if torch.device(device).type == "meta" else device
        lengths = lengths.to(device)
        order = torch.argsort(lengths, descending=True, stable=True)
        steps = torch.arange(max(known), device=device)[:, None]
        running = steps < lengths[order]  # (T, B)
        places = (order * time + steps)[running]
        ended = Counter(known)
        sizes = [batch - gone for gone in accumulate(ended[step] for step in range(max(known)))]
        return cls(sizes, batch, time, order.to(target), places.to(target))

    @property
    def full(self) -> bool:
        """Whether every row runs at every step."""
        return self.places is None

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (N, D), step after step."""
        if self.places is None:
            return values.transpose(0, 1).reshape(self.batch * self.time, -1)
        return values.reshape(self.batch * self.time, -1).index_select(0, self.places)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, D) -> (B, T, D), 0 where a row has no step."""
        if self.places is None:
            return packed.view(self.time, self.batch, -1).transpose(0, 1)
        padded = packed.new_zeros(self.batch * self.time, packed.shape[-1])
        return padded.index_copy(0, self.places, packed).view(self.batch, self.time, -1)

    def sort(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Parts of a state (B, H), longest row first."""
        return state if self.order is None else tuple(part.index_select(0, self.order) for part in state)

    def unsort(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The way back."""
        if self.order is None:
            return state
        back = torch.argsort(self.order)
        return tuple(part.index_select(0, back) for part in state)


def check_lengths(lengths: Tensor, batch: int, time: int) -> list[int]:
    """The lengths as numbers; refused where they do not fit a batch (B, T)."""
    check_shape(lengths, batch)
    known: list[int] = lengths.tolist()
    if min(known) < 0 or max(known) > time or max(known) == 0:
        raise ValueError(f"lengths go from {min(known)} to {max(known)}, but the sequences have {time} steps")
    return known


def check_shape(lengths: Tensor, batch: int) -> None:
    """What can be said of lengths without reading them."""
    if lengths.shape != (batch,) or lengths.is_floating_point():
        found = f"shape {tuple(lengths.shape)} and {lengths.dtype}"
        raise ValueError(f"lengths has {found}, but one whole number for each of the {batch} rows is needed")
