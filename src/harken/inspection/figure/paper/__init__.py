"""Figures as SVG and PNG, drawn by matplotlib without a screen and without its global state.

Text in an SVG stays text; its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape

import matplotlib

from harken.inspection.figure.palette import DARK, LIGHT, css
from harken.inspection.figure.paper.fonts import advice, choose_fonts, installed_fonts, missing_letters
from harken.inspection.figure.paper.sheet import Drawing, draw_sheet
from harken.inspection.figure.paper.style import FONT, POINT, STYLE
from harken.inspection.figure.spec import Figure
from harken.inspection.figure.text import printable

LARGEST = 6000  # pixels along a side of a PNG
FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"


@contextmanager
def _own_style(fonts: Sequence[str] = ()) -> Iterator[set[int]]:
    """Our settings of matplotlib, with further fonts; gives the letters that none of them has, known at the end."""
    missing: set[int] = set()
    style = {**STYLE, "font.family": [FONT, *fonts]}
    with matplotlib.rc_context(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield missing
    missing |= missing_letters([str(warning.message) for warning in caught])
    for warning in caught:
        if not missing_letters([str(warning.message)]):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def draw_png(figures: Sequence[Figure], dpi: int = 144) -> bytes:
    """The bytes of a PNG file, on light paper; letters that our font lacks are drawn in an installed one."""
    picture, missing = _draw_png(figures, dpi)
    if missing:
        fonts, boxes = choose_fonts(missing, installed_fonts())
        picture = _draw_png(figures, dpi, fonts)[0] if fonts else picture
        if boxes:
            warnings.warn(advice(boxes), stacklevel=2)
    return picture


def _draw_png(figures: Sequence[Figure], dpi: int, fonts: Sequence[str] = ()) -> tuple[bytes, set[int]]:
    file = io.BytesIO()
    with _own_style(fonts) as missing:
        canvas = draw_sheet(figures).canvas
        dpi = min(dpi, int(LARGEST / max(canvas.get_size_inches())))
        canvas.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    return file.getvalue(), missing


def draw_svg(figures: Sequence[Figure]) -> str:
    """A complete SVG document; pointing at a value shows it."""
    file = io.BytesIO()
    with _own_style():
        drawing = draw_sheet(figures)
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        drawing.canvas.savefig(file, format="svg", dpi=72, metadata=nothing)
        hints = hint_areas(drawing)
    return finish_svg(file.getvalue().decode(), [figure.title for figure in figures if figure.title], hints)


def hint_areas(drawing: Drawing) -> str:
    """Invisible areas with a title each, which browsers show when pointed at."""
    height = float(drawing.canvas.get_size_inches()[1]) / POINT
    parts = []
    for axes, left, bottom, right, top, words in drawing.hints:
        corners = axes.transData.transform([(left, bottom), (right, top)])
        (x0, x1), (y0, y1) = sorted(corners[:, 0]), sorted(corners[:, 1])
        grow = max(0.0, 7 - (x1 - x0)) / 2, max(0.0, 7 - (y1 - y0)) / 2  # a point is hard to hit
        side = f'x="{x0 - grow[0]:.1f}" y="{height - y1 - grow[1]:.1f}"'
        size = f'width="{x1 - x0 + 2 * grow[0]:.1f}" height="{y1 - y0 + 2 * grow[1]:.1f}"'
        parts.append(f"<rect {side} {size}><title>{escape(printable(words))}</title></rect>")
    return f'<g class="hints" fill="none" pointer-events="all">{"".join(parts)}</g>\n' if parts else ""


def finish_svg(svg: str, titles: list[str], hints: str) -> str:
    """Drop the prologue of a file and ids that nothing refers to, so that several drawings can stand on one page."""
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r' id="raster[^"]*"', ' class="raster"', drawing)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing))
    drawing = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", drawing)
    drawing = drawing.replace("*{stroke-linejoin", ".harken-figure *{stroke-linejoin")
    drawing = drawing.replace("font-family: 'DejaVu Sans'", f"font-family: {FONTS}")
    drawing = re.sub(r' transform="rotate\(-0 [^"]*"', "", drawing)
    label = escape(printable("; ".join(titles) or "figure"))
    drawing = drawing.replace("<svg ", f'<svg class="harken-figure" role="img" aria-label="{label}" ', 1)
    head, rest = drawing.split(">", 1)
    return f"{head}>\n<style>{_dark_style(drawing)}</style>{rest.rstrip().removesuffix('</svg>')}{hints}</svg>\n"


def _dark_style(drawing: str) -> str:
    """Rules that exchange every colour used for that on dark paper; viewers without them show the light colours."""
    names = ("paper", "text", "muted", "faint", "empty", "line", "ink", "warm")
    pairs = [(getattr(LIGHT, name), getattr(DARK, name)) for name in names]
    pairs += zip(LIGHT.series, DARK.series, strict=True)
    pairs += zip(LIGHT.ramp, DARK.ramp, strict=True)
    for count in range(2, 13):
        pairs += zip(LIGHT.ramp_colours(count), DARK.ramp_colours(count), strict=True)
    swap = {css(light): css(dark) for light, dark in pairs}
    used = sorted({(kind, colour) for kind, colour in re.findall(r"(fill|stroke): (#[0-9a-f]{6})", drawing)})
    rules = "".join(
        f'.harken-figure [style*="{kind}: {colour}"]{{{kind}:{swap[colour]}!important}}'
        for kind, colour in used
        if colour in swap
    )
    return (
        ".harken-figure{max-width:100%;height:auto}@media (prefers-color-scheme:dark){"
        f"{rules}.harken-figure .raster{{filter:invert(1) hue-rotate(180deg)}}}}"
    )
