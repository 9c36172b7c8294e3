"""Uploaded files: a worker reads a file, its segments are translated, and a worker writes the result.

    data -> read_document -> segments -> windows of sentences -> translations -> write_document -> data

The server itself parses no file. Sentences are sent in windows that take some seconds each at the speed of the model,
so that a file of any size goes through, its progress is known, and other requests get their turn. Results are files in
the server's state folder, for an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from harken.serving.context import Serving
from harken.serving.engine.batching import estimate_tokens
from harken.serving.errors import ApiError, QueueFull
from harken.serving.keys import Client
from harken.serving.text.documents import Aligned, Segment, Translate, translate_segments
from harken.serving.translating import Calls, Terms, detect, find_route, sentence_translator

KEPT_SECONDS = 3600  # that a result can be downloaded
MAX_STORED = 1_000_000_000  # bytes of all results
SAMPLE = 4000  # characters of a file that its language is detected by
FIRST_WINDOW, LARGEST_WINDOW = 512, 16384  # estimated tokens that are sent at a time
WINDOW_SECONDS = 5.0  # that a window should take
PATIENCE = 20  # times that a file waits for room in the queue
FOLDERS = ("files", "documents")  # results of LibreTranslate's and DeepL's dialect, in the state folder


@dataclass(eq=False)
class Upload:
    """A file that is translated.

    Args:
        suffix: its ending, one of `harken.serving.text.files.SUFFIXES`.
        source: its language; None: it is detected.
        characters: those that were charged.
        total, done: characters that models read, and those that they have translated.
    """

    data: bytes
    suffix: str
    source: str | None
    target: str
    glossary: Terms = ()
    characters: int = 0
    total: int = 0
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def progress(self) -> float:
        """The share that is translated."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def seconds_remaining(self) -> int:
        """How long it will take at the speed so far; at least a second."""
        elapsed = time.monotonic() - self.started
        return max(1, round(elapsed / self.progress - elapsed)) if self.progress else 5


async def translate_upload(serving: Serving, client: Client, upload: Upload) -> bytes:
    """The translated file; it is charged once, and not where it fails.

    Raises:
        ApiError: the file is none of its kind, the client's characters are used up, or see `Engine.submit`.
    """
    answer = await _call_worker(serving, client, "read_document", upload)
    segments = [Segment(*segment) for segment in answer["segments"]]
    if not segments:
        return upload.data
    if upload.source is None:
        upload.source = (await detect(serving, _sample(segments), upload.target)).language
    route = find_route(serving, upload.source, upload.target)

    def report(characters: int) -> None:
        upload.done += characters

    send = _in_windows(sentence_translator(Calls(serving, client, is_file=True), route, upload.glossary), report)
    with serving.charged(client) as charge:
        upload.characters = upload.total = charge(sum(len(segment.text) for segment in segments))
        translations = await translate_segments(segments, send)
        answer = await _call_worker(serving, client, "write_document", upload, translations=translations)
    data: bytes = answer["data"]
    return data


def _sample(segments: list[Segment]) -> str:
    texts, size = list[str](), 0
    for segment in segments:
        texts.append(segment.text)
        size += len(segment.text)
        if size >= SAMPLE:
            break
    return " ".join(texts)


async def _call_worker(serving: Serving, client: Client, operation: str, upload: Upload, **more: Any) -> dict[str, Any]:
    """The answer of an operation on a file, which any model's worker can run.

    Raises:
        ApiError: the file is refused, or see `Engine.submit`.
    """
    models = serving.registry.translators()
    if not models:
        raise ApiError(400, "no served model translates")
    item = {"data": upload.data, "name": upload.suffix, **more}

    async def call() -> list[dict[str, Any]]:
        return await serving.call(client, models[0], operation, {}, [item], whole=True)

    (answer,) = await _patiently(call)
    if "error" in answer:
        raise ApiError(*answer["error"])
    return answer


async def _patiently(call: Callable[[], Awaitable[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """The result of a call, which waits for room in the queue."""
    for _ in range(PATIENCE):
        try:
            return await call()
        except QueueFull as full:
            await asyncio.sleep(min(full.retry_after or 1, 5))
    return await call()


def _in_windows(send: Translate, report: Callable[[int], None]) -> Translate:
    """`send` for a part of the texts at a time; `report` is called with the characters of each."""

    async def translate(texts: list[str], aligned: bool, nbest: int) -> list[list[Aligned]]:
        results: list[list[Aligned]] = []
        tokens = FIRST_WINDOW
        while len(results) < len(texts):
            window = list(_window(texts, len(results), tokens))
            started = time.monotonic()
            results += await send(window, aligned, nbest)
            report(sum(map(len, window)))
            factor = WINDOW_SECONDS / max(time.monotonic() - started, 0.1)
            tokens = round(min(max(tokens * min(max(factor, 0.5), 2.0), 1), LARGEST_WINDOW))
        return results

    return translate


def _window(texts: list[str], first: int, tokens: int) -> Iterator[str]:
    """Some texts from an index on: one, and those after it that are within an estimated number of tokens."""
    for index in range(first, len(texts)):
        tokens -= estimate_tokens(texts[index])
        if tokens < 0 and index > first:
            return
        yield texts[index]


# ---- results --------------------------------------------------------------------------------------------------------


async def store_result(folder: Path, name: str, data: bytes) -> Path:
    """Write a result, which is removed after `KEPT_SECONDS`.

    Raises:
        ApiError: too much is stored already.
    """

    def write() -> Path:
        remove_old(folder)
        if sum(path.stat().st_size for path in folder.iterdir()) + len(data) > MAX_STORED:
            raise ApiError(429, "too many translated files wait for their download; try again later", KEPT_SECONDS / 60)
        (folder / name).write_bytes(data)
        return folder / name

    path = await asyncio.to_thread(write)
    asyncio.get_running_loop().call_later(KEPT_SECONDS, partial(path.unlink, missing_ok=True))
    return path


@contextlib.asynccontextmanager
async def results_lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Remove what an earlier server has left in the state folder, when its time is over."""
    serving: Serving = app.state.serving
    if serving.settings.state is not None:
        for name in FOLDERS:
            remove_old(serving.folder(name))
            asyncio.get_running_loop().call_later(KEPT_SECONDS + 1, remove_old, serving.folder(name))
    yield


def find_result(folder: Path, name: str) -> Path | None:
    """The file of a result, unless there is none or its time is over."""
    path = folder / Path(name).name
    try:
        if path.is_file() and time.time() - path.stat().st_mtime < KEPT_SECONDS:
            return path
    except (OSError, ValueError):  # a name that no file can have
        pass
    return None


def remove_old(folder: Path, seconds: float = KEPT_SECONDS) -> None:
    """Delete results that are older than so many seconds."""
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            if time.time() - path.stat().st_mtime >= seconds:
                path.unlink()
        except FileNotFoundError:  # another request has just removed it
            continue
