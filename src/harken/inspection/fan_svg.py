"""A forecast as a drawing."""

from __future__ import annotations

import numpy as np

from harken.inspection.fan import FanPicture
from harken.inspection.page import text
from harken.inspection.palette import Palette
from harken.inspection.svg import Rule, svg
from harken.inspection.words import columns

WIDE, TALL = 640, 260
LEFT, TOP = 74, 62
LOOKS = {
    ".tick": "font-size:11px",
    "path": "fill:none;stroke-linejoin:round;stroke-linecap:round",
    ".past": "stroke-width:1.6",
    ".median": "stroke-width:2.4",
    ".truth": "stroke-width:1.6;stroke-dasharray:4 3",
    ".now": "stroke-dasharray:2 3",
    ".band": "fill-opacity:.25",
}


def draw_svg(picture: FanPicture) -> str:
    """A complete SVG document."""
    parts = [
        f'<g transform="translate({LEFT} {TOP})">',
        *_axes(picture),
        *_shade(picture),
        *_curves(picture),
        *_legend(picture),
        "</g>",
    ]
    return svg("fan", picture.title, LEFT + WIDE + 30, TOP + TALL + 62, parts, LOOKS, _colours)


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
        parts.append(f'<text class="tick muted end" x="-8" y="{y + 4:.1f}">{tick:g}</text>')
    parts += _labels(picture)
    now = _x(picture, len(picture.past) - 0.5)
    parts.append(f'<path class="now" d="M{now:.1f} 0V{TALL}"/><path class="axis" d="M0 {TALL}h{WIDE}"/>')
    return parts


def _labels(picture: FanPicture) -> list[str]:
    """Names of some steps, within the margins, none on another."""
    half = max(columns(picture.label(step)) for step in range(picture.steps)) * 3.4
    parts, free = [], float(WIDE + 24)
    for step in reversed(picture.label_places(max(2, min(5, int(WIDE / (2 * half + 12)))))):
        x = min(max(_x(picture, step), half - LEFT + 24), WIDE + 24 - half)
        if x + half <= free:
            parts.append(
                f'<text class="tick muted middle" x="{x:.1f}" y="{TALL + 18}">{text(picture.label(step))}</text>'
            )
            free = x - half - 6
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
                f'<rect class="ink" x="{_x(picture, step) - thick / 2:.1f}" y="{y:.1f}" width="{thick:.2f}" '
                f'height="{TALL - y:.1f}" fill-opacity="{0.75 * weight / picture.shade.max():.3f}">'
                f"<title>{text(picture.label(step))}: weight {weight:.3f}</title></rect>"
            )
    return parts


def _curves(picture: FanPicture) -> list[str]:
    start = len(picture.past)
    parts = [_path(picture, "past", picture.past, 0)]
    for _, low, high in picture.bands:
        edge: list[tuple[float, float]] = [(start + step, value) for step, value in enumerate(high)]
        edge += [(start + step, value) for step, value in reversed(list(enumerate(low)))]
        if len(high) == 1:  # a single step is a bar
            edge = [
                (start + side, value) for side, value in ((-0.1, high[0]), (0, high[0]), (0, low[0]), (-0.1, low[0]))
            ]
        points = " ".join(f"{_x(picture, step):.1f},{_y(picture, value):.1f}" for step, value in edge)
        parts.append(f'<polygon class="band" points="{points}"/>')
    parts.append(_path(picture, "median", picture.median, start))
    if picture.truth is not None:
        parts.append(_path(picture, "truth", picture.truth, start))
    dots = "".join(
        f'<circle cx="{_x(picture, start + step):.1f}" cy="{_y(picture, value):.1f}" r="3"><title>'
        f"{text(picture.label(start + step))}: {value:.4g}</title></circle>"
        for step, value in enumerate(picture.median)
    )
    return [*parts, f'<g class="dots">{dots}</g>']


def _path(picture: FanPicture, kind: str, values: np.ndarray, start: int) -> str:
    points = [f"{_x(picture, start + step):.1f} {_y(picture, value):.1f}" for step, value in enumerate(values)]
    dot = "h0" if len(points) == 1 else ""  # which round ends make visible
    return f'<path class="{kind}" d="M{"L".join(points)}{dot}"/>' if points else ""


def _legend(picture: FanPicture) -> list[str]:
    entries = [("past", "past"), ("median", "forecast")]
    entries += [("band", f"quantiles {name}") for name, _, _ in picture.bands[:1]]
    entries += [("truth", "what came")] if picture.truth is not None else []
    entries += [("ink", "how much it counts")] if picture.shade is not None else []
    parts, x = [], 0.0
    for kind, name in entries:
        mark = f'<rect class="{kind}" x="{x}" y="{TALL + 37}" width="22" height="10" fill-opacity="0.5"/>'
        line = f'<path class="{kind}" d="M{x} {TALL + 42}h22"/>'
        parts.append(mark if kind in ("band", "ink") else line)
        parts.append(f'<text class="label" x="{x + 28}" y="{TALL + 46}">{text(name)}</text>')
        x += 28 + len(name) * 6.9 + 20
    return parts


def _colours(palette: Palette) -> list[Rule]:
    first, second = palette.series[0], palette.series[1]
    return [
        (".now", "stroke", palette.muted),
        (".past", "stroke", palette.text),
        (".median", "stroke", first),
        (".dots", "fill", first),
        (".band", "fill", first),
        (".truth", "stroke", second),
    ]
