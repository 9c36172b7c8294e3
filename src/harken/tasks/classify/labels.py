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

LABELS = "labels.json"


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
