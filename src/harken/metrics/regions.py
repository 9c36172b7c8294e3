"""Whether a captioner looked at the thing it named: its maps against gold boxes.

A noun of a caption is right if its phrase names a thing of the picture and the region it looked at most, by its centre,
lies in that thing's box. A noun whose phrase fits no thing ("small red star" where there is none) is wrong wherever it
looked. Beside it stand the same for the centre of mass of the map, and for a region drawn at random (chance).

>>> from harken.data.images.captioned import Region
>>> regions = (Region("red dot", (0.0, 0.0, 0.5, 0.5)),)
>>> maps = np.array([[[0.3, 0.2], [0.2, 0.3]], [[0.1, 0.1], [0.1, 0.7]], [[0.7, 0.1], [0.1, 0.1]]])
>>> look_at_nouns(["a", "red", "dot"], maps, regions, {"dot"})
[Look(word=2, phrase=True, argmax=True, centre=True, chance=0.25)]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from harken.data.images.captioned import Region


class Look(NamedTuple):
    """Where one noun looked."""

    word: int  # its place in the caption
    phrase: bool  # whether its phrase names a thing of the picture
    argmax: bool  # whether the centre of the region it looked at most lies in that thing's box
    centre: bool  # whether the centre of mass of its map does
    chance: float  # share of regions whose centre does


def look_at_nouns(
    words: Sequence[str], maps: np.ndarray, regions: Sequence[Region], nouns: Collection[str]
) -> list[Look]:
    """One entry for every noun of the caption; maps (T, rows, columns)."""
    rows, columns = maps.shape[1:]
    x, y = (np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows
    looks = []
    for index, word in enumerate(words):
        if word not in nouns:
            continue
        named = [region for region in regions if _ends_with(words[: index + 1], region.phrase.split())]
        weights = maps[index] / max(float(maps[index].sum()), 1e-12)
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        middle = float((weights.sum(0) * x).sum()), float((weights.sum(1) * y).sum())
        inside = [np.mean([[region.holds(a, b) for a in x] for b in y]) for region in named]
        looks.append(
            Look(
                index,
                bool(named),
                any(region.holds(float(x[column]), float(y[row])) for region in named),
                any(region.holds(*middle) for region in named),
                float(max(inside, default=0.0)),
            )
        )
    return looks


def _ends_with(words: Sequence[str], phrase: Sequence[str]) -> bool:
    return list(words[-len(phrase) :]) == list(phrase)
