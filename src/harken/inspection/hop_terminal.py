"""The attention of hops as lines of text: one line a fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from harken.inspection.terminal import cell_of
from harken.inspection.words import columns, cut, fill, printable

if TYPE_CHECKING:
    from harken.inspection.hop_map import HopMap

DOT = "●"


def lines(picture: HopMap, width: int, color: bool) -> list[Text]:
    """At most `width` columns; facts are cut before hops are."""
    cell = cell_of(color)
    across = 7 * len(picture.names)
    label = min(max((columns(printable(fact)) for fact in picture.facts), default=1), max(8, width - across - 2))
    drawn = [Text(cut(picture.heading, width), style="bold" if color else "")]
    drawn.append(Text(" " * (label + 2) + "".join(f"  {fill(name, 5)}" for name in picture.names)))
    for row, fact in enumerate(picture.facts):
        line = Text(f"{DOT if picture.marked(row) else ' '} {fill(fact, label)}")
        for weight in picture.hops[:, row]:
            line.append("  ")
            line.append(*cell(float(weight), 5))
        drawn.append(line)
    if picture.needed is not None:
        drawn.append(Text(f"{DOT} needed"))
    return drawn
