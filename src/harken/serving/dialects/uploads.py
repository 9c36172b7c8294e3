"""Uploaded files: a worker reads a file, its segments are translated, and a worker writes the result.

    data -> read_document -> segments -> windows of sentences -> translations -> write_document -> data

The server itself parses no file. Sentences are sent in windows (`harken.serving.translating.FileCalls`), so that a file
of any size goes through, its progress is known, and other requests get their turn. Results are files in the server's
state folder, for an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from harken.serving.context import Serving
from harken.serving.errors import ApiError, QueueFull
from harken.serving.keys import Client
from harken.serving.text.documents import Segment, translate_segments
from harken.serving.translating import PATIENCE, FileCalls, Terms, detect, find_route, sentence_translator

KEPT_SECONDS = 3600  # that a result can be downloaded
MAX_STORED = 1_000_000_000  # bytes of all results
SAMPLE = 4000  # characters of a file that its language is detected by
FOLDERS = ("files", "documents")  # results of LibreTranslate's and DeepL's dialect, in the state folder


@dataclass(eq=False)
class Upload:
    """A file that is translated.

    Args:
        suffix: its ending, one of `harken.serving.text.files.SUFFIXES`.
        source: its language; None: it is detected.
        characters: those that were charged.
        total, done: characters for all models of the route, and those that are translated.
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

    def report(self, characters: int) -> None:
        """More characters are translated."""
        self.done += characters

    @property
    def progress(self) -> float:
        """The share of the characters that are translated."""
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
    send = sentence_translator(FileCalls(serving, client, upload.report), route, upload.glossary)
    with serving.charged(client) as charge:
        charge.add(sum(len(segment.text) for segment in segments))
        upload.characters, upload.total = charge.characters, charge.characters * max(1, len(route))
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
        return await serving.engine.submit(serving.work(client, models[0], operation, {}, [item], whole=True))

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
