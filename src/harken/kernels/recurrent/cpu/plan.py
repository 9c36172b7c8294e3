"""Where the rows of a packed sequence lie at each step, who works on which of them, and where states are kept.

The packed layout is that of `harken.kernels.recurrent.packing`: step t has `batch_sizes[t]` rows, longest sequence
first. A *lane* is a row of the batch; threads take neighbouring lanes, as many as make the work even.

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

from harken.kernels.recurrent.call import CellKind

FEWEST_LANES = 8  # fewer make products too thin


@dataclass(frozen=True)
class Setting:
    """A direction, beside its tensors."""

    kind: CellKind
    reverse: bool
    keep: Tensor | None  # (B, R): recurrent dropout
    stay: tuple[Tensor | float, ...]  # zoneout: for each part of the state (T, B, W), or a mean


class Span(NamedTuple):
    """The rows of one thread at one step."""

    time: int
    start: int  # first row in the packed sequence
    rows: int
    packed: slice  # these rows in the packed sequence
    lanes: slice  # and in the batch


@dataclass(frozen=True)
class Plan:
    """The packed layout of a batch."""

    batch_sizes: list[int]
    batch: int

    @property
    def total(self) -> int:
        """N: rows in the packed sequence."""
        return sum(self.batch_sizes)

    @property
    def full(self) -> bool:
        """Whether every row runs at every step."""
        return self.batch_sizes[-1] == self.batch

    def lanes(self, parts: int) -> list[tuple[int, int]]:
        """The batch in `parts` of about equal work, or fewer where it is small."""
        running = self.batch_sizes[0]
        parts = max(1, min(parts, running // FEWEST_LANES)) if running >= FEWEST_LANES else 1
        lengths = [sum(size > lane for size in self.batch_sizes) for lane in range(running)]
        done = [0, *accumulate(lengths)]
        cuts = [min(range(running + 1), key=lambda lane: abs(done[lane] - done[-1] * k / parts)) for k in range(parts)]
        edges = sorted({*cuts, running})
        return list(pairwise(edges))

    def spans(self, low: int, high: int, reverse: bool) -> Iterator[Span]:
        """Step after step, the rows of lanes `low` to `high`; `reverse`: from the last step to the first."""
        starts = [0, *accumulate(self.batch_sizes)]
        times = range(len(self.batch_sizes))
        for time in reversed(times) if reverse else times:
            rows = min(self.batch_sizes[time], high) - low
            if rows > 0:
                start = starts[time] + low
                yield Span(time, start, rows, slice(start, start + rows), slice(low, low + rows))


class Timeline:
    """One part of the state before and after each step, (N, W) each.

    Where all rows run at all steps, after one step is before the next, and both are views of one piece of memory.
    `allocate(rows, W)` makes that.
    """

    def __init__(self, first: Tensor, plan: Plan, reverse: bool, allocate: Callable[[int, int], Tensor]) -> None:
        self.shared = plan.full
        batch, total, width = plan.batch, plan.total, first.shape[1]
        if self.shared:
            whole = allocate(total + batch, width)
            early, late = whole[:total], whole[batch:]
            self.before, self.after = (late, early) if reverse else (early, late)
            (whole[total:] if reverse else whole[:batch]).copy_(first)
            self.last = whole[:batch] if reverse else whole[total:]
        else:
            self.before, self.after = allocate(2 * total, width).view(2, total, width)
            self.last = first.clone()

    def begin(self, span: Span) -> None:
        """Before a step: what the last one left."""
        if not self.shared:
            self.before[span.packed].copy_(self.last[span.lanes])

    def end(self, span: Span) -> None:
        """After a step."""
        if not self.shared:
            self.last[span.lanes].copy_(self.after[span.packed])

    def zoneout(self, span: Span, stay: Tensor | float) -> None:
        """Zoneout: where `stay` says so, the state stays as it was."""
        old, new = self.before[span.packed], self.after[span.packed]
        if isinstance(stay, float):
            new.lerp_(old, stay)
        else:
            torch.where(stay[span.time, span.lanes], old, new, out=new)


def zoneout_backward(gradient: Tensor, span: Span, stay: Tensor | float) -> Tensor:
    """The part of `gradient` (rows, W) of the old state; what is left in it is that of the new one."""
    if isinstance(stay, float):
        grad_old = gradient * stay
        gradient.sub_(grad_old)
    else:
        mask = stay[span.time, span.lanes]
        grad_old = gradient * mask
        gradient.masked_fill_(mask, 0.0)
    return grad_old
