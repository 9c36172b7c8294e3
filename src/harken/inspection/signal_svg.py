"""A signal and its weights as a drawing, written line by line."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from harken.inspection.palette import DARK, LIGHT, Palette, css
from harken.inspection.words import columns, cut, printable

if TYPE_CHECKING:
    from harken.inspection.signal_weights import SignalWeights

WIDE, STRIP, GAP, LEFT, TOP = 640.0, 54.0, 8.0, 120.0, 56.0
LETTER = 11


def draw_svg(picture: SignalWeights) -> str:
    """A complete SVG document: a strip for each channel."""
    curves, steps = picture.scaled(), len(picture.frames)
    width = max(LEFT + WIDE + 24, 48 + columns(picture.title) * LETTER)
    height = TOP + len(picture.names) * (STRIP + GAP) + 34
    bottom = TOP + len(picture.names) * (STRIP + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{_text(picture.title)}" class="harken-signal">',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="24" y="34">{_text(picture.title)}</text>',
    ]
    each = WIDE / steps
    for step, weight in enumerate(picture.weights):
        if weight >= 0.01:
            parts.append(
                f'<rect class="shade" x="{LEFT + step * each:.2f}" y="{TOP:.0f}" width="{each + 0.05:.2f}" '
                f'height="{bottom - TOP:.0f}" fill-opacity="{0.45 * weight:.3f}"><title>frame {step + 1}: {weight:.3f}'
                "</title></rect>"
            )
    for place, name in enumerate(picture.names):
        top = TOP + place * (STRIP + GAP)
        points = " ".join(
            f"{LEFT + (step + 0.5) * each:.1f},{top + STRIP * (0.94 - 0.88 * value):.1f}"
            for step, value in enumerate(curves[:, place])
        )
        parts.append(f'<text class="name" x="{LEFT - 10:.0f}" y="{top + STRIP / 2:.0f}">{_text(cut(name, 16))}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{top + STRIP:.0f}" y2="{top + STRIP:.0f}"/>')
        parts.append(f'<polyline points="{points}"/>')
    parts.append(f'<text class="key" x="{LEFT:.0f}" y="{bottom + 22:.0f}">frame 1</text>')
    parts.append(f'<text class="key end" x="{LEFT + WIDE:.0f}" y="{bottom + 22:.0f}">frame {steps}</text></svg>')
    return "\n".join(parts) + "\n"


def page(picture: SignalWeights) -> str:
    """The drawing as a whole HTML document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<title>{_text(picture.title)}</title></head>\n<body style="margin:0">\n{draw_svg(picture)}</body></html>\n'
    )


def _style() -> str:
    return (
        ".harken-signal{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
        ".harken-signal .title{font-size:18px;font-weight:600}.harken-signal .name{font-size:12px;text-anchor:end;"
        "dominant-baseline:central}.harken-signal .key{font-size:11px}.harken-signal .end{text-anchor:end}"
        ".harken-signal polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    fills = ((".paper", palette.paper), (".shade", palette.warm), ("text", palette.text), (".key", palette.muted))
    lines = (("polyline", palette.ink), ("line", palette.line))
    return "".join(f".harken-signal {name}{{fill:{css(colour)}}}" for name, colour in fills) + "".join(
        f".harken-signal {name}{{stroke:{css(colour)}}}" for name, colour in lines
    )


def _text(text: str) -> str:
    return escape(printable(text))
