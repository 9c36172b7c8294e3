"""The labels of a model, in labels.json: a list whose places are the numbers the network knows.

>>> in_order(["10", "9", "b", "a"])
['9', '10', 'a', 'b']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from harken.errors import UserError

LABELS, FINE = "labels.json", "fine-labels.json"


def in_order(labels: Iterable[str]) -> list[str]:
    """Each once: numbers by value, then words by letter."""
    return sorted(set(labels), key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))


def save_labels(folder: Path, labels: Sequence[str]) -> None:
    """Write the list."""
    (folder / LABELS).write_text(json.dumps(list(labels), ensure_ascii=False) + "\n", encoding="utf-8")


def load_labels(folder: Path) -> list[str]:
    """Read it back.

    Raises:
        UserError: it is missing, or no list of texts.
    """
    try:
        labels = json.loads((folder / LABELS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UserError(f"{folder / LABELS} is missing or damaged, so the model cannot name its labels; copy it anew")
    return labels


def save_fine(folder: Path, names: Sequence[str], merged: Sequence[int]) -> None:
    """Write the fine labels of a network that learns them, each with the place of the label it belongs to."""
    text = json.dumps(dict(zip(names, merged, strict=True)), ensure_ascii=False, indent=0)
    (folder / FINE).write_text(text + "\n", encoding="utf-8")


def load_fine(folder: Path, count: int) -> tuple[list[str], list[int]]:
    """What `save_fine` wrote: names, and places among `count` labels.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        found = json.loads((folder / FINE).read_text(encoding="utf-8"))
        names, merged = list(found), [int(place) for place in found.values()]
    except (OSError, ValueError, AttributeError, TypeError):
        merged = []
    if set(merged) != set(range(count)):
        raise UserError(f"{folder / FINE} is missing or damaged, so the model cannot merge its labels; copy it anew")
    return names, merged


def merge_fine(fine: Sequence[str], labels: Sequence[str], known: Sequence[str]) -> tuple[list[str], list[int]]:
    """The fine labels in order, and for each the place of the label it goes with.

    Raises:
        UserError: one fine label goes with two.

    >>> merge_fine(["DESC:def", "HUM:ind", "DESC:manner"], ["DESC", "HUM", "DESC"], ["DESC", "HUM"])
    (['DESC:def', 'DESC:manner', 'HUM:ind'], [0, 0, 1])
    """
    owner: dict[str, str] = {}
    for one, label in zip(fine, labels, strict=True):
        if owner.setdefault(one, label) != label:
            raise UserError(f"the label {one!r} belongs to {owner[one]!r} here and to {label!r} there; fix the data")
    names = in_order(owner)
    places = {label: place for place, label in enumerate(known)}
    return names, [places[owner[name]] for name in names]


def numbers_of(labels: Sequence[str], known: Sequence[str], where: str) -> list[int]:
    """The place of every label.

    Raises:
        UserError: one that training has not seen.
    """
    places = {label: place for place, label in enumerate(known)}
    for label in labels:
        if label not in places:
            near = get_close_matches(label, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the model knows {', '.join(known[:8])}"
            raise UserError(f"{where} has the label {label!r}, which training has not; {hint}")
    return [places[label] for label in labels]
