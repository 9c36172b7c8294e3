"""A forecast as a drawing, and as a page with its numbers: no library, no script, light and dark."""

from __future__ import annotations

from html import escape

import numpy as np

from harken.inspection.fan import FanPicture
from harken.inspection.html import asset, text
from harken.inspection.palette import DARK, LIGHT, Palette, css
from harken.inspection.words import columns, printable

WIDE, TALL = 640, 260
LEFT, TOP = 74, 62


def draw_svg(picture: FanPicture) -> str:
    """A complete SVG document."""
    width = max(LEFT + WIDE + 30, 48 + columns(picture.title) * 11)
    height = TOP + TALL + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{_text(picture.title)}" class="harken-fan">',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="24" y="36">{_text(picture.title)}</text>',
        f'<g transform="translate({LEFT} {TOP})">',
        *_axes(picture),
        *_shade(picture),
        *_curves(picture),
        *_legend(picture),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(picture: FanPicture, step: float) -> float:
    return WIDE * step / max(picture.steps - 1, 1)


def _y(picture: FanPicture, value: float) -> float:
    low, high = picture.range
    return TALL * (1 - (min(max(float(value), low), high) - low) / (high - low))


def _axes(picture: FanPicture) -> list[str]:
    parts = []
    for tick in picture.ticks():
        y = _y(picture, tick)
        parts.append(f'<path class="rule" d="M0 {y:.1f}h{WIDE}"/>')
        parts.append(f'<text class="tick end" x="-8" y="{y + 4:.1f}">{tick:g}</text>')
    for step in picture.label_places():
        label = _text(picture.label(step))
        parts.append(f'<text class="tick middle" x="{_x(picture, step):.1f}" y="{TALL + 18}">{label}</text>')
    now = _x(picture, len(picture.past) - 0.5)
    parts.append(f'<path class="now" d="M{now:.1f} 0V{TALL}"/><path class="axis" d="M0 {TALL}h{WIDE}"/>')
    return parts


def _shade(picture: FanPicture) -> list[str]:
    """How much each step of the past counts, as columns that reach from below to the curve."""
    if picture.shade is None or not len(picture.shade) or picture.shade.max() <= 0:
        return []
    thick = _x(picture, 1)
    parts = []
    for step, weight in enumerate(picture.shade):
        if weight > 0:
            y = _y(picture, picture.past[step])
            parts.append(
                f'<rect class="look" x="{_x(picture, step) - thick / 2:.1f}" y="{y:.1f}" width="{thick:.2f}" '
                f'height="{TALL - y:.1f}" fill-opacity="{0.75 * weight / picture.shade.max():.3f}">'
                f"<title>{_text(picture.label(step))}: weight {weight:.3f}</title></rect>"
            )
    return parts


def _curves(picture: FanPicture) -> list[str]:
    start = len(picture.past)
    parts = [_path(picture, "past", picture.past, 0)]
    for _, low, high in picture.bands:
        edge = [(start + step, value) for step, value in enumerate(high)]
        edge += [(start + step, value) for step, value in reversed(list(enumerate(low)))]
        points = " ".join(f"{_x(picture, step):.1f},{_y(picture, value):.1f}" for step, value in edge)
        parts.append(f'<polygon class="band" points="{points}"/>')
    parts.append(_path(picture, "median", picture.median, start))
    if picture.truth is not None:
        parts.append(_path(picture, "truth", picture.truth, start))
    dots = "".join(
        f'<circle cx="{_x(picture, start + step):.1f}" cy="{_y(picture, value):.1f}" r="3"><title>'
        f"{_text(picture.label(start + step))}: {value:.4g}</title></circle>"
        for step, value in enumerate(picture.median)
    )
    return [*parts, f'<g class="dots">{dots}</g>']


def _path(picture: FanPicture, kind: str, values: np.ndarray, start: int) -> str:
    points = [f"{_x(picture, start + step):.1f} {_y(picture, value):.1f}" for step, value in enumerate(values)]
    return f'<path class="{kind}" d="M{"L".join(points)}"/>' if points else ""


def _legend(picture: FanPicture) -> list[str]:
    entries = [("past", "past"), ("median", "forecast")]
    entries += [("band", f"quantiles {name}") for name, _, _ in picture.bands[:1]]
    entries += [("truth", "what came")] if picture.truth is not None else []
    entries += [("look", "how much it counts")] if picture.shade is not None else []
    parts, x = [], 0.0
    for kind, name in entries:
        mark = f'<rect class="{kind}" x="{x}" y="{TALL + 37}" width="22" height="10" fill-opacity="0.5"/>'
        line = f'<path class="{kind}" d="M{x} {TALL + 42}h22"/>'
        parts.append(mark if kind in ("band", "look") else line)
        parts.append(f'<text class="label" x="{x + 28}" y="{TALL + 46}">{_text(name)}</text>')
        x += 28 + len(name) * 6.9 + 20
    return parts


def page(picture: FanPicture) -> str:
    """A whole HTML document, complete in itself."""
    others = [level for level in picture.levels if level != 0.5]
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in ["step", "forecast", *(f"q{q:g}" for q in others)])
    rows = []
    for step, values in enumerate(picture.values):
        numbers = [picture.median[step], *(values[picture.levels.index(level)] for level in others)]
        cells = "".join(f'<td class="number">{number:.4g}</td>' for number in numbers)
        rows.append(f'<tr><th scope="row">{text(picture.label(len(picture.past) + step))}</th>{cells}</tr>')
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(picture.title)}</title>\n{asset('page_style')}</head>\n"
        f'<body class="harken-page">\n<main><div class="scroll">{draw_svg(picture)}</div>'
        f'<div class="scroll">{table}</div></main>\n</body>\n</html>\n'
    )


def _style() -> str:
    return (
        ".harken-fan{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}"
        ".harken-fan .title{font-size:18px;font-weight:600}.harken-fan .tick{font-size:11px}"
        ".harken-fan .end{text-anchor:end}.harken-fan .middle{text-anchor:middle}"
        ".harken-fan path{fill:none;stroke-linejoin:round}.harken-fan .past{stroke-width:1.6}"
        ".harken-fan .median{stroke-width:2.4}.harken-fan .truth{stroke-width:1.6;stroke-dasharray:4 3}"
        ".harken-fan .now{stroke-dasharray:2 3}.harken-fan .band{fill-opacity:.25}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    first, second = palette.series[0], palette.series[1]
    rules = [
        (".paper", "fill", palette.paper),
        ("text", "fill", palette.text),
        (".tick", "fill", palette.muted),
        (".rule", "stroke", palette.line),
        (".axis", "stroke", palette.muted),
        (".now", "stroke", palette.muted),
        (".past", "stroke", palette.text),
        (".median", "stroke", first),
        (".dots", "fill", first),
        (".band", "fill", first),
        (".truth", "stroke", second),
        (".look", "fill", palette.ink),
    ]
    return "".join(f".harken-fan {name}{{{what}:{css(colour)}}}" for name, what, colour in rules)


def _text(content: str) -> str:
    return escape(printable(content))
