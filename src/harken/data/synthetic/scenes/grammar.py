"""What is said of a scene: one noun phrase a thing, and the relations of the first to the others.

    caption   phrase                                     a small red circle
              phrase relation phrase                     a small red circle left of a large blue square
              phrase relation phrase and relation phrase a star left of a ... square and above a ... cross

Any thing may come first and the others follow in any order, so a scene of N things has N! right captions. The first
of them begins as one does: with what is large, and from left to right.

>>> from harken.data.synthetic.scenes.scene import Thing
>>> things = [Thing("small", "red", "circle", 10, 30, 6, 0.0), Thing("large", "blue", "square", 40, 34, 12, 0.0)]
>>> captions_of(things)
['a large blue square right of a small red circle', 'a small red circle left of a large blue square']
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.data.synthetic.scenes.scene import Thing

CLEAR = 1.4  # one distance has to be so many times the other for a relation to be beyond doubt


def relation(first: Thing, second: Thing) -> str | None:
    """Where the first is, seen from the second; None where it lies on a slant and either word would do."""
    right, down = first.x - second.x, first.y - second.y
    if abs(right) >= CLEAR * abs(down):
        return "left of" if right < 0 else "right of"
    if abs(down) >= CLEAR * abs(right):
        return "above" if down < 0 else "below"
    return None


def captions_of(things: Sequence[Thing]) -> list[str]:
    """Every right caption of things of which each pair is in a clear relation."""
    usual = sorted(things, key=lambda thing: (thing.size != "large", thing.x))
    return [_caption(order) for order in permutations(usual)]


def _caption(things: Sequence[Thing]) -> str:
    first, *others = things
    joined = " and ".join(f"{relation(first, other)} a {other.phrase}" for other in others)
    return f"a {first.phrase} {joined}".strip()
