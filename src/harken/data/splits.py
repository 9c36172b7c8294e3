"""Held-out pairs that share no source sentence with what is left.

The same sentence often stands on several lines with several translations. Drawing lines at random would put one
translation in training and another in the test, so whole groups of lines with one source (case and spacing aside)
are drawn, in an order fixed by the seed.

>>> pairs = [Pair("go", "va"), Pair("Go", "allez"), Pair("run", "cours"), Pair("stop", "halte")]
>>> held_out, rest = split_off(pairs, 1, seed=1)
>>> len(held_out), len(rest)
(1, 3)
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from harken.data.text.pairs import Pair

DEFAULT_COUNT, DEFAULT_SHARE = 1000, 0.05


def held_out_count(share: int | float | None, total: int) -> int:
    """How many of `total` pairs to hold out: a count, a fraction, or by default 1000 or 5%, the smaller.

    >>> held_out_count(None, 500), held_out_count(None, 10**6), held_out_count(0.1, 500), held_out_count(7, 500)
    (25, 1000, 50, 7)
    """
    if share is None:
        return min(DEFAULT_COUNT, max(1, int(total * DEFAULT_SHARE)))
    return share if isinstance(share, int) else max(1, round(total * share))


def split_off(pairs: Sequence[Pair], count: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(held out, rest), both in the order of `pairs`; at most `count` held out, fewer if no more groups fit."""
    groups: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(" ".join(pair.source.split()).casefold(), []).append(index)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    chosen: set[int] = set()
    for group in order:
        if len(chosen) == count:
            break
        if len(chosen) + len(group) <= count:
            chosen.update(group)
    held_out = [pair for index, pair in enumerate(pairs) if index in chosen]
    return held_out, [pair for index, pair in enumerate(pairs) if index not in chosen]
