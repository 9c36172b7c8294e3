"""Texts through one or several models: what the dialects of translation APIs share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from harken.errors import UserError
from harken.serving.context import Serving
from harken.serving.engine.batching import estimate_tokens
from harken.serving.errors import ApiError, QueueFull
from harken.serving.keys import Client
from harken.serving.registry import ServedModel
from harken.serving.text.documents import Document, Found, Translate, translate_documents

Terms = Sequence[tuple[str, str]]
WINDOW = 16384  # estimated tokens of a file that are queued at a time
PATIENCE = 20  # times that a file waits for room in the queue


def terms_in(text: str, terms: Terms) -> list[list[str]]:
    """The terms that may be in a text, so that not all of them travel to the worker and are searched for there.

    >>> terms_in("The Black cat", [("black cat", "chat noir"), ("dog", "chien")])
    [['black cat', 'chat noir']]
    """
    lowered = " ".join(text.lower().split())
    return [[source, target] for source, target in terms if " ".join(source.lower().split()) in lowered]


def find_route(serving: Serving, source: str, target: str) -> list[ServedModel]:
    """The models from one language to another.

    Raises:
        ApiError: there are none.
    """
    try:
        return serving.registry.route(source, target)
    except UserError as error:
        raise ApiError(400, str(error)) from None


def translator(
    serving: Serving,
    client: Client,
    route: Sequence[ServedModel],
    glossary: Terms = (),
    search: dict[str, Any] | None = None,
    patient: bool = False,
) -> Translate:
    """A function that translates sentences along a route.

    Args:
        glossary: terms for the last model of the route.
        search: options of the search.
        patient: send large inputs in parts, and wait for room in the queue; for files.
    """

    calls, ends_at = 0, asyncio.get_running_loop().time() + serving.settings.timeout

    async def call(model: ServedModel, texts: list[str], aligned: bool, nbest: int, terms: Terms) -> list[list[Found]]:
        options: dict[str, Any] = {"nbest": nbest, "search": search or {}, "constrained": bool(terms)}
        if aligned:
            options["attention"] = True
        nonlocal calls
        items = [{"text": text, "glossary": terms_in(text, terms)} if terms else {"text": text} for text in texts]
        results: list[Any] = []
        for part in _windows(items) if patient else [items]:
            results += await _waiting(serving, client, model, options, part, patient, ends_at, calls > 0)
            calls += 1
        return [
            [(one["text"], np.asarray(one["attention"]) if one.get("attention") else None) for one in best]
            for best in (result["hypotheses"] for result in results)
        ]

    async def translate(texts: list[str], aligned: bool, nbest: int) -> list[list[Found]]:
        found: list[list[Found]] = [[(text, np.eye(len(text.split())))] for text in texts]
        for model in route:
            is_last = model is route[-1]
            before = [best[0] for best in found]
            found = await call(
                model, [text for text, _ in before], aligned, nbest if is_last else 1, glossary if is_last else ()
            )
            found = [
                [(text, _composed(links, one[1])) for text, links in best]
                for best, one in zip(found, before, strict=True)
            ]
        return found

    return translate


def _composed(links: np.ndarray | None, before: np.ndarray | None) -> np.ndarray | None:
    """Attention (T, M) over (M, S): (T, S)."""
    if links is None or before is None or links.ndim != 2 or links.shape[1] != before.shape[0]:
        return None
    return links @ before


def _windows(items: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = [[]]
    cost = 0
    for item in items:
        tokens = estimate_tokens(item["text"])
        if found[-1] and cost + tokens > WINDOW:
            found.append([])
            cost = 0
        found[-1].append(item)
        cost += tokens
    return found


async def _waiting(
    serving: Serving,
    client: Client,
    model: ServedModel,
    options: dict[str, Any],
    items: list[Any],
    patient: bool,
    ends_at: float,
    is_continued: bool,
) -> list[Any]:
    """One call of a request; later ones of it have what is left of its time, those of a file time of their own."""
    for _ in range(PATIENCE if patient else 0):
        try:
            return await serving.call(client, model, "translate", options, items)
        except QueueFull as full:
            await asyncio.sleep(min(full.retry_after or 1, 5))
    left = None if patient else max(0.1, ends_at - asyncio.get_running_loop().time())
    return await serving.call(
        client, model, "translate", options, items, seconds=left, is_continued=is_continued and not patient
    )


async def translate_all(
    serving: Serving,
    client: Client,
    route: Sequence[ServedModel],
    documents: Sequence[Document],
    alternatives: int = 0,
    glossary: Terms = (),
    search: dict[str, Any] | None = None,
    patient: bool = False,
) -> list[list[str]]:
    """Every document in its best translation and alternatives."""
    function = translator(serving, client, route, glossary, search, patient)
    return await translate_documents(documents, function, alternatives)
