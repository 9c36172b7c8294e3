"""Language models: continuations, whole or token by token, and how surprising a text is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harken.errors import UserError
from harken.tasks.language.language_model import LanguageModel


def generate(model: LanguageModel, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """Continuations of every prompt; options are those of `LanguageModel.samples`."""
    results: list[Any] = []
    for item in items:
        try:
            results.append({"prompt": item["text"], "texts": model.samples(item["text"], **options)})
        except UserError as error:
            results.append(error)
    return results


def stream_generate(
    model: LanguageModel, item: dict[str, Any], options: dict[str, Any], cancelled: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """{"text": part} for every token."""
    settings = {name: value for name, value in options.items() if name != "count"}
    for part in model.stream(item["text"], **settings):
        if cancelled():
            return
        yield {"text": part}


def score(model: LanguageModel, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """The log-probability of every token, and the perplexity."""
    results: list[Any] = []
    for item in items:
        if not item["text"].strip():
            results.append(UserError("there is no text to score; give some words"))
            continue
        found = model.score(item["text"])
        tokens = [
            {"piece": piece, "log_probability": round(float(value), 5)}
            for piece, value in zip(found.tokens, found.log_probabilities, strict=True)
        ]
        total = float(found.log_probabilities.sum())
        results.append({"log_probability": total, "perplexity": found.perplexity, "tokens": tokens})
    return results
