"""The HTTP routes of the studio: the page at `/`, and what it asks under `/studio`.

Files of runs are read here; whatever needs a model or runs an experiment is a task of a worker process. The files of
the page all come from this host: the policy allows no other origin, no inline script and no inline style.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from harken.errors import UserError
from harken.serving.context import Admission, Charge, until_disconnected
from harken.serving.errors import ApiError
from harken.studio import runs
from harken.studio.library import Library
from harken.studio.workers import Message, PoolLimits, WorkerPool

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def static_names() -> list[str]:
    """Every file of the page, as its path below `static`."""
    return sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.suffix in TYPES)


@lru_cache(256)  # names that there are not are kept, too
def static_file(name: str) -> tuple[bytes, dict[str, str]] | None:
    """Content and headers of a file of the page; None where there is none of this name."""
    if name not in static_names():
        return None
    content = (STATIC / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return content, {**HEADERS, "Content-Type": TYPES[Path(name).suffix], "ETag": tag}


MAX_TEXT = 5000  # characters of one sentence
CHARGED = ("translate", "alternatives", "inside", "gates", "beam", "answer")  # tasks in which a model reads a text
WAITING = '{"done": 0, "say": "waiting for another experiment to end"}'
EVENTS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class OfModel(BaseModel):
    """A model by its name."""

    model: str


class Sentence(OfModel):
    """A sentence for a translator, and how to search."""

    text: str = Field("", max_length=MAX_TEXT)
    beam: int | None = Field(None, ge=1, le=64)
    length_penalty: float | None = Field(None, ge=0, le=5)


class TranslateBody(Sentence):
    """A sentence to translate while somebody types."""

    nbest: int = Field(1, ge=1, le=20)
    prefix: str = Field("", max_length=MAX_TEXT)
    glossary: str = Field("", max_length=20_000)


class AlternativesBody(TranslateBody):
    """How many translations that differ after the prefix."""

    count: int = Field(6, ge=1, le=20)


class HeadBody(BaseModel):
    """An attention head, counted from 0."""

    kind: str
    layer: int = Field(ge=0)
    head: int = Field(ge=0)


class InsideBody(OfModel):
    """A sentence, and what is switched off."""

    text: str = Field("", max_length=MAX_TEXT)
    beam: int | None = Field(None, ge=1, le=64)
    heads: list[HeadBody] = Field([], max_length=512)
    words: list[int] = Field([], max_length=512)


class GatesBody(OfModel):
    """A text for a recurrent model."""

    text: str = Field("", max_length=MAX_TEXT)


class GradientsBody(OfModel):
    """How many examples to go back from."""

    sentences: int = Field(32, ge=1, le=256)
    compare: list[str] = Field([], max_length=4)


class NeighboursBody(OfModel):
    """A word and the side of a translator."""

    word: str = Field(max_length=200)
    side: str = "source"
    count: int = Field(12, ge=1, le=50)


class ExperimentBody(BaseModel):
    """A claim of the lab, and how to run its experiment."""

    name: str = Field(max_length=100)
    seed: int = Field(1, ge=0, le=2**31)
    quick: bool = True


class ExploreBody(BaseModel):
    """A claim of the lab or a live figure of the course, and the values of its sliders."""

    name: str = Field(max_length=100)
    seed: int = Field(1, ge=0, le=2**31)
    values: dict[str, float | str] = Field({}, max_length=50)


class AnswerBody(BaseModel):
    """A written answer to an exercise of the course."""

    name: str = Field(max_length=20)
    text: str = Field(max_length=500)


class ChapterBody(BaseModel):
    """A chapter of the course."""

    number: int = Field(ge=1, le=100)


def create_studio(library: Library, admission: Admission) -> APIRouter:
    """The router of the page and of everything it asks.

    Args:
        library: the models and runs to show.
        admission: who may ask for how much; the deadlines of its settings hold for tasks.
    """
    settings = admission.settings
    models_pool = WorkerPool(library, PoolLimits(seconds=settings.timeout))
    lab_pool = WorkerPool(
        library,
        PoolLimits(waiting=4, per_client=2, seconds=settings.lab_seconds, stop_seconds=0, waiting_event=WAITING),
    )

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await models_pool.close()
        await lab_pool.close()

    pages = APIRouter(include_in_schema=False, lifespan=lifespan)

    def check(request: Request) -> None:
        request.state.client = admission.caller(request)  # once, as it counts for the client's rate

    router = APIRouter(include_in_schema=False, dependencies=[Depends(check)])

    async def run(request: Request, task: str, fields: dict[str, Any]) -> Response:
        client = request.state.client
        with admission.admitted(client, charged_texts(task, fields)):
            result = await until_disconnected(request, models_pool.run(client.name, task, fields))
        return Response(result, media_type="application/json")

    async def stream(request: Request, pool: WorkerPool, task: str, fields: dict[str, Any]) -> Response:
        client = request.state.client
        charge = admission.charge(client, charged_texts(task, fields))
        messages = pool.stream(client.name, task, fields)
        try:
            first = await until_disconnected(request, _next(messages))  # an error before it has a status of its own
        except BaseException:
            charge.take_back()
            raise
        return StreamingResponse(_as_events(first, messages, charge), media_type="text/event-stream", headers=EVENTS)

    @pages.get("/")
    def index() -> Response:
        return _static("index.html")

    @pages.get("/favicon.ico")
    def icon() -> Response:
        answer = _static("icon.svg")
        answer.headers["Cache-Control"] = "max-age=86400"
        return answer

    @pages.get("/studio/static/{name:path}")
    def static(name: str) -> Response:
        return _static(name)

    @router.get("/studio/models")
    def models() -> dict[str, Any]:
        return {"models": library.with_example(), "api": library.root is None}

    @router.get("/studio/runs")
    def list_runs() -> dict[str, Any]:
        return {"runs": runs.list_runs(library)}

    @router.get("/studio/metrics")
    def metrics(name: str, after: int = 0) -> dict[str, Any]:
        return runs.curves(library.folder(name), max(0, after))

    @router.get("/studio/documents")
    def documents(name: str) -> dict[str, str]:
        return runs.documents(library.folder(name))

    def post(path: str, task: str, kind: type[BaseModel], pool: WorkerPool | None = None) -> None:
        """A route whose body has the fields of a task; with a pool the events of that task are streamed."""

        async def answer(request: Request, body: Any) -> Response:
            fields = body.model_dump()
            return await (run(request, task, fields) if pool is None else stream(request, pool, task, fields))

        answer.__annotations__ = {"request": Request, "body": kind}
        router.post(path)(answer)

    post("/studio/translate", "translate", TranslateBody, models_pool)
    post("/studio/alternatives", "alternatives", AlternativesBody)
    post("/studio/inside", "inside", InsideBody)
    post("/studio/gates", "gates", GatesBody)
    post("/studio/gradients", "gradients", GradientsBody)
    post("/studio/neighbours", "neighbours", NeighboursBody)
    post("/studio/beam", "beam", Sentence)
    post("/studio/lab/explore", "explore", ExploreBody)
    post("/studio/lab/run", "experiment", ExperimentBody, lab_pool)
    post("/studio/learn/live", "live", ExploreBody)
    post("/studio/learn/check", "check_answer", AnswerBody)
    post("/studio/learn/run", "run_chapter", ChapterBody, lab_pool)

    @router.get("/studio/lab")
    async def claims(request: Request) -> Response:
        return await run(request, "claims", {})

    @router.get("/studio/learn")
    async def chapters(request: Request) -> Response:
        return await run(request, "chapters", {})

    @router.post("/studio/example")
    async def train_example(request: Request) -> Response:
        return await stream(request, lab_pool, "train_example", {})

    @router.get("/studio/input")
    async def describe_input(request: Request, model: str) -> Response:
        return await run(request, "input", {"model": model})

    @router.post("/studio/answer")
    async def answer(
        request: Request,
        model: Annotated[str, Form()],
        text: Annotated[str, Form()] = "",
        options: Annotated[str, Form()] = "{}",
        file: Annotated[UploadFile | None, File()] = None,
    ) -> Response:
        given = None
        if file is not None:
            given = [file.filename or "", base64.b64encode(await file.read()).decode()]
        fields = {"model": model, "text": text[:MAX_TEXT], "options": _options(options), "file": given}
        return await run(request, "answer", fields)

    pages.include_router(router)
    return pages


def _static(name: str) -> Response:
    file = static_file(name)
    if file is None:
        return JSONResponse({"error": f"there is no file {name!r}"}, status_code=404)
    return Response(file[0], headers=file[1])


def _options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):  # the latter where it is nested too deeply
        options = None
    if not isinstance(options, dict):
        raise UserError("the options are no JSON object")
    return options


async def _next(messages: AsyncGenerator[Message, None]) -> Message:
    return await anext(messages)


def charged_texts(task: str, fields: dict[str, Any]) -> list[str]:
    """The texts of a task that a client is charged for: what a model reads, as in the API."""
    return [fields["text"]] if task in CHARGED else []


async def _as_events(first: Message, messages: AsyncGenerator[Message, None], charge: Charge) -> AsyncIterator[str]:
    """Server-sent events of messages; leaving it ends their task. A task that fails is not charged."""
    async with aclosing(messages):
        yield f"data: {first.value}\n\n"
        try:
            async for message in messages:
                yield f"data: {message.value}\n\n"
        except ApiError as error:  # the stream has begun, so the status cannot say it any more
            charge.take_back()
            yield f"data: {json.dumps({'error': error.message})}\n\n"
        finally:
            charge.settle()
