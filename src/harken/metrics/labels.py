"""Label metrics: accuracy, F1 of each class and their mean, the confusion matrix, and F1 of entities in BIO tags.

    precision_k = correct_k / predicted_k      recall_k = correct_k / target_k
    F1_k = 2 correct_k / (predicted_k + target_k)

Macro F1 is the mean over the classes that occur, so a rare class counts as much as a frequent one.

    B-person I-person O I-group      two entities: an I that follows no entity of its kind begins one

An entity is correct if kind, start and end are. This is how `conlleval` and `seqeval` count (Tjong Kim Sang and De
Meulder, 2003).

>>> accuracy([0, 1, 1, 2], [0, 1, 0, 2])
0.75
>>> [round(value, 3) for value in f1_by_class([0, 1, 1, 2], [0, 1, 0, 2], 3)]
[0.667, 0.667, 1.0]
>>> confusion([0, 1, 1], [0, 1, 0], 2).tolist()
[[1, 0], [1, 1]]
>>> spans(["B-person", "I-person", "O", "I-group"])
[('person', 0, 2), ('group', 3, 4)]
>>> sentence_counts(["B-person", "I-person"], ["B-person", "O"]).f1
0.0
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Span = tuple[str, int, int]  # kind, first word, the word after the last
BIO = re.compile(r"[BI]-.+")


def accuracy(target: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """The share of predictions that are correct."""
    return float(np.mean(np.asarray(target) == np.asarray(predicted))) if np.size(target) else float("nan")


def confusion(target: npt.ArrayLike, predicted: npt.ArrayLike, classes: int) -> np.ndarray:
    """(K, K) counts: a row per true class, a column per predicted class."""
    flat = np.asarray(target, dtype=np.int64) * classes + np.asarray(predicted, dtype=np.int64)
    return np.bincount(flat, minlength=classes * classes).reshape(classes, classes)


def f1_by_class(target: npt.ArrayLike, predicted: npt.ArrayLike, classes: int) -> list[float]:
    """F1 of every class; NaN for one that is neither a target nor predicted."""
    counts = confusion(target, predicted, classes)
    below = counts.sum(0) + counts.sum(1)
    f1 = np.full(classes, np.nan)
    np.divide(2.0 * np.diag(counts), below, out=f1, where=below > 0)
    return [float(value) for value in f1]


def macro_f1(target: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """The mean of F1 over the classes that are a target or predicted."""
    if not np.size(target):
        return float("nan")
    classes = int(max(np.max(target), np.max(predicted))) + 1
    return float(np.nanmean(f1_by_class(target, predicted, classes)))


class Counts(NamedTuple):
    """Numbers of entities, from which precision and recall follow."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: tuple[int, ...]) -> Counts:  # type: ignore[override]
        return Counts(*(own + more for own, more in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        """The share of predicted entities that are correct."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of gold entities that were predicted."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0


def is_bio(tags: Iterable[str]) -> bool:
    """Whether all tags are O, B-x or I-x, with at least one B-x."""
    inside = set(tags) - {"O"}
    return any(tag.startswith("B-") for tag in inside) and all(BIO.fullmatch(tag) for tag in inside)


def spans(tags: Sequence[str]) -> list[Span]:
    """The entities of one sentence, in order."""
    result: list[Span] = []
    kind, first = "", 0
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if kind and (prefix != "I" or name != kind):
            result.append((kind, first, index))
            kind = ""
        if prefix != "O" and not kind:
            kind, first = name, index
    return result


def sentence_counts(gold: Sequence[str], predicted: Sequence[str]) -> Counts:
    """The counts of one sentence over all kinds of entities."""
    right, output = set(spans(gold)), set(spans(predicted))
    return Counts(len(right & output), len(output), len(right))


def counts_by_kind(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Counts]:
    """The counts of many sentences for each kind of entity, by name."""
    counts: dict[str, Counts] = defaultdict(Counts)
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        right, output = set(spans(gold_tags)), set(spans(predicted_tags))
        for kind in {span[0] for span in right | output}:
            mine, theirs = ({span for span in group if span[0] == kind} for group in (right, output))
            counts[kind] += Counts(len(mine & theirs), len(theirs), len(mine))
    return dict(sorted(counts.items()))
