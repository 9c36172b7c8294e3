"""The colours of every picture: one ink on pale cells, laid on thicker where a weight is larger.

A weight w between 0 and 1 is shown as `w * ink + (1 - w) * empty`, so shade is proportional to weight.

>>> LIGHT.shade(0.0), LIGHT.shade(1.0)
((243, 245, 248), (28, 66, 128))
"""

from __future__ import annotations

from dataclasses import dataclass

Colour = tuple[int, int, int]  # red, green, blue, 0 to 255

DEEP = 0.55  # from this weight on, text on a cell is in the colour of the paper
FAINT = 0.05  # below this weight, a number is drawn lightly


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours for one kind of light."""

    paper: Colour
    ink: Colour
    text: Colour
    muted: Colour
    faint: Colour  # numbers that hardly count
    empty: Colour  # a cell of weight 0, so that the grid can be seen
    warm: Colour  # the ink of values below 0
    line: Colour  # axes and rules
    series: tuple[Colour, ...]  # lines that are to be told apart

    def shade(self, weight: float) -> Colour:
        """The colour of a cell; a weight below 0 is laid on in the warm ink."""
        pairs = zip(self.ink if weight >= 0 else self.warm, self.empty, strict=True)
        red, green, blue = (round(abs(weight) * full + (1 - abs(weight)) * none) for full, none in pairs)
        return red, green, blue


LIGHT = Palette(
    paper=(255, 255, 255),
    ink=(28, 66, 128),
    text=(27, 31, 36),
    muted=(98, 107, 118),
    faint=(168, 175, 184),
    empty=(243, 245, 248),
    warm=(176, 78, 24),
    line=(222, 226, 232),
    series=((28, 66, 128), (208, 108, 24), (31, 138, 96), (176, 48, 102), (112, 84, 188), (46, 146, 190)),
)
DARK = Palette(
    paper=(21, 24, 29),
    ink=(143, 189, 255),
    text=(230, 233, 238),
    muted=(150, 160, 172),
    faint=(98, 106, 117),
    empty=(30, 34, 41),
    warm=(255, 164, 110),
    line=(52, 58, 68),
    series=((143, 189, 255), (255, 178, 108), (110, 214, 170), (255, 138, 184), (190, 168, 255), (110, 208, 240)),
)


def css(colour: Colour) -> str:
    """`#1c4280`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
