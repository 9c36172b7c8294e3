"""Jobs that read texts and answer with labels, numbers, tags, words or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harken.data.text.questions import Question
from harken.errors import UserError


def classify(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """The probability of every class, for texts or signals."""
    results = []
    for row in model.predict_proba(_examples(items)):
        best = int(row.argmax())
        scores = {label: round(float(value), 6) for label, value in zip(model.classes, row, strict=True)}
        results.append({"label": model.classes[best], "score": float(row[best]), "scores": scores})
    return results


def regress(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """A number for every text or signal."""
    return [{"value": float(value)} for value in model.predict(_examples(items))]


def tag(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """A tag for every word; with `scores` the probability of every tag."""
    results = []
    for found in model.tag_all(_examples(items)):
        row: dict[str, Any] = {"words": found.words, "tags": found.tags}
        row["probabilities"] = [round(float(value), 6) for value in found.probabilities]
        if options.get("scores"):
            row["scores"] = np.round(found.chances, 5).tolist()
            row["classes"] = model.tags
        results.append(row)
    return results


def fill(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """The likeliest tokens of every [MASK]."""
    results: list[Any] = []
    for text in _examples(items):
        try:
            gaps = model.fill(text, options.get("count", 5))
            results.append({"gaps": [[{"token": token, "score": float(p)} for token, p in gap] for gap in gaps]})
        except UserError as error:
            results.append(error)
    return results


def answer(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """Answers to questions about facts, with the attention of every hop."""
    questions = [Question(tuple(item["facts"]), item["question"]) for item in items]
    return [found.to_dict() for found in model.answer_all(questions)]


def vectors(model: Any, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """The vector of every word in its sentence, of every layer or their mean."""
    results = []
    for text, found in zip(_examples(items), model.vectors_of_all(_examples(items)), strict=True):
        values = found if options.get("layers") else found.mean(0)
        results.append({"words": model.words(text), "vectors": np.round(values, 5).tolist()})
    return results


def _examples(items: Sequence[Any]) -> list[Any]:
    """Texts as they are; signals as arrays (T, C)."""
    found = [item["text"] if isinstance(item, dict) else item for item in items]
    return [one if isinstance(one, str) else np.asarray(one, dtype=np.float32) for one in found]
