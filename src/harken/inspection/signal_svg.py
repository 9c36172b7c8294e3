"""A signal and its weights as a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import text
from harken.inspection.palette import Palette
from harken.inspection.svg import Rule, svg
from harken.inspection.words import cut

if TYPE_CHECKING:
    from harken.inspection.signal_weights import SignalWeights

WIDE, STRIP, GAP, LEFT, TOP = 640.0, 54.0, 8.0, 150.0, 56.0


def draw_svg(picture: SignalWeights) -> str:
    """A complete SVG document: a strip for each channel."""
    curves, steps = picture.scaled(), len(picture.frames)
    height = TOP + len(picture.names) * (STRIP + GAP) + 34
    bottom = TOP + len(picture.names) * (STRIP + GAP) - GAP
    parts = []
    each = WIDE / steps
    for step, weight in enumerate(picture.weights):
        if weight >= 0.01:
            parts.append(
                f'<rect class="warm" x="{LEFT + step * each:.2f}" y="{TOP:.0f}" width="{each + 0.05:.2f}" '
                f'height="{bottom - TOP:.0f}" fill-opacity="{0.45 * weight:.3f}"><title>frame {step + 1}: {weight:.3f}'
                "</title></rect>"
            )
    for place, name in enumerate(picture.names):
        top = TOP + place * (STRIP + GAP)
        points = " ".join(
            f"{LEFT + (step + 0.5) * each:.1f},{top + STRIP * (0.94 - 0.88 * value):.1f}"
            for step, value in enumerate(curves[:, place])
        )
        parts.append(f'<text class="name" x="{LEFT - 10:.0f}" y="{top + STRIP / 2:.0f}">{text(cut(name, 16))}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{top + STRIP:.0f}" y2="{top + STRIP:.0f}"/>')
        parts.append(f'<polyline points="{points}"/>')
    parts.append(f'<text class="key muted" x="{LEFT:.0f}" y="{bottom + 22:.0f}">frame 1</text>')
    parts.append(f'<text class="key muted end" x="{LEFT + WIDE:.0f}" y="{bottom + 22:.0f}">frame {steps}</text>')
    looks = {
        ".name": "text-anchor:end;dominant-baseline:central",
        ".key": "font-size:11px",
        "polyline": "fill:none;stroke-width:1.6;stroke-linejoin:round",
    }
    return svg("signal", picture.title, LEFT + WIDE + 24, height, parts, looks, _colours)


def _colours(palette: Palette) -> list[Rule]:
    return [("polyline", "stroke", palette.ink), ("line", "stroke", palette.line)]
