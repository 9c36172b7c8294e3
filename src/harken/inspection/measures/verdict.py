"""Vanishing, exploding or healthy: a straight line through log |dL/dh_t| against the distance to the loss.

The line's slope s gives what one step back does to the gradient, factor = exp(s), and what is left of it at the far end
of the batch, share = exp(s x the longest distance).

vanishing     share < 1/20      less than a twentieth arrives at the far end
exploding     share > 20, or a gradient that is NaN or infinite
healthy       in between
unclear       fewer than 4 distances, or fewer than 8 rows: too little to say
direct        the loss depends on every step past the recurrence, as with attention: distance says little

A factor below 1 has a half-life and one above 1 a doubling time, both log 2 / |s| steps; one that rounds to 1.000 has
neither, the gradient stays. After Pascanu et al. (2013), "On the difficulty of training recurrent neural networks".

>>> judge(0.9 ** np.arange(50)).sentence
'vanishing: × 0.900 a step, halved every 6.58 steps; 0.57 % arrives after 49 steps'
>>> judge(1.1 ** np.arange(50)).kind, judge(np.ones(50)).kind
('exploding', 'healthy')
>>> judge(1.1 ** np.arange(50)).pace, judge(np.ones(50)).pace
('doubled every 7.27 steps', 'stays')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from harken.inspection.figure.values import plain

VANISHED = 1 / 20  # share of the gradient at the far end below which it has vanished
EXPLODED = 20.0  # and above which it has exploded
STAYS = 0.0005  # distance of the factor from 1 below which the gradient neither shrinks nor grows
FEWEST = 4  # distances to fit a line through
FEWEST_ROWS = 8  # behind every point of a curve that is judged
KINDS = ("unclear", "direct", "healthy", "vanishing", "exploding")  # ever more to worry about


@dataclass(frozen=True)
class Verdict:
    """The fate of a gradient on its way back, with the numbers behind it."""

    kind: str  # one of KINDS
    factor: float  # what one step back multiplies the gradient with
    share: float  # what is left at the longest distance, by the line
    ratio: float  # the same as measured: far end / near end
    distance: int  # the longest there was
    rows: int  # how many stand behind the farthest point

    @property
    def half_life(self) -> float:
        """Steps in which the gradient is halved; NaN where it does not shrink."""
        return -math.log(2) / math.log(self.factor) if self.factor <= 1 - STAYS else math.nan

    @property
    def doubling_time(self) -> float:
        """Steps in which the gradient is doubled; NaN where it does not grow."""
        return math.log(2) / math.log(self.factor) if self.factor >= 1 + STAYS else math.nan

    @property
    def pace(self) -> str:
        """How fast the gradient shrinks or grows; empty where no line was fitted."""
        if self.factor <= 1 - STAYS:
            return f"halved every {self.half_life:.3g} steps"
        if self.factor >= 1 + STAYS:
            return f"doubled every {self.doubling_time:.3g} steps"
        return "stays" if math.isfinite(self.factor) else ""

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.kind == "unclear" and self.rows < FEWEST_ROWS:
            return f"unclear: {self.rows} rows are too few for a verdict; give {FEWEST_ROWS} or more"
        if self.kind == "unclear":
            return f"unclear: {self.distance + 1} steps are too few to see a trend"
        if self.kind == "direct" and math.isnan(self.factor):
            return "direct: the loss depends on this layer at a few steps only"
        if not math.isfinite(self.factor):
            return "exploding: the gradient is NaN or infinite"
        if self.kind == "direct":
            return (
                f"direct: attention takes the loss to every step, so distance says little (× {self.factor:.3f} a step)"
            )
        arrives = f"{_share(self.share)} arrives after {self.distance} steps"
        return f"{self.kind}: × {self.factor:.3f} a step, {self.pace}; {arrives}"

    @property
    def short(self) -> str:
        """The verdict in few words, for legends."""
        if self.kind == "unclear" or not math.isfinite(self.factor):
            return self.kind
        return f"{self.kind}, × {self.factor:.3f} a step"

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON can hold it; numbers that are not finite become None."""
        times = {"half_life": self.half_life, "doubling_time": self.doubling_time}
        return {**plain(self), **plain(times), "sentence": self.sentence}


def judge(curve: np.ndarray, direct: bool = False, rows: int = FEWEST_ROWS) -> Verdict:
    """The verdict on norms (distances,), nearest to the loss first.

    Args:
        direct: the loss looks at every step.
        rows: how many rows stand behind the farthest point.
    """
    curve = np.asarray(curve, dtype=np.float64)
    far = len(curve) - 1
    if not np.isfinite(curve).all():
        return Verdict("exploding", math.nan, math.inf, math.inf, far, rows)
    if len(curve) < FEWEST or curve.max() == 0:
        return Verdict("unclear", math.nan, math.nan, math.nan, far, rows)
    if direct and np.count_nonzero(curve) < FEWEST:  # the last block: each of its outputs reaches its own step alone
        return Verdict("direct", math.nan, math.nan, math.nan, far, rows)
    smallest = np.nextafter(0, 1)  # a gradient that underflowed to 0 is as small as numbers get
    slope = float(np.polyfit(np.arange(len(curve)), np.log(np.maximum(curve, smallest)), 1)[0])
    share = math.exp(min(slope * far, 700.0))
    kind = "vanishing" if share < VANISHED else "exploding" if share > EXPLODED else "healthy"
    kind = "direct" if direct else "unclear" if rows < FEWEST_ROWS else kind
    ratio = float(curve[-1] / curve[0]) if curve[0] else math.inf
    return Verdict(kind, math.exp(min(slope, 700.0)), share, ratio, far, rows)


def _share(share: float) -> str:
    if 0.95 <= share < 1.05:
        return "as much"
    return f"{100 * share:.2g} %" if share < 1 else f"{share:.3g} times as much"
