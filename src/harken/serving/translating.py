"""Texts through one or several models: what the dialects of translation APIs share; files are in `dialects/uploads.py`.

Every request is admitted once (`Serving.admitted`), and its calls to models share its time (`Calls`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
from fastapi import Request

from harken.data.text.scripts import chunk_numbers, has_unspaced, split_words
from harken.errors import UserError
from harken.metrics.alignment import spaced_weights
from harken.serving.context import Serving, serving_of, until_disconnected
from harken.serving.detection import Detected
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull
from harken.serving.glossaries import TermIndex
from harken.serving.keys import Client
from harken.serving.registry import ServedModel
from harken.serving.text.documents import Aligned, Document, Translate, in_thread_if, translate_documents

Terms = Sequence[tuple[str, str]]
Item = dict[str, Any]
FIRST_WINDOW, LARGEST_WINDOW = 256, 16384  # estimated tokens of a file that are queued at a time
WINDOW_SHARE = 1 / 6  # of the time of a request that a window of a file is to take, by the speed of those before
PATIENCE = 20  # times that a file waits for room in the queue before its first window
LONG = 5000  # characters of texts that are parsed in a thread


def find_route(serving: Serving, source: str, target: str, name: str | None = None) -> list[ServedModel]:
    """The models from one language to another, or the one of this name.

    Raises:
        ApiError: there are none, or the named one has other languages.
    """
    try:
        if name is None:
            return serving.registry.route(source, target)
        model = serving.registry.find(name, "translate")
        if source == target == model.target:  # as without a name: the text is in that language already
            return []
        if (model.source, model.target) != (source, target):
            raise UserError(f"the model {name!r} is for {model.source}-{model.target}, not {source}-{target}")
        return [model]
    except UserError as error:
        raise ApiError(400, str(error)) from None


async def detect(serving: Serving, text: str, target: str) -> Detected:
    """The language of a text, of those that can be translated into the target, and the target itself.

    Raises:
        ApiError: no served language is known to the detector.
    """
    among = [code for code in serving.registry.sources() if target in serving.registry.targets(code)]
    detector = await serving.detector()
    detected = detector.detect(text, [*among, target]) or detector.detect(text)
    if not detected:
        raise ApiError(400, "the language of the text cannot be detected; name it")
    return detected[0]


class Calls:
    """The calls of one request to models; they share its time, and after the first is accepted, so are the others.

    Args:
        seconds: the time of the request; default: the server's.
        whole: every call is a batch of its own.
    """

    def __init__(self, serving: Serving, client: Client, seconds: float | None = None, whole: bool = False) -> None:
        self._serving, self._client, self._whole = serving, client, whole
        limit = serving.settings.timeout
        self._ends_at = asyncio.get_running_loop().time() + min(seconds or limit, limit)
        self._is_accepted = False

    async def translate(self, model: ServedModel, options: dict[str, Any], items: list[Item]) -> list[Any]:
        """The results of a model, one for each item.

        Raises:
            ApiError: see `Engine.submit`.
        """
        left = max(0.1, self._ends_at - asyncio.get_running_loop().time())
        return await self._call(model, options, items, left)

    async def _call(
        self, model: ServedModel, options: dict[str, Any], items: list[Item], seconds: float | None = None
    ) -> list[Any]:
        is_accepted, self._is_accepted = self._is_accepted, True
        try:
            work = self._serving.work(self._client, model, model.verb, options, items, self._whole, is_accepted)
            return await self._serving.engine.submit(work, seconds)
        except QueueFull:
            self._is_accepted = is_accepted
            raise

    async def along(
        self,
        route: Sequence[ServedModel],
        texts: Sequence[str],
        options: dict[str, Any],
        items_of: Callable[[Sequence[str]], list[Item]],
        hop_options: dict[str, Any],
    ) -> list[list[Any]]:
        """The results of every model of a route, each of which reads the best hypotheses of the one before.

        Args:
            options: of the last model; `hop_options`: further ones of the others.
            items_of: the items of the last model, from its texts.
        """
        results: list[list[Any]] = []
        for model in route[:-1]:
            hop = {"nbest": 1, "search": options.get("search", {}), "constrained": False, **hop_options}
            results.append(await self.translate(model, hop, [{"text": text} for text in texts]))
            texts = [result["hypotheses"][0]["text"] if result["hypotheses"] else "" for result in results[-1]]
        items = items_of(texts)
        constrained = {"constrained": any(len(item) > 1 for item in items)}
        return [*results, await self.translate(route[-1], {**options, **constrained}, items)]


class FileCalls(Calls):
    """The calls of a file to models: in windows, each with the time of a request, so that a file may take longer.

    Windows are sized by the speed of those before. One that is late, as the model is slower than it was, is sent again
    as smaller ones.

    Args:
        report: called with the characters of every window that is translated.
    """

    def __init__(self, serving: Serving, client: Client, report: Callable[[int], None]) -> None:
        super().__init__(serving, client)
        self._report, self._window = report, FIRST_WINDOW

    async def translate(self, model: ServedModel, options: dict[str, Any], items: list[Item]) -> list[Any]:
        """The results of a model, one for each item.

        Raises:
            ApiError: see `Engine.submit`.
        """
        results: list[Any] = []
        costs = self._serving.costs(model, options, items)
        clock, refusals = asyncio.get_running_loop().time, 0
        while len(results) < len(items):
            first = len(results)
            sums = accumulate(costs[first:])
            end = first + max(1, sum(1 for _ in takewhile(lambda tokens: tokens <= self._window, sums)))
            started = clock()
            try:
                results += await self._call(model, options, items[first:end])
            except DeadlinePassed:
                if end - first == 1:
                    raise
                self._window = max(1, sum(costs[first:end]) // 4)
                continue
            except QueueFull as full:
                refusals += 1
                if refusals > PATIENCE:
                    raise
                await asyncio.sleep(min(full.retry_after or 1, 5))
                continue
            speed = sum(costs[first:end]) / max(clock() - started, 1e-3)
            foreseen = int(speed * self._serving.settings.timeout * WINDOW_SHARE)
            self._window = max(1, min(foreseen, 4 * self._window, LARGEST_WINDOW))
            self._report(sum(len(item["text"]) for item in items[first:end]))
        return results


def sentence_translator(calls: Calls, route: Sequence[ServedModel], glossary: Terms = ()) -> Translate:
    """A function that translates sentences along a route, with the glossary for its last model."""
    index = TermIndex(glossary)

    def items_of(texts: Sequence[str]) -> list[Item]:
        if not glossary:
            return [{"text": text} for text in texts]
        return [{"text": text, "glossary": index.terms_in(text)} for text in texts]

    async def translate(texts: list[str], aligned: bool, nbest: int) -> list[list[Aligned]]:
        if not route:  # the text is in the target language
            return [[(text, np.eye(len(text.split())))] for text in texts]
        shown = {"attention": True} if aligned else {}
        *hops, last = await calls.along(route, texts, {"nbest": nbest, "search": {}, **shown}, items_of, shown)
        before = [np.eye(len(text.split())) for text in texts]
        for hop in hops:
            before = [_composed(_best(result), links) for result, links in zip(hop, before, strict=True)]
        return [
            [
                (hypothesis["text"], _composed(_written_attention(result["source"], hypothesis), links))
                for hypothesis in result["hypotheses"]
            ]
            for result, links in zip(last, before, strict=True)
        ]

    return translate


def _best(result: dict[str, Any]) -> np.ndarray | None:
    return _attention(result["source"], result["hypotheses"][0]) if result["hypotheses"] else None


def _attention(source: str, hypothesis: dict[str, Any]) -> np.ndarray | None:
    """Attention over what spaces divide, which are the words of documents."""
    if not hypothesis.get("attention"):
        return None
    words = hypothesis["target_words"], hypothesis["source_words"]
    return spaced_weights(hypothesis["attention"], *words, hypothesis["text"], source)


def _written_attention(source: str, hypothesis: dict[str, Any]) -> np.ndarray | None:
    """Attention of the words that are written (`split_words`) over what spaces divide in the source."""
    text, words = hypothesis["text"], hypothesis.get("target_words", [])
    if not hypothesis.get("attention") or not has_unspaced(text):
        return _attention(source, hypothesis)
    sources = spaced_weights(hypothesis["attention"], words, hypothesis["source_words"], " ".join(words), source)
    return sources[chunk_numbers(split_words(text), " ".join(words))]


def _composed(links: np.ndarray | None, before: np.ndarray | None) -> Any:
    """Attention (T, M) over (M, S): (T, S)."""
    if links is None or before is None or links.ndim != 2 or links.shape[1] != before.shape[0]:
        return None
    return links @ before


async def translate_texts(
    request: Request,
    client: Client,
    texts: Sequence[str],
    read: Callable[[str], Document],
    source: str | None,
    target: str,
    alternatives: int = 0,
    glossary: Terms = (),
    model: str | None = None,
) -> list[tuple[Detected, list[str]]]:
    """The language of every text, and its translations: the best, then up to `alternatives` others.

    Args:
        read: parses a text.
        source: the language of all texts; None: that of each is detected.
        model: the name of the model; None: those that lead from the one language to the other.

    Raises:
        ApiError: the request is too large, no model translates it, or see `Engine.submit`.
    """
    serving = serving_of(request)

    async def run() -> list[tuple[Detected, list[str]]]:
        detected = [Detected(source, 100.0) if source else await detect(serving, text, target) for text in texts]
        documents = await in_thread_if(characters > LONG, lambda: [read(text) for text in texts])
        results: list[list[str]] = [[] for _ in texts]
        calls = Calls(serving, client)
        for code in dict.fromkeys(result.language for result in detected):
            indices = [index for index, result in enumerate(detected) if result.language == code]
            function = sentence_translator(calls, find_route(serving, code, target, model), glossary)
            translations = await translate_documents([documents[index] for index in indices], function, alternatives)
            for index, best in zip(indices, translations, strict=True):
                results[index] = best
        return list(zip(detected, results, strict=True))

    with serving.admitted(client, texts) as characters:
        return await until_disconnected(request, run())
