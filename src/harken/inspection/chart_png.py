"""A chart as a PNG."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.lines import Line2D

from harken.inspection.chart import Chart, power_of_ten
from harken.inspection.chart_svg import ACROSS
from harken.inspection.palette import LIGHT, css
from harken.inspection.png import MUTED, WORDS, encode, sheet


def draw_png(chart: Chart) -> bytes:
    """The bytes of a PNG file."""
    count = min(max(len(chart.panels), 1), ACROSS)
    lines = max((len(panel.lines) for panel in chart.panels), default=0)
    longest = max((len(line.label) + len(line.note) for panel in chart.panels for line in panel.lines), default=0)
    wide = max(5.6 if count == 1 else 4.0 if count == 2 else 3.2, longest * 0.075 + 0.7 if count > 1 else 0)
    down = 2.7 + 0.75 + 0.24 * lines + 0.35  # from one row of panels to the next
    height = 1.2 + -(-len(chart.panels) // ACROSS) * down - 0.35
    figure = sheet(max(0.95 + count * (wide + 0.4), longest * 0.075 + 1.8), height, chart.title)
    width = figure.get_size_inches()[0]
    figure.text(0.25 / width, 1 - 0.68 / height, chart.y_label, fontsize=9, **MUTED)
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, ACROSS)
        left, bottom = 0.95 + column * (wide + 0.4), height - 1.2 - 2.7 - row * down
        axes = figure.add_axes((left / width, bottom / height, wide / width, 2.7 / height))
        low, high = chart.decades
        axes.set(xlim=(0, chart.reach), ylim=(low, high))
        axes.set_yticks(chart.ticks(), [power_of_ten(tick) if column == 0 else "" for tick in chart.ticks()], **WORDS)
        axes.set_xticks(chart.distances(), [str(distance) for distance in chart.distances()], **WORDS)
        axes.tick_params(length=0, labelsize=8, labelcolor=css(LIGHT.muted))
        axes.grid(True, axis="y", color=css(LIGHT.line), linewidth=0.8)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(css(LIGHT.muted))
        axes.set_xlabel(chart.x_label, fontsize=8.5, **MUTED)
        axes.set_title(panel.title, loc="left", fontsize=10.5, weight="bold", **WORDS)
        for place, line in enumerate(panel.lines):
            colour = css(LIGHT.series[line.colour % len(LIGHT.series)])
            heights = [low + (high - low) * chart.height(float(value)) if value else math.nan for value in line.values]
            look: dict[str, Any] = {"color": colour, "linewidth": 1.5, "linestyle": (0, (4, 2)) if line.dashed else "-"}
            axes.plot(
                range(len(heights)), heights, marker="" if line.dashed else "o", markersize=2.6, clip_on=False, **look
            )
            y = (bottom - 0.62 - 0.24 * place) / height
            figure.add_artist(Line2D([left / width, (left + 0.24) / width], [y + 0.045 / height] * 2, **look))
            label = figure.text((left + 0.32) / width, y, line.label, fontsize=8.5, **WORDS)
            if line.note:
                figure.draw_without_rendering()
                end = label.get_window_extent().x1 / (width * figure.dpi)
                figure.text(end + 0.1 / width, y, line.note, fontsize=8.5, **MUTED)
    return encode(figure, chart.title)
