"""How surprising every token of a text was to a language model: - log p of the token after all before it, in nats.

Tokens stand in the order of the text, lines wrapped, a bar above each: the higher, the less it was expected. A language
model's perplexity is the exponential of the mean of the bars. Shannon (1951); Hale (2001).

>>> print(Surprisal(["the", "cat", "flies"], [0.5, 1.0, 4.0]).to_terminal(width=40, color=False))
the    ███▍                         0.50
cat    ██████▊                      1.00
flies  ███████████████████████████  4.00
mean 1.83 nats, perplexity 6.25
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.inspection.page import text
from harken.inspection.palette import DARK, LIGHT, css
from harken.inspection.picture import Picture
from harken.inspection.svg import svg
from harken.inspection.words import columns, cut, fill, printable

if TYPE_CHECKING:
    from rich.text import Text

EIGHTHS = " ▏▎▍▌▋▊▉"
LONGEST = 24  # columns of a token
WIDE, LETTER, TALL, GAP = 840, 8.6, 56, 4  # pixels: of a line, of a letter, of the highest bar, between tokens
DOWN = TALL + 34  # from one line to the next
LEAST_WIDE = 480.0  # pixels that the words above the bars need
LEAST = 2.0  # nats that the highest bar stands for at least: a text without surprises looks like one


@dataclass(frozen=True)
class Place:
    """Where a token stands in a drawing."""

    x: float
    y: float  # of the foot of its bar
    width: float
    height: float  # of its bar


class Surprisal(Picture):
    """Tokens and their nats, ready to be looked at."""

    def __init__(self, tokens: Sequence[str], nats: Sequence[float], title: str = "Surprisal") -> None:
        """
        Raises:
            UserError: not one number for every token, or numbers that are none.
        """
        if len(tokens) != len(nats):
            raise UserError(f"there are {len(tokens)} tokens and {len(nats)} numbers; give one for each")
        if not tokens or not all(math.isfinite(value) for value in nats):
            raise UserError("surprisal needs at least one token and a finite number for each")
        self.tokens, self.nats, self.title = [str(token) for token in tokens], [float(value) for value in nats], title

    @property
    def summary(self) -> str:
        """The mean in words."""
        mean = sum(self.nats) / len(self.nats)
        return f"mean {mean:.2f} nats, perplexity {math.exp(min(mean, 700)):.2f}"

    @property
    def most(self) -> float:
        """What the highest bar stands for."""
        return max(LEAST, *self.nats)

    def lines(self, width: int, color: bool) -> list[Text]:
        """A line with a bar for every token."""
        from rich.color import Color
        from rich.style import Style
        from rich.text import Text

        label = min(LONGEST, max(columns(shown(token)) for token in self.tokens))
        number = max(len(f"{value:.2f}") for value in self.nats)
        room = max(4, width - label - number - 4)
        drawn = []
        for token, value in zip(self.tokens, self.nats, strict=True):
            full, rest = divmod(round(8 * room * value / self.most), 8)
            bar = ("█" * full + (EIGHTHS[rest] if rest else ""))[:room].ljust(room)
            style = Style(color=Color.from_rgb(*DARK.shade(0.35 + 0.65 * value / self.most))) if color else ""
            line = Text(fill(shown(token), label) + "  ").append(bar, style)
            drawn.append(line.append(f"  {value:{number}.2f}"))
        return [*drawn, Text(self.summary, style="bold" if color else "")]

    def places(self) -> tuple[list[Place], float, float]:
        """Where each token stands, and the width and height of them all together."""
        found, x, y = [], 24.0, 76.0 + TALL
        for token, value in zip(self.tokens, self.nats, strict=True):
            width = max(14.0, columns(cut(shown(token), LONGEST)) * LETTER + 4)
            if x + width > WIDE - 24 and x > 24:
                x, y = 24.0, y + DOWN
            found.append(Place(x, y, width, max(1.0, TALL * value / self.most)))
            x += width + GAP
        edge = max(place.x + place.width for place in found) + 24
        return found, max(edge, LEAST_WIDE), y + 36

    def to_svg(self) -> str:
        """The text with a bar above every token; pointing at one shows its number."""
        places, width, height = self.places()
        about = f"{self.summary}; the highest bar is {self.most:.1f} nats"
        parts = [f'<text class="muted" x="24" y="58">{text(about)}</text>']
        for token, value, place in zip(self.tokens, self.nats, places, strict=True):
            middle = place.x + place.width / 2
            parts.append(
                f"<g><title>{text(shown(token))}: {value:.3f} nats, p = {math.exp(-value):.4f}</title>"
                f'<rect class="ink" x="{place.x:.1f}" y="{place.y - place.height:.1f}" width="{place.width:.1f}" '
                f'height="{place.height:.1f}" fill-opacity="{0.3 + 0.7 * value / self.most:.2f}"/>'
                f'<text class="token" x="{middle:.1f}" y="{place.y + 16:.1f}">'
                f"{text(cut(shown(token), LONGEST))}</text></g>"
            )
        looks = {".token": "font-size:13px;text-anchor:middle"}
        label = f"{self.title}: {self.summary}"
        return svg("surprisal", self.title, width, height, parts, looks, label=label)

    def to_png(self) -> bytes:
        """The same drawing in dots, by matplotlib."""
        from matplotlib.patches import Rectangle

        from harken.inspection.png import WORDS, encode, sheet

        places, width, height = self.places()
        figure = sheet(width / 100, height / 100)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        about = f"{self.summary}; the highest bar is {self.most:.1f} nats"
        axes.text(24, 58, about, fontsize=8.5, **WORDS)
        for token, value, place in zip(self.tokens, self.nats, places, strict=True):
            colour = css(LIGHT.shade(0.3 + 0.7 * value / self.most))
            axes.add_patch(Rectangle((place.x, place.y - place.height), place.width, place.height, color=colour, lw=0))
            label = cut(shown(token), LONGEST)
            axes.text(place.x + place.width / 2, place.y + 16, label, fontsize=8.5, ha="center", **WORDS)
        return encode(figure, self.title)


def shown(token: str) -> str:
    """A token that can be seen: a space as ␣."""
    return printable(token.replace(" ", "␣")) or "∅"
