"""A chart as a drawing; pointing at a dot shows its number by the `<title>` every browser knows."""

from __future__ import annotations

from harken.inspection.chart import Chart, Line, Panel, power_of_ten
from harken.inspection.page import text
from harken.inspection.palette import LIGHT, Palette
from harken.inspection.svg import Rule, svg
from harken.inspection.words import columns, cut

LETTER = 6.9  # the width of a letter of 12 pixels, on the safe side
TALL = 230  # pixels of a panel
GAP = 34
ACROSS = 3  # panels side by side; more go below
LEFT, TOP = 74, 92
LOOKS = {
    ".name": "font-size:14px;font-weight:600",
    ".tick": "font-size:11px",
    ".line": "fill:none;stroke-width:2;stroke-linejoin:round",
    ".rule": "stroke-width:1",
}


def draw_svg(chart: Chart) -> str:
    """A complete SVG document."""
    across = min(len(chart.panels), ACROSS)
    wide = 520 if across == 1 else 340 if across == 2 else 270
    legend = 22 * max((len(panel.lines) for panel in chart.panels), default=0)
    texts = [_legend_text(line) for panel in chart.panels for line in panel.lines]
    longest = max((columns(text) for text in texts), default=0) * LETTER + 44
    wide = max(wide, round(longest)) if len(chart.panels) > 1 else wide
    width = max(LEFT + across * (wide + GAP) + 6, LEFT + longest + 24)
    down = TALL + 52 + legend + 34  # from one row of panels to the next
    height = TOP + -(-len(chart.panels) // ACROSS) * down - 18
    parts = [f'<text class="muted" x="24" y="58">{text(chart.y_label)}</text>']
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, ACROSS)
        place = f'<g transform="translate({LEFT + column * (wide + GAP)} {row * down})">'
        parts += [place, *_panel(chart, panel, wide, first=column == 0), "</g>"]
    return svg("chart", chart.title, width, height, parts, LOOKS, _colours)


def _panel(chart: Chart, panel: Panel, wide: float, first: bool) -> list[str]:
    parts = [f'<text class="name" y="{TOP - 12}">{text(panel.title)}</text>'] if panel.title else []
    low, high = chart.decades
    for tick in chart.ticks():
        y = TOP + TALL * (1 - (tick - low) / (high - low))
        parts.append(f'<path class="rule" d="M0 {y:.1f}h{wide}"/>')
        if first:
            parts.append(f'<text class="tick muted end" x="-8" y="{y + 4:.1f}">{power_of_ten(tick)}</text>')
    for distance in chart.distances():
        x = wide * distance / chart.reach
        parts.append(f'<text class="tick muted middle" x="{x:.1f}" y="{TOP + TALL + 18}">{distance}</text>')
    parts.append(f'<path class="axis" d="M0 {TOP + TALL}h{wide}"/>')
    parts.append(f'<text class="muted middle" x="{wide / 2:.1f}" y="{TOP + TALL + 38}">{text(chart.x_label)}</text>')
    for line in panel.lines:
        parts.append(_line(chart, line, wide))
    for row, line in enumerate(panel.lines):
        y = TOP + TALL + 64 + 22 * row
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        parts.append(f'<path class="line s{_colour(line)}"{dash} d="M0 {y - 4}h24"/>')
        note = f'<tspan class="muted" dx="8">{text(line.note)}</tspan>' if line.note else ""
        label = text(cut(line.label, 60))
        parts.append(f'<text class="label" x="32" y="{y}">{label}{note}</text>')
    return parts


def _line(chart: Chart, line: Line, wide: float) -> str:
    points = [
        (wide * distance / chart.reach, TOP + TALL * (1 - chart.height(float(value))), float(value))
        for distance, value in enumerate(line.values)
    ]
    path, gap = "", True
    for x, y, value in points:
        path += f"{'M' if gap else 'L'}{x:.1f} {y:.1f}" if value != 0 else ""
        gap = value == 0  # a gradient of 0 has no place on this axis
    dash = ' stroke-dasharray="5 3"' if line.dashed else ""
    size = 2.6 if len(points) <= 60 else 1.4
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{text(line.label)}, distance {distance}: {value:.3g}'
        "</title></circle>"
        for distance, (x, y, value) in enumerate(points)
        if value != 0
    )
    seen = ' fill-opacity="0"' if line.dashed else ""  # dots would hide the dashes
    kind = _colour(line)
    return f'<path class="line s{kind}"{dash} d="{path}"/><g class="dots s{kind}"{seen}>{dots}</g>'


def _colour(line: Line) -> int:
    return line.colour % len(LIGHT.series)


def _legend_text(line: Line) -> str:
    return f"{cut(line.label, 60)}  {line.note}"


def _colours(palette: Palette) -> list[Rule]:
    return [
        rule
        for number, colour in enumerate(palette.series)
        for rule in ((f".line.s{number}", "stroke", colour), (f".dots.s{number}", "fill", colour))
    ]
