"""A chart as a drawing, written line by line: no library, no script, light and dark.

Pointing at a dot shows its number by the `<title>` every browser knows.
"""

from __future__ import annotations

from html import escape

from harken.inspection.chart import Chart, Line, Panel, power_of_ten
from harken.inspection.palette import DARK, LIGHT, Palette, css
from harken.inspection.words import columns, cut, printable

LETTER = 6.9  # the width of a letter of 12 pixels, on the safe side
TALL = 230  # pixels of a panel
GAP = 34
ACROSS = 3  # panels side by side; more go below
LEFT, TOP = 74, 92


def draw_svg(chart: Chart) -> str:
    """A complete SVG document."""
    across = min(len(chart.panels), ACROSS)
    wide = 520 if across == 1 else 340 if across == 2 else 270
    legend = 22 * max((len(panel.lines) for panel in chart.panels), default=0)
    texts = [_legend_text(line) for panel in chart.panels for line in panel.lines]
    longest = max((columns(text) for text in texts), default=0) * LETTER + 44
    wide = max(wide, round(longest)) if len(chart.panels) > 1 else wide
    width = max(LEFT + across * (wide + GAP) + 6, 48 + columns(chart.title) * 11, LEFT + longest + 24)
    down = TALL + 52 + legend + 34  # from one row of panels to the next
    height = TOP + -(-len(chart.panels) // ACROSS) * down - 18
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{_text(chart.title)}" class="harken-chart">',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="24" y="36">{_text(chart.title)}</text>',
        f'<text class="muted" x="24" y="58">{_text(chart.y_label)}</text>',
    ]
    for number, panel in enumerate(chart.panels):
        row, column = divmod(number, ACROSS)
        place = f'<g transform="translate({LEFT + column * (wide + GAP)} {row * down})">'
        parts += [place, *_panel(chart, panel, wide, first=column == 0), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(chart: Chart, panel: Panel, wide: float, first: bool) -> list[str]:
    parts = [f'<text class="name" y="{TOP - 12}">{_text(panel.title)}</text>'] if panel.title else []
    low, high = chart.decades
    for tick in chart.ticks():
        y = TOP + TALL * (1 - (tick - low) / (high - low))
        parts.append(f'<path class="rule" d="M0 {y:.1f}h{wide}"/>')
        if first:
            parts.append(f'<text class="tick end" x="-8" y="{y + 4:.1f}">{power_of_ten(tick)}</text>')
    for distance in chart.distances():
        x = wide * distance / chart.reach
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{TOP + TALL + 18}">{distance}</text>')
    parts.append(f'<path class="axis" d="M0 {TOP + TALL}h{wide}"/>')
    parts.append(f'<text class="muted middle" x="{wide / 2:.1f}" y="{TOP + TALL + 38}">{_text(chart.x_label)}</text>')
    for line in panel.lines:
        parts.append(_line(chart, line, wide))
    for row, line in enumerate(panel.lines):
        y = TOP + TALL + 64 + 22 * row
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        parts.append(f'<path class="line s{_colour(line)}"{dash} d="M0 {y - 4}h24"/>')
        note = f'<tspan class="muted" dx="8">{_text(line.note)}</tspan>' if line.note else ""
        label = _text(cut(line.label, 60))
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
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{_text(line.label)}, distance {distance}: {value:.3g}'
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


def _style() -> str:
    return (
        ".harken-chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}"
        ".harken-chart .title{font-size:18px;font-weight:600}.harken-chart .name{font-size:14px;font-weight:600}"
        ".harken-chart .tick{font-size:11px}.harken-chart .end{text-anchor:end}"
        ".harken-chart .middle{text-anchor:middle}"
        ".harken-chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.harken-chart .rule{stroke-width:1}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    rules = [
        (".paper", "fill", palette.paper),
        ("text", "fill", palette.text),
        (".muted", "fill", palette.muted),
        (".tick", "fill", palette.muted),
        (".rule", "stroke", palette.line),
        (".axis", "stroke", palette.muted),
    ]
    for number, colour in enumerate(palette.series):
        rules += [(f".line.s{number}", "stroke", colour), (f".dots.s{number}", "fill", colour)]
    return "".join(f".harken-chart {name}{{{what}:{css(colour)}}}" for name, what, colour in rules)


def _text(text: str) -> str:
    return escape(printable(text))
