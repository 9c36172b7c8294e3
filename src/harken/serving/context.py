"""The state that all routes share: the registry, the engine, clients, and how a request is admitted and run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from harken.data.text.languages import language_name
from harken.serving.detection import Detector
from harken.serving.engine.batching import Work
from harken.serving.engine.costs import costs_of
from harken.serving.engine.engine import Engine
from harken.serving.errors import ApiError, TooLong
from harken.serving.glossaries import Glossaries
from harken.serving.keys import Client
from harken.serving.limits import Callers, Usage
from harken.serving.metrics import Metrics
from harken.serving.registry import Registry, ServedModel
from harken.serving.settings import ServerSettings

T = TypeVar("T")
DISCONNECT_CHECK_DELAY = 2.0  # seconds of a request in which nobody looks whether its client has left


class Admission:
    """Who sends a request, and whether its texts are within the limits of the server and of that client."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.callers, self.usage = Callers(settings), Usage()

    def caller(self, request: Request, key: str | None = None) -> Client:
        """Who calls; see `Callers.identify`."""
        return self.callers.identify(request, key)

    def check_texts(self, texts: Sequence[str]) -> int:
        """The characters of texts.

        Raises:
            ApiError: too many texts, or characters.
        """
        limits = self.settings
        if len(texts) > limits.max_texts:
            raise TooLong(f"{len(texts):,} texts are too many; send at most {limits.max_texts:,} at a time")
        try:
            for text in texts:
                text.encode()
        except UnicodeEncodeError:
            raise ApiError(400, "a text is not valid Unicode: it has half of a surrogate pair") from None
        characters = sum(map(len, texts))
        if characters > limits.max_characters:
            raise TooLong(f"{characters:,} characters are too many; send at most {limits.max_characters:,} at a time")
        return characters

    def charge(self, client: Client, texts: Sequence[str]) -> Charge:
        """The one way into the server: the texts of a request are within its limits, and charged.

        Raises:
            ApiError: too many texts or characters, or the client's characters are used up.
        """
        charge = Charge(self, client)
        charge.add(self.check_texts(texts))
        return charge

    @contextmanager
    def charged(self, client: Client) -> Iterator[Charge]:
        """Inside, characters can be charged; where the block fails, they are taken back."""
        charge = Charge(self, client)
        try:
            yield charge
        except BaseException:
            charge.take_back()
            raise
        charge.settle()

    @contextmanager
    def admitted(self, client: Client, texts: Sequence[str]) -> Iterator[int]:
        """Inside, the texts of a request are within its limits and charged; where the block fails, they are not.

        Returns: their characters.

        Raises:
            ApiError: as `charge`.
        """
        with self.charged(client) as charge:
            charge.add(self.check_texts(texts))
            yield charge.characters


class Serving(Admission):
    """The parts of one server; `request.app.state.serving`."""

    def __init__(self, registry: Registry, settings: ServerSettings) -> None:
        super().__init__(settings, Metrics())
        self.registry = registry
        self.engine = Engine(registry.folders, settings, self.metrics)
        self.keys = self.callers.keys
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

    def work(
        self,
        client: Client,
        model: ServedModel,
        operation: str,
        options: dict[str, Any],
        items: Sequence[Any],
        whole: bool = False,
        is_continued: bool = False,
    ) -> Work:
        """A call of a model for a client, as `Engine.submit` and `Engine.stream` take it; see `Work`."""
        costs = self.costs(model, options, items)
        return Work(model.name, operation, options, list(items), client.name, costs, whole, is_continued)

    @staticmethod
    def costs(model: ServedModel, options: dict[str, Any], items: Sequence[Any]) -> list[int]:
        """The estimated tokens of every item of a call to a model."""
        return costs_of(items, options, model.search_defaults)


class Charge:
    """The characters that one request is charged for: held while it runs, then counted or taken back."""

    def __init__(self, admission: Admission, client: Client) -> None:
        self._admission, self._client, self.characters = admission, client, 0

    def add(self, characters: int) -> None:
        """Charge more.

        Raises:
            QuotaExceeded: the client's characters are used up.
        """
        self._admission.usage.add(self._client, characters)
        self.characters += characters

    def take_back(self) -> None:
        """Charge nothing, as the request has failed."""
        self._admission.usage.take_back(self._client, self.characters)
        self.characters = 0

    def settle(self) -> None:
        """Count what was charged."""
        self._admission.metrics.count("characters", self.characters)


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
