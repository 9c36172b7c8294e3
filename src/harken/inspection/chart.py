"""Lines against distance on a logarithmic axis, as data: what `chart_svg`, `chart_png` and `chart_terminal` draw.

>>> panel = Panel("RNN", [Line("layer 1", [1.0, 0.5, 0.004])])
>>> chart = Chart("Gradients", "steps to the loss", "|dL/dh|", [panel])
>>> chart.decades, chart.reach, [power_of_ten(tick) for tick in chart.ticks()]
((-3, 0), 2, ['0.001', '0.01', '0.1', '1'])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LOWEST, HIGHEST = -60, 60  # decades an axis may reach; what lies beyond is drawn at its edge
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Line:
    """values[d] is what there is at distance d."""

    label: str
    values: Sequence[float]
    note: str = ""  # what the legend says beside the label
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One of several charts side by side, on the same axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Chart:
    """Panels under one title."""

    title: str
    x_label: str
    y_label: str
    panels: Sequence[Panel]

    def _values(self) -> Iterator[float]:
        for panel in self.panels:
            for line in panel.lines:
                yield from (float(value) for value in line.values if math.isfinite(value) and value > 0)

    @property
    def decades(self) -> tuple[int, int]:
        """The powers of ten at the lower and upper end of the axis."""
        powers = [math.log10(value) for value in self._values()] or [0.0]
        low = max(LOWEST, math.floor(min(powers) + 1e-9))
        return low, max(low + 1, min(HIGHEST, math.ceil(max(powers) - 1e-9)))

    @property
    def reach(self) -> int:
        """The longest distance."""
        return max((len(line.values) - 1 for panel in self.panels for line in panel.lines), default=1) or 1

    def ticks(self, most: int = 7) -> list[int]:
        """Powers of ten to write at the axis."""
        low, high = self.decades
        step = max(1, math.ceil((high - low) / (most - 1)))
        return list(range(low, high + 1, step))

    def distances(self, most: int = 6) -> list[int]:
        """Distances to write at the axis: round numbers."""
        rough = self.reach / most
        size = 10 ** math.floor(math.log10(max(rough, 1)))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        return list(range(0, self.reach + 1, int(step)))

    def height(self, value: float) -> float:
        """Where a value stands between the lower (0) and the upper (1) end of the axis."""
        low, high = self.decades
        if not value > 0:
            return 0.0
        power = math.log10(value) if math.isfinite(value) else HIGHEST
        return min(max((power - low) / (high - low), 0.0), 1.0)


def power_of_ten(power: int) -> str:
    """0.01 and 100 as they are, the others as powers.

    >>> power_of_ten(-2), power_of_ten(-16)
    ('0.01', '10⁻¹⁶')
    """
    return f"{10.0**power:g}" if -4 < power < 4 else "10" + str(power).translate(SUPERSCRIPTS)
