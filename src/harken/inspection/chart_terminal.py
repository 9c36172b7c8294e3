"""A chart as lines of text: a sign for each line of the chart, its legend below.

>>> from harken.inspection.chart import Chart, Line, Panel
>>> chart = Chart("", "steps", "|dL/dh|", [Panel("RNN", [Line("h", [1.0, 0.1, 0.01])])])
>>> print("\\n".join(line.plain.rstrip() for line in lines(chart, 30, color=False, height=5)))
RNN   |dL/dh|
   1 ●
     │
 0.1 ┤           ●
     │
0.01 ┼──────────────────────●
     0           1          2
      steps
      ● h
"""

from __future__ import annotations

from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.chart import Chart, Line, Panel, power_of_ten
from harken.inspection.palette import DARK, LIGHT
from harken.inspection.words import columns, cut

SIGNS = "●▲■◆○△□◇"
WIDEST = 96  # columns of a panel; wider is no easier to read


def lines(chart: Chart, width: int, color: bool, height: int = 11) -> list[Text]:
    """The panels, one below the other, in at most `width` columns."""
    drawn = [Text(cut(chart.title, width), style="bold" if color else "")] if chart.title else []
    for number, panel in enumerate(chart.panels):
        drawn += ([Text()] if number or chart.title else []) + _panel(chart, panel, min(width, WIDEST), color, height)
    return drawn


def _panel(chart: Chart, panel: Panel, width: int, color: bool, height: int) -> list[Text]:
    low, high = chart.decades
    rows = {
        round((high - tick) / (high - low) * (height - 1)): power_of_ten(tick)
        for tick in chart.ticks((height + 1) // 2)
    }
    label = max(columns(name) for name in rows.values())
    across = max(width - label - 2, 10)
    grid: list[list[tuple[str, Style | None]]] = [[(" ", None)] * across for _ in range(height)]
    grid[-1] = [("─", None)] * across
    for number, line in reversed(list(enumerate(panel.lines))):  # the first lies on top
        sign = (SIGNS[number % len(SIGNS)], style_of(line) if color else None)
        for column, value in _columns(line, chart.reach, across):
            grid[round((1 - chart.height(value)) * (height - 1))][column] = sign
    title = Text().append(panel.title, "bold" if color else None)
    title.append(f"{'   ' if panel.title else ''}{chart.y_label}", "dim" if color else None)
    drawn = [title if columns(title.plain) <= width else Text(cut(title.plain, width))]
    for row, cells in enumerate(grid):
        edge = "┼" if row == height - 1 else "┤" if row in rows else "│"
        text = Text(f"{rows.get(row, ''):>{label}} ")
        first, *rest = cells
        text.append(edge if first[0] in " ─" else first[0], first[1])
        for sign_and_style in rest:
            text.append(*sign_and_style)
        drawn.append(text)
    drawn.append(_axis(chart, label, across))
    drawn.append(Text(" " * (label + 2) + cut(chart.x_label, width - label - 2), style="dim" if color else ""))
    for number, line in enumerate(panel.lines):
        entry = Text(" " * (label + 2)).append(SIGNS[number % len(SIGNS)], style_of(line) if color else None)
        room = width - label - 4
        note = f"  {line.note}" if line.note and columns(line.label) + columns(line.note) + 2 <= room else ""
        drawn.append(entry.append(f" {cut(line.label, room)}").append(note, "dim" if color else None))
        if line.note and not note:
            drawn.append(Text(" " * (label + 4) + cut(line.note, room), style="dim" if color else ""))
    return drawn


def _axis(chart: Chart, label: int, across: int) -> Text:
    places = [" "] * (across + 4)
    free = 0
    for distance in chart.distances():
        name = str(distance)
        start = round(distance / chart.reach * (across - 1))
        start = min(start, across - len(name)) if distance else 0
        if start >= free:
            places[start : start + len(name)] = name
            free = start + len(name) + 1
    return Text(" " * (label + 1) + "".join(places).rstrip())


def _columns(line: Line, reach: int, across: int) -> list[tuple[int, float]]:
    """Column and value of each point; where points are dense, one for every column, so that no gaps are seen."""
    values = [float(value) for value in line.values]
    if 3 * reach < across:
        found = [(round(distance / reach * (across - 1)), value) for distance, value in enumerate(values)]
    else:
        found = [
            (column, values[at])
            for column in range(across)
            if (at := round(column / (across - 1) * reach)) < len(values)
        ]
    return [(column, value) for column, value in found if value != 0]  # 0 has no place on a logarithmic axis


def style_of(line: Line) -> Style:
    """A colour between those for light and for dark, to be seen on both."""
    pairs = zip(LIGHT.series[line.colour % len(LIGHT.series)], DARK.series[line.colour % len(DARK.series)], strict=True)
    red, green, blue = ((one + other) // 2 for one, other in pairs)
    return Style(color=Color.from_rgb(red, green, blue))
