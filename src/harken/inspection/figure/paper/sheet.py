"""The layout of a sheet: panels in rows, titles and notes.

Every panel is one pair of axes of a fixed size. Panels are drawn, measured with their labels and legends, then placed:
rows are filled up to `WIDEST`, so that no figure is wider than a browser window, and the paper ends where the drawing
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties

from harken.inspection.figure.palette import LIGHT, css
from harken.inspection.figure.paper import charts, media, tables
from harken.inspection.figure.paper.style import POINT, TEXT, Drawn, Hint, label_of
from harken.inspection.figure.spec import Bars, Figure, Heat, Images, Lines, Panel, Raster, Strips, Strokes, Tokens
from harken.inspection.figure.text import printable, wrap
from harken.inspection.figure.tree import Tree

WIDEST = 12.6  # inches; 96 pixels each in a browser
NARROWEST = 5.2  # inches that a title may take under a small panel
EDGE, GAP, BETWEEN = 0.2, 0.3, 0.4  # inches: around, between panels, between figures
TITLE, NOTE = 13.0, 9.0  # points
LEGEND_GAP = 0.14  # inches between the axes and a legend beside them
MOST = 10.8  # inches that a chart may become wide
MOST_HINTS = 4000
RENDERERS: dict[type, Callable[..., Drawn]] = {
    Lines: charts.draw_lines,
    Bars: charts.draw_bars,
    Heat: tables.draw_heat,
    Raster: tables.draw_raster,
    Tree: tables.draw_tree,
    Tokens: media.draw_tokens,
    Images: media.draw_images,
    Strokes: media.draw_strokes,
    Strips: media.draw_strips,
}


@dataclass
class Placed:
    """One panel on the paper; inches."""

    axes: Axes
    size: tuple[float, float]  # of the axes alone
    stretches: bool  # whether it may be made wider to fill its row
    legend_beside: bool
    left: float  # what labels and legends take beside the axes
    right: float
    top: float
    bottom: float


@dataclass
class Drawing:
    """A finished sheet."""

    canvas: Canvas
    hints: list[Hint] = field(default_factory=list)
    texts: list[tuple[float, float, str, dict[str, Any]]] = field(default_factory=list)  # inches from the top left


def draw_sheet(figures: Sequence[Figure]) -> Drawing:
    """All figures, one below the other."""
    canvas = Canvas(figsize=(10, 10), dpi=72, facecolor=css(LIGHT.paper))
    renderer = FigureCanvasAgg(canvas).get_renderer()
    drawing = Drawing(canvas)
    placed = [
        [_measured(drawing, renderer, figure, index) for index in range(len(figure.panels))] for figure in figures
    ]
    boxes: list[tuple[Axes, float, float, float, float]] = []  # axes; left, top, width, height in inches
    for figure, panels in zip(figures, placed, strict=True):
        for row in _rows(panels, figure.across):
            _fill(row)
    grids = [_Grid(_rows(panels, figure.across)) for figure, panels in zip(figures, placed, strict=True)]
    width = max((grid.width for grid in grids), default=0.0)
    down = EDGE
    for figure, grid in zip(figures, grids, strict=True):
        rows = grid.rows
        room = max(grid.width if rows else width, NARROWEST)
        down = _write(drawing, renderer, figure.title, down, room, TITLE, bold=True)
        down += 0.08 if figure.title and rows else 0.0
        for number, row in enumerate(rows):
            top = down + max(panel.top for panel in row) + (GAP if number else 0.0)
            for panel, left in zip(row, grid.places(number), strict=True):
                boxes.append((panel.axes, EDGE + left, top, *panel.size))
            down = top + max(panel.size[1] + panel.bottom for panel in row)
        if figure.note:
            down = _write(drawing, renderer, figure.note, down + 0.12, room, NOTE, bold=False)
        width = max(
            width,
            *(_text_width(renderer, line, look["fontsize"], look["fontweight"]) for _, _, line, look in drawing.texts),
            0.5,
        )
        down += BETWEEN if rows else 0.12
    width, height = width + 2 * EDGE, down - (BETWEEN if placed and placed[-1] else 0.0) + EDGE
    canvas.set_size_inches(width, height)
    for axes, left, top, wide, tall in boxes:
        axes.set_position((left / width, 1 - (top + tall) / height, wide / width, tall / height))
    for x, y, line, look in drawing.texts:
        canvas.text(x / width, 1 - y / height, line, **look)
    return drawing


class _Grid:
    """Panels in rows; columns are aligned where no panel is a chart, or all are and every row has as many of them."""

    def __init__(self, rows: list[list[Placed]]) -> None:
        self.rows = rows
        stretches = {panel.stretches for row in rows for panel in row}
        self.aligned = stretches == {False} or (stretches == {True} and len(set(map(len, rows))) == 1)
        self.width = max((self._columns(number)[2] for number in range(len(rows))), default=0.0)

    def places(self, number: int) -> list[float]:
        """Where the axes of a row begin, in inches from the left."""
        lefts, widths, _ = self._columns(number)
        starts, at = [], 0.0
        for left, width in zip(lefts, widths, strict=True):
            starts.append(at + left)
            at += left + width + GAP
        return starts[: len(self.rows[number])]

    def _columns(self, number: int) -> tuple[list[float], list[float], float]:
        """The width of the labels on the left of each column, of the rest of it, and of all columns."""
        rows = self.rows if self.aligned else [self.rows[number]]
        columns = [[row[at] for row in rows if at < len(row)] for at in range(max(map(len, rows), default=0))]
        lefts = [max(panel.left for panel in column) for column in columns]
        widths = [max(panel.size[0] + panel.right for panel in column) for column in columns]
        return lefts, widths, sum(lefts) + sum(widths) + GAP * max(len(columns) - 1, 0)


def _measured(drawing: Drawing, renderer: RendererAgg, figure: Figure, index: int) -> Placed:
    """Draw a panel somewhere, and find out how much its labels take."""
    axes = drawing.canvas.add_axes((0, 0, 0.5, 0.5), label=str(len(drawing.canvas.axes)))
    panel = figure.panels[index]
    if panel.title and not isinstance(panel, Heat | Images):
        axes.set_title(printable(panel.title), loc="left", fontsize=10.5, color=TEXT, pad=8)
    size, hints = RENDERERS[type(panel)](panel, axes, partial(_text_width, renderer), len(figure.panels))
    drawing.hints += hints[:MOST_HINTS]
    legends = [legend_of(other) for other in figure.panels]
    beside = len({tuple(legend) for legend in legends if legend}) < 2
    if legends[index] and (not beside or not any(legends[index + 1 :])):  # one legend for all: beside the last
        _legend(axes, panel, size, beside)
    wide, tall = drawing.canvas.get_size_inches()
    axes.set_position((0.2, 0.2, size[0] / wide, size[1] / tall))
    box, whole = axes.get_window_extent(renderer), axes.get_tightbbox(renderer)
    assert whole is not None
    edges = (box.x0 - whole.x0, whole.x1 - box.x1, whole.y1 - box.y1, box.y0 - whole.y0)
    left, right, top, bottom = (max(edge * POINT, 0.0) for edge in edges)
    stretches = isinstance(panel, Lines | Strips) or (isinstance(panel, Bars) and not panel.horizontal)
    return Placed(axes, size, stretches, beside, left, right, top, bottom)


def _legend(axes: Axes, panel: Panel, size: tuple[float, float], beside: bool) -> None:
    """Put the legend beside the axes, or below them where each of several panels has its own; never on the data."""
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": 9,
        "handlelength": 1.8,
        "borderaxespad": 0.0,
        "borderpad": 0.0,
    }
    if beside:
        axes.legend(loc="upper left", bbox_to_anchor=(1 + LEGEND_GAP / size[0], 1.0), labelspacing=0.55, **look)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.54 / size[1]), labelspacing=0.4, **look)


def _rows(panels: list[Placed], across: int | None) -> list[list[Placed]]:
    rows: list[list[Placed]] = []
    used = 0.0
    for panel in panels:
        wide = panel.left + panel.size[0] + panel.right
        full = not rows or used + GAP + wide > WIDEST or (across is not None and len(rows[-1]) >= across)
        if full:
            rows.append([])
            used = -GAP
        rows[-1].append(panel)
        used += GAP + wide
    return rows


def _fill(row: list[Placed]) -> None:
    """Widen the charts of a row until it is as wide as a page; tables and images keep their scale."""
    wider = [panel for panel in row if panel.stretches]
    spare = WIDEST - sum(panel.left + panel.size[0] + panel.right for panel in row) - GAP * (len(row) - 1)
    if not wider or spare <= 0:
        return
    wide = sum(panel.size[0] for panel in wider)
    factor = min(wide + spare - 0.01, MOST * len(wider)) / wide
    if factor <= 1:
        return
    for panel in wider:
        panel.size = panel.size[0] * factor, panel.size[1]
        legend = panel.axes.get_legend()
        if legend is not None and panel.legend_beside:  # its place is a share of the width of the axes
            legend.set_bbox_to_anchor((1 + LEGEND_GAP / panel.size[0], 1.0), transform=panel.axes.transAxes)


def _write(
    drawing: Drawing, renderer: RendererAgg, content: str, down: float, room: float, points: float, bold: bool
) -> float:
    """Lines of text from `down` on; returns where they end."""
    look: dict[str, Any] = {"fontsize": points, "fontweight": "bold" if bold else "normal", "va": "baseline"}
    look["color"] = css(LIGHT.text if bold else LIGHT.muted)
    for line in (
        wrap(content, room, lambda part: _text_width(renderer, part, points, look["fontweight"])) if content else []
    ):
        down += 1.45 * points * POINT
        drawing.texts.append((EDGE, down - 0.35 * points * POINT, line, look))
    return down


def _text_width(renderer: RendererAgg, line: str, points: float, weight: str = "normal") -> float:
    """Inches."""
    font = FontProperties(size=points, weight=weight)
    return float(renderer.get_text_width_height_descent(line, font, ismath=False)[0]) * POINT if line else 0.0


def legend_of(panel: Panel) -> list[str]:
    """The entries of a panel's legend."""
    if isinstance(panel, Lines):
        names = [
            *(label_of(series.label, series.note) for series in panel.series),
            *(band.label for band in panel.bands),
        ]
    elif isinstance(panel, Bars):
        names = [group.label for group in panel.groups]
    else:
        return []
    return [name for name in [*names, *(mark.label for mark in panel.marks if mark.axis == "y")] if name]
