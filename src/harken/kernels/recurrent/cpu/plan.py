"""Where the rows of a packed sequence lie at each step, who works on which of them, and where states are kept.

The packed layout is that of `harken.nn.recurrent.packing`: step t has `sizes[t]` rows, longest sequence first. A
*lane* is a row of the batch; threads take neighbouring lanes, as many as make the work even.

>>> Plan([24, 24, 8, 8], batch=24).lanes(2)
[(0, 8), (8, 24)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

FEWEST_LANES = 8  # fewer make products too thin


@dataclass(frozen=True)
class Setting:
    """What a direction is, beside its tensors."""

    cell: str  # "rnn", "lstm", "gru after" or "gru before"
    reverse: bool
    keep: Tensor | None  # (B, R): recurrent dropout
    stay: tuple[Tensor | float, ...]  # zoneout: for each part of the state (T, B, W), or a mean
    nonlinearity: str = "tanh"
    coupled: bool = False
    peephole: str | None = None


class Place(NamedTuple):
    """The rows of one thread at one step."""

    time: int
    start: int  # first row in the packed sequence
    rows: int
    packed: slice  # these rows in the packed sequence
    lanes: slice  # and in the batch


@dataclass(frozen=True)
class Plan:
    """The packed layout of a batch."""

    sizes: list[int]
    batch: int

    @property
    def total(self) -> int:
        """N: rows in the packed sequence."""
        return sum(self.sizes)

    @property
    def full(self) -> bool:
        """Whether every row runs at every step."""
        return self.sizes[-1] == self.batch

    def lanes(self, parts: int) -> list[tuple[int, int]]:
        """The batch in `parts` of about equal work, or fewer where it is small."""
        running = self.sizes[0]
        parts = max(1, min(parts, running // FEWEST_LANES)) if running >= FEWEST_LANES else 1
        lengths = [sum(size > lane for size in self.sizes) for lane in range(running)]
        done = [0, *accumulate(lengths)]
        cuts = [min(range(running + 1), key=lambda lane: abs(done[lane] - done[-1] * k / parts)) for k in range(parts)]
        edges = sorted({*cuts, running})
        return list(pairwise(edges))

    def places(self, low: int, high: int, reverse: bool) -> Iterator[Place]:
        """Step after step, the rows of lanes `low` to `high`; `reverse`: from the last step to the first."""
        starts = [0, *accumulate(self.sizes)]
        times = range(len(self.sizes))
        for time in reversed(times) if reverse else times:
            rows = min(self.sizes[time], high) - low
            if rows > 0:
                start = starts[time] + low
                yield Place(time, start, rows, slice(start, start + rows), slice(low, low + rows))


class Timeline:
    """One part of the state before and after each step, (N, W) each.

    Where all rows run at all steps, after one step is before the next, and both are views of one piece of memory.
    `room(rows, W)` makes that.
    """

    def __init__(self, first: Tensor, plan: Plan, reverse: bool, room: Callable[[int, int], Tensor]) -> None:
        self.shared = plan.full
        batch, total, width = plan.batch, plan.total, first.shape[1]
        if self.shared:
            whole = room(total + batch, width)
            early, late = whole[:total], whole[batch:]
            self.before, self.after = (late, early) if reverse else (early, late)
            (whole[total:] if reverse else whole[:batch]).copy_(first)
            self.last = whole[:batch] if reverse else whole[total:]
        else:
            self.before, self.after = room(2 * total, width).view(2, total, width)
            self.last = first.clone()

    def begin(self, place: Place) -> None:
        """Before a step: what the last one left."""
        if not self.shared:
            self.before[place.packed].copy_(self.last[place.lanes])

    def end(self, place: Place) -> None:
        """After a step."""
        if not self.shared:
            self.last[place.lanes].copy_(self.after[place.packed])

    def zone(self, place: Place, stay: Tensor | float) -> None:
        """Zoneout: where `stay` says so, the state stays as it was."""
        old, new = self.before[place.packed], self.after[place.packed]
        if isinstance(stay, float):
            new.lerp_(old, stay)
        else:
            torch.where(stay[place.time, place.lanes], old, new, out=new)


def unzone(gradient: Tensor, place: Place, stay: Tensor | float) -> Tensor:
    """The way back: of `gradient` (rows, W), what goes to the old state; what is left in it goes to the new one."""
    if isinstance(stay, float):
        kept = gradient * stay
        gradient.sub_(kept)
    else:
        mask = stay[place.time, place.lanes]
        kept = gradient * mask
        gradient.masked_fill_(mask, 0.0)
    return kept
