"""What all drawings share: paper, a title of as many lines as it needs, the reader's font, colours for light and dark.

Drawings are written line by line: no library, no script. Shade is the opacity of one ink over the paper, so the same
drawing serves light and dark.

>>> drawn = svg("example", "A title", 200, 90, ['<rect class="ink" y="60" width="9" height="9"/>'])
>>> drawn.splitlines()[0]
'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 90" width="200" height="90" role="img" aria-label="A title" \
class="harken-example">'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harken.inspection.page import text
from harken.inspection.palette import DARK, DEEP, FAINT, LIGHT, Colour, Palette, css
from harken.inspection.words import breadth, wrap

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
LETTER = 0.62  # the width of a letter as a share of the font's size, on the safe side
TITLE = 18  # the size of a title, which is bold
LINE = 24  # pixels from one line of a title to the next
BROAD = 620.0  # pixels that a title may ask for; it goes on in a next line then

Rule = tuple[str, str, Colour]  # selector, property, colour


def svg(
    kind: str,
    title: str,
    width: float,
    height: float,
    parts: Iterable[str],
    looks: Mapping[str, str] | None = None,
    colours: Callable[[Palette], list[Rule]] = lambda palette: [],
    label: str = "",
    top: float = 0.0,
) -> str:
    """A complete SVG document, `harken-{kind}` its class; of a long title, all lines but the last lie above 0.

    Args:
        height: up to where it is drawn, from 0 on; the title stands at 36.
        looks: selector -> declarations, besides those that all drawings have.
        colours: the same for what has a colour.
        label: what is read aloud; the title where nothing is said.
        top: where the drawing begins, if something above is left out.
    """
    width = max(width, min(BROAD, 48 + TITLE * breadth(title)))
    lines = wrap(title, (width - 48) / TITLE, breadth) if title else []
    top -= LINE * max(len(lines) - 1, 0)
    drawn = [
        f'<text class="title" x="24" y="{36 - LINE * (len(lines) - 1 - number)}">{text(line)}</text>'
        for number, line in enumerate(lines)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:.0f} {width:.0f} {height - top:.0f}" '
        f'width="{width:.0f}" height="{height - top:.0f}" role="img" aria-label="{text(label or title)}" '
        f'class="harken-{kind}">'
    )
    paper = f'<rect class="paper" y="{top:.0f}" width="{width:.0f}" height="{height - top:.0f}"/>'
    return "\n".join([head, f"<style>{_style(kind, looks or {}, colours)}</style>", paper, *drawn, *parts, "</svg>\n"])


def shaded_cell(x: float, y: float, wide: float, tall: float, weight: float, hint: str, number: bool = True) -> str:
    """A rectangle with a weight from 0 to 1 as its shade, and as a number if wanted; pointing at it gives the hint."""
    side = f'x="{x:.1f}" y="{y:.1f}" width="{wide - 1:g}" height="{tall - 1:g}"'
    drawn = f'<g><title>{text(hint)}</title><rect class="empty" {side}/>'
    if weight >= 0.001:
        drawn += f'<rect class="ink" {side} fill-opacity="{weight:.3f}"/>'
    if number and weight >= 0.005:
        kind = "number deep" if weight >= DEEP else "number" if weight >= FAINT else "number faint"
        middle = f'x="{x + (wide - 1) / 2:.1f}" y="{y + (tall - 1) / 2:.1f}"'
        drawn += f'<text class="{kind}" {middle}>{weight:.2f}</text>'
    return drawn + "</g>"


def _style(kind: str, looks: Mapping[str, str], colours: Callable[[Palette], list[Rule]]) -> str:
    shared = {
        "": f"font-family:{FONT};font-size:12px",
        ".title": f"font-size:{TITLE}px;font-weight:600",
        ".number": "font-size:11px;text-anchor:middle;dominant-baseline:central",
        ".end": "text-anchor:end",
        ".middle": "text-anchor:middle",
    }
    rules = "".join(f"{_selector(kind, name)}{{{look}}}" for name, look in (shared | dict(looks)).items())
    light, dark = (
        "".join(
            f"{_selector(kind, name)}{{{what}:{css(colour)}}}"
            for name, what, colour in [*_shared_colours(palette), *colours(palette)]
        )
        for palette in (LIGHT, DARK)
    )
    return f"{rules}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _selector(kind: str, name: str) -> str:
    return f".harken-{kind} {name}".rstrip()


def _shared_colours(palette: Palette) -> list[Rule]:
    return [
        (".paper", "fill", palette.paper),
        ("text", "fill", palette.text),
        (".ink", "fill", palette.ink),
        (".warm", "fill", palette.warm),
        (".empty", "fill", palette.empty),
        (".muted", "fill", palette.muted),
        (".faint", "fill", palette.faint),
        (".deep", "fill", palette.paper),
        (".rule", "stroke", palette.line),
        (".axis", "stroke", palette.muted),
    ]
