"""The state that all routes share: the registry, the engine, clients, and how a request is admitted and run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from harken.serving.detection import Detector
from harken.serving.engine.batching import Work, estimate_tokens
from harken.serving.engine.engine import Engine
from harken.serving.errors import ApiError, MissingKey, TextLimitExceeded, WrongKey
from harken.serving.glossaries import Glossaries
from harken.serving.keys import Client, Keys
from harken.serving.languages import language_name
from harken.serving.limits import Rates, Usage
from harken.serving.metrics import Metrics
from harken.serving.registry import Registry, ServedModel
from harken.serving.settings import ServerSettings

T = TypeVar("T")
DISCONNECT_CHECK_DELAY = 2.0  # seconds of a request in which nobody looks whether its client has left


class Serving:
    """The parts of one server; `request.app.state.serving`."""

    def __init__(self, registry: Registry, settings: ServerSettings) -> None:
        self.registry, self.settings, self.metrics = registry, settings, Metrics()
        self.engine = Engine(registry.folders, settings, self.metrics)
        self.keys, self.rates, self.usage = Keys(settings.api_keys), Rates(), Usage()
        self.documents: dict[str, Any] = {}  # DeepL's documents by their id
        self._detector: asyncio.Task[Detector] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def prepare_detector(self) -> asyncio.Task[Detector]:
        """Load the language detector in a thread, where that has not begun."""
        if self._detector is None:
            codes = [language["code"] for language in self.languages()]
            self._detector = asyncio.create_task(asyncio.to_thread(Detector, codes))
        return self._detector

    async def detector(self) -> Detector:
        """The language detector."""
        return await asyncio.shield(self.prepare_detector())

    def languages(self) -> list[dict[str, Any]]:
        """Every language that is read or written, with its name and its targets, itself included."""
        models = self.registry.translators()
        codes = dict.fromkeys(code for model in models for code in (model.source, model.target) if code)
        return [
            {"code": code, "name": language_name(code), "targets": [code, *self.registry.targets(code)]}
            for code in codes
        ]

    def folder(self, name: str) -> Path:
        """A folder of the server's state; without one in the settings it lasts as long as the server."""
        if self.settings.state is None and self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="harken-serve-")
        path = (self.settings.state or Path(self._temporary.name if self._temporary else ".")) / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @cached_property
    def glossaries(self) -> Glossaries:
        """The glossaries of all clients."""
        return Glossaries(self.folder("glossaries"))

    def close(self) -> None:
        """End what runs on its own, and remove what was temporary."""
        for job in self.documents.values():
            job.task.cancel()
        if self._temporary is not None:
            self._temporary.cleanup()

    def caller(self, request: Request, key: str | None = None) -> Client:
        """Who calls, by a key that a parameter gives or the header: `Authorization: Bearer KEY`, or `DeepL-Auth-Key`.

        Raises:
            ApiError: a key is wrong or missing, or the client is past its rate.
        """
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if not key and scheme.lower() in ("bearer", "deepl-auth-key"):
            key = value.strip()
        address = request.client.host if request.client else "unknown"
        client = self.keys.client(key, address)
        if client is None:
            raise WrongKey if key else MissingKey
        limit = client.per_minute or self.settings.rate_limit
        if limit is not None and (wait := self.rates.wait(client.name, limit)):
            raise ApiError(429, f"Slowdown: more than {limit} requests a minute", wait)
        return client

    def check_texts(self, texts: Sequence[str]) -> int:
        """The characters of texts.

        Raises:
            ApiError: too many texts, or characters.
        """
        limits = self.settings
        if len(texts) > limits.max_texts:
            raise TextLimitExceeded(f"{len(texts):,} texts are too many; send at most {limits.max_texts:,} at a time")
        try:
            for text in texts:
                text.encode()
        except UnicodeEncodeError:
            raise ApiError(400, "a text is not valid Unicode: it has half of a surrogate pair") from None
        characters = sum(map(len, texts))
        if characters > limits.max_characters:
            raise TextLimitExceeded(
                f"{characters:,} characters are too many; send at most {limits.max_characters:,} at a time"
            )
        return characters

    @contextmanager
    def charged(self, client: Client) -> Iterator[Callable[[int], int]]:
        """Inside, characters are charged by the function that is given; where the block fails, they are taken back.

        Raises:
            QuotaExceeded: by that function.
        """
        total = 0

        def charge(characters: int) -> int:
            nonlocal total
            self.usage.add(client, characters)
            total += characters
            return characters

        try:
            yield charge
        except BaseException:
            self.usage.take_back(client, total)
            raise
        self.metrics.count("characters", total)

    @contextmanager
    def admitted(self, client: Client, texts: Sequence[str]) -> Iterator[int]:
        """The one way into the server: inside, the texts of a request are within its limits and charged.

        Returns: their characters.

        Raises:
            ApiError: too many texts or characters, or the client's characters are used up.
        """
        characters = self.check_texts(texts)
        with self.charged(client) as charge:
            yield charge(characters)

    async def call(
        self,
        client: Client,
        model: ServedModel,
        operation: str,
        options: dict[str, Any],
        items: Sequence[Any],
        whole: bool = False,
        seconds: float | None = None,
        is_continued: bool = False,
    ) -> list[Any]:
        """The results of an operation, one for each item; batched with those of other calls unless `whole`.

        Args:
            seconds: the time that it has; default: the server's.
            is_continued: an earlier call of the same request was accepted, so this one is, too.

        Raises:
            ApiError: see `Engine.submit`.
        """
        width = _width(options)
        costs = [_cost(item) * width for item in items]
        work = Work(model.name, operation, options, list(items), client.name, costs, whole, is_continued)
        return await self.engine.submit(work, seconds)

    def events(
        self, model: ServedModel, operation: str, options: dict[str, Any], item: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """The events of a stream."""
        return self.engine.stream(model.name, operation, options, item)


def _width(options: dict[str, Any]) -> int:
    """How many times as long a search takes as with a beam of five, roughly."""
    search = options.get("search") or {name: value for name, value in options.items() if value is not None}
    return max(1, max(search.get("beam", 1), search.get("mbr_candidates", 1), options.get("nbest", 1)) // 5)


def _cost(item: Any) -> int:
    if isinstance(item, dict):
        text = item.get("text")
        if isinstance(text, str):
            return estimate_tokens(text)
        if isinstance(item.get("data"), bytes):
            return 1 + len(item["data"]) // 1000
        if "facts" in item:
            return sum(map(estimate_tokens, item["facts"]))
        item = text if text is not None else item.get("past") or item.get("signal") or ""
    return estimate_tokens(item) if isinstance(item, str) else 1 + len(item)


async def until_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled where the client leaves first.

    Most requests are answered before anybody looks whether the client is still there, so a task for that is started
    only after `DISCONNECT_CHECK_DELAY` seconds.

    Raises:
        ApiError: the client has left; nobody reads the status.
    """
    task, watcher, has_left = asyncio.current_task(), None, False

    async def watch() -> None:
        nonlocal has_left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_left = True
        assert task is not None
        task.cancel()

    def start() -> None:
        nonlocal watcher
        watcher = asyncio.ensure_future(watch())

    timer = asyncio.get_running_loop().call_later(DISCONNECT_CHECK_DELAY, start)
    try:
        return await work
    except asyncio.CancelledError:
        if has_left:
            raise ApiError(499, "the client has left") from None
        raise
    finally:
        timer.cancel()
        if watcher is not None:
            watcher.cancel()


def serving_of(request: Request) -> Serving:
    """The server that a request came to."""
    serving: Serving = request.app.state.serving
    return serving


def texts_in(item: Any) -> list[str]:
    """The texts of an item; none of an uploaded file.

    >>> texts_in({"text": "a", "require": ["b"], "steps": 3})
    ['a', 'b']
    """
    if not isinstance(item, dict) or "data" in item:
        return []
    values = (part for value in item.values() for part in (value if isinstance(value, list) else [value]))
    return [value for value in values if isinstance(value, str)]
