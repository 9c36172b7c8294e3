"""The labels of a model, in labels.json: a list whose places are the numbers the network knows.

>>> in_order(["10", "9", "b", "a"])
['9', '10', 'a', 'b']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from harken.data.text.examples import Labelled
from harken.errors import UserError
from harken.tasks.artifacts import Artifact, JsonArtifact


@dataclass(frozen=True)
class Labels:
    """The labels of a classifier: its classes, or finer labels, each with the place of the class it belongs to."""

    classes: list[str]
    fine: dict[str, int] | None = None

    @classmethod
    def learn(cls, train: Labelled, fine: bool) -> Labels:
        """The labels of the training examples.

        Raises:
            UserError: fine labels are asked for, and the data has none.
        """
        counts = train.label_counts()
        classes = in_order(label for label, _ in counts)
        if not fine:
            return cls(classes)
        if train.fine is None:
            raise UserError(
                "classifier.fine is for labels that data.label_until or data.names merge, but neither is given; set "
                "one, or leave classifier.fine out"
            )
        merged = merge_fine([fine for _, fine in counts], [label for label, _ in counts], classes)
        return cls(classes, dict(zip(*merged, strict=True)))

    @property
    def names(self) -> list[str]:
        """The labels that the network has outputs for, in their order."""
        return self.classes if self.fine is None else list(self.fine)

    @property
    def merged(self) -> list[int] | None:
        """The index of the class of each fine label; None where the classes themselves are learnt."""
        return None if self.fine is None else list(self.fine.values())


class LabelsArtifact(Artifact[Labels]):
    """labels.json, and fine-labels.json where finer labels are learnt."""

    classes = JsonArtifact[list[str]]("labels.json", list[str])
    fine = JsonArtifact[dict[str, int]]("fine-labels.json", dict[str, int])
    names = classes.names | fine.names

    def save(self, value: Labels, folder: Path) -> None:
        self.classes.save(value.classes, folder)
        if value.fine is not None:
            self.fine.save(value.fine, folder)

    def load(self, folder: Path, fine: bool | None = None) -> Labels:
        """`fine` says whether there have to be finer labels; None takes those that are there."""
        classes = self.classes.load(folder)
        if not ((folder / self.fine.file).exists() if fine is None else fine):
            return Labels(classes)
        merged = self.fine.load(folder)
        if set(merged.values()) != set(range(len(classes))):
            raise UserError(f"{folder / self.fine.file} does not fit labels.json beside it; copy the folder again")
        return Labels(classes, merged)


LABELS = LabelsArtifact()


def in_order(labels: Iterable[str]) -> list[str]:
    """Each once: numbers by value, then words by letter."""
    return sorted(set(labels), key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))


def merge_fine(fine: Sequence[str], labels: Sequence[str], known: Sequence[str]) -> tuple[list[str], list[int]]:
    """The fine labels in order, and for each the place of the label it goes with.

    Raises:
        UserError: one fine label goes with two.

    >>> merge_fine(["DESC:def", "HUM:ind", "DESC:manner"], ["DESC", "HUM", "DESC"], ["DESC", "HUM"])
    (['DESC:def', 'DESC:manner', 'HUM:ind'], [0, 0, 1])
    """
    owner: dict[str, str] = {}
    for name, label in zip(fine, labels, strict=True):
        if owner.setdefault(name, label) != label:
            raise UserError(f"the label {name!r} belongs to {owner[name]!r} here and to {label!r} there; fix the data")
    names = in_order(owner)
    numbers = {label: number for number, label in enumerate(known)}
    return names, [numbers[owner[name]] for name in names]


def numbers_of(labels: Sequence[str], known: Sequence[str], where: str) -> list[int]:
    """The place of every label.

    Raises:
        UserError: one that training has not seen.
    """
    numbers = {label: number for number, label in enumerate(known)}
    for label in labels:
        if label not in numbers:
            near = get_close_matches(label, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the model knows {', '.join(known[:8])}"
            raise UserError(f"{where} has the label {label!r}, which training has not; {hint}")
    return [numbers[label] for label in labels]
