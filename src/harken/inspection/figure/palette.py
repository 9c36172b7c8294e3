"""The colours of every figure, for light and dark, chosen to be told apart by colour-blind readers.

A weight w between 0 and 1 is shown as `w * ink + (1 - w) * empty`, so shade is proportional to weight; values below 0
use a second, warm ink. The series colours follow Okabe and Ito (2008), "Color Universal Design".

>>> css(LIGHT.shade(0.0)), css(LIGHT.shade(1.0)), css(LIGHT.shade(-1.0))
('#f3f5f8', '#1c4280', '#b04e18')
"""

from __future__ import annotations

from dataclasses import dataclass

Colour = tuple[int, int, int]  # red, green, blue, 0 to 255

DEEP = 0.55  # from this strength on, text on a cell is in the colour of the paper
FAINT = 0.05  # below this strength, a number is drawn lightly


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours on light or on dark paper."""

    paper: Colour
    text: Colour
    muted: Colour
    faint: Colour  # numbers close to zero
    empty: Colour  # a cell of weight 0, so that the grid can be seen
    line: Colour  # grid lines and rules
    ink: Colour
    warm: Colour  # the ink of values below 0
    series: tuple[Colour, ...]
    ramp: tuple[Colour, ...]  # for series that are steps of one quantity

    def shade(self, strength: float) -> Colour:
        """The colour of a cell of strength -1 to 1."""
        return mix(self.empty, self.ink if strength >= 0 else self.warm, abs(strength))

    def ramp_colours(self, count: int) -> list[Colour]:
        """`count` colours along the ramp."""
        last = len(self.ramp) - 1
        positions = [last * index / max(count - 1, 1) for index in range(count)]
        return [mix(self.ramp[int(at)], self.ramp[min(int(at) + 1, last)], at - int(at)) for at in positions]


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """`share` of the second colour over the first."""
    red, green, blue = (round((1 - share) * a + share * b) for a, b in zip(first, second, strict=True))
    return red, green, blue


def css(colour: Colour) -> str:
    """`#1c4280`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _colour(code: str) -> Colour:
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)


def _colours(codes: str) -> tuple[Colour, ...]:
    return tuple(map(_colour, codes.split()))


LIGHT = Palette(
    paper=_colour("ffffff"),
    text=_colour("1b1f24"),
    muted=_colour("626b76"),
    faint=_colour("a8afb8"),
    empty=_colour("f3f5f8"),
    line=_colour("dee2e8"),
    ink=_colour("1c4280"),
    warm=_colour("b04e18"),
    series=_colours("1c4280 d55e00 00946c be5c94 4aa8de da9400 7054bc 6e6e6e"),
    ramp=_colours("f2b34b e4743a c2395a 7f2a84 2f2470"),
)
DARK = Palette(
    paper=_colour("15181d"),
    text=_colour("e6e9ee"),
    muted=_colour("96a0ac"),
    faint=_colour("626a75"),
    empty=_colour("21262e"),
    line=_colour("343a44"),
    ink=_colour("8fbdff"),
    warm=_colour("ffa46e"),
    series=_colours("8fbdff ff8e4a 46d6a6 f6a0d0 78d8ff ffd05c bea8ff b4b4b4"),
    ramp=_colours("ffd682 ffa068 f67692 ce80d6 a096f6"),
)
