"""The HTTP routes of the studio: the page at `/`, and what it asks under `/studio`.

Models run in threads; a request waits for its model's lock. A user's error is answered with 400 and one sentence.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from harken.errors import UserError
from harken.studio import runs
from harken.studio.library import Library
from harken.studio.page import static_file

MAX_TEXT = 5000  # characters of one sentence
MAX_FILE = 20 * 2**20  # bytes of an upload
Messages = AsyncGenerator[dict[str, Any], None]
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
    count: int = Field(6, ge=1, le=20)


class HeadBody(BaseModel):
    """An attention head, counted from 0."""

    kind: str
    layer: int = Field(ge=0)
    head: int = Field(ge=0)


class InsideBody(Sentence):
    """A sentence, and what is switched off."""

    heads: list[HeadBody] = Field([], max_length=512)
    words: list[int] = Field([], max_length=512)


class GradientsBody(OfModel):
    """How many examples to go back from."""

    sentences: int = Field(32, ge=1, le=256)
    compare: list[str] = Field([], max_length=4)


class NeighboursBody(OfModel):
    """A word and the side of a translator."""

    word: str = Field(max_length=200)
    side: str = "source"
    count: int = Field(12, ge=1, le=50)


class ClaimBody(BaseModel):
    """A claim of the lab."""

    name: str
    seed: int = Field(1, ge=0, le=2**31)
    quick: bool = True
    values: dict[str, float | str] = {}


class StudioRoute(APIRoute):
    """Answers a `UserError` with 400 and its sentence."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """The handler with the error turned into an answer."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except UserError as problem:
                return JSONResponse({"error": str(problem)}, status_code=400)

        return guarded


def create_studio(library: Library, check: Callable[[Request], None] | None = None) -> APIRouter:
    """The router of the page and of everything it asks.

    Args:
        library: the models and runs to show.
        check: called with every request but those for the page's own files; it raises where a key is missing.
    """
    pages = APIRouter(include_in_schema=False)
    guards = [] if check is None else [Depends(check)]
    router = APIRouter(route_class=StudioRoute, include_in_schema=False, dependencies=guards)
    lab_lock, experiments = threading.Lock(), asyncio.Lock()

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
        return {"models": library.models(), "api": library.root is None}

    @router.post("/studio/translate")
    async def translate(body: TranslateBody) -> StreamingResponse:
        opened = await asyncio.to_thread(library.open, body.model)
        if opened.task != "translate":
            raise UserError(f"{body.model} was trained for the task {opened.task!r}, and this view needs a translator")
        return StreamingResponse(
            _translation_events(opened, _request_of(body)), media_type="text/event-stream", headers=EVENTS
        )

    @router.post("/studio/alternatives")
    def alternatives(body: TranslateBody) -> dict[str, Any]:
        from harken.studio.translating import alternatives_of

        with library.use(body.model, "translate") as opened:
            return {"alternatives": alternatives_of(opened.model, _request_of(body), body.count)}

    @router.post("/studio/inside")
    def inside(body: InsideBody) -> dict[str, Any]:
        from harken.studio.inside import Head, SwitchedOff, look_inside

        off = SwitchedOff([Head(head.kind, head.layer, head.head) for head in body.heads], body.words)
        with library.use(body.model, "translate") as opened:
            return look_inside(opened.model, body.text, off, body.beam)

    @router.post("/studio/gates")
    def gates(body: Sentence) -> dict[str, Any]:
        from harken.inspection import gates as trace_gates
        from harken.studio.figures import figures_json

        with library.use(body.model) as opened:
            trace = trace_gates(opened.model, body.text)
        return {"title": trace.title, "figures": figures_json(trace.picture().figures())}

    @router.post("/studio/gradients")
    def gradients(body: GradientsBody) -> dict[str, Any]:
        from harken.inspection import gradient_flow
        from harken.inspection.pictures.flow import HEADINGS, FlowPicture
        from harken.studio.figures import figures_json

        flows = {}
        for name in dict.fromkeys([body.model, *body.compare]):
            with library.use(name) as opened:
                examples = list(opened.job.examples(opened.model, "valid"))[: body.sentences]
                flows[name] = gradient_flow(opened.model, examples)
        picture = FlowPicture(flows)
        return {
            "verdicts": {name: {"kind": flow.kind, "sentence": flow.verdict} for name, flow in flows.items()},
            "columns": HEADINGS,
            "rows": picture.rows(),
            "caption": picture.caption,
            "figures": figures_json(picture.page_figures()),
        }

    @router.post("/studio/neighbours")
    def neighbours(body: NeighboursBody) -> dict[str, Any]:
        from harken.studio.inside import neighbours as nearest

        with library.use(body.model) as opened:
            return nearest(opened.model, body.word, body.side, body.count)

    @router.post("/studio/beam")
    def beam(body: Sentence) -> dict[str, Any]:
        from harken.studio.searching import beam_of

        with library.use(body.model, "translate") as opened:
            return beam_of(opened.model, body.text, beam=body.beam, length_penalty=body.length_penalty)

    @router.get("/studio/runs")
    def list_runs() -> dict[str, Any]:
        return {"runs": runs.list_runs(library)}

    @router.get("/studio/metrics")
    def metrics(name: str, after: int = 0) -> dict[str, Any]:
        return runs.curves(library.folder(name), max(0, after))

    @router.get("/studio/documents")
    def documents(name: str) -> dict[str, str]:
        return runs.documents(library.folder(name))

    @router.get("/studio/lab")
    def claims() -> dict[str, Any]:
        from harken.studio.laboratory import list_claims

        return {"claims": list_claims()}

    @router.post("/studio/lab/run")
    async def run_claim(body: ClaimBody) -> StreamingResponse:
        from harken.lab.registry import find_experiment
        from harken.studio import laboratory

        find_experiment(body.name)
        events = alone(experiments, laboratory.run_claim(body.name, body.seed, body.quick))
        return StreamingResponse(_as_events(events), media_type="text/event-stream", headers=EVENTS)

    @router.post("/studio/lab/explore")
    def explore(body: ClaimBody) -> dict[str, Any]:
        from harken.studio.explorations import explore as draw

        with lab_lock:  # they draw from torch's one random state
            return draw(body.name, body.values, body.seed)

    @router.get("/studio/input")
    def describe_input(model: str) -> dict[str, Any]:
        from harken.studio import jobs

        with library.use(model) as opened:
            return jobs.describe_input(opened)

    @router.post("/studio/answer")
    def answer(
        model: Annotated[str, Form()],
        text: Annotated[str, Form()] = "",
        options: Annotated[str, Form()] = "{}",
        file: Annotated[UploadFile | None, File()] = None,
    ) -> dict[str, Any]:
        from harken.studio import jobs

        given: tuple[str, bytes] | None = None
        if file is not None:
            content = file.file.read(MAX_FILE + 1)
            if len(content) > MAX_FILE:
                raise UserError(f"the file has more than {MAX_FILE // 2**20} MB; choose a smaller one")
            given = (file.filename or "", content)
        with library.use(model) as opened:
            return jobs.answer(opened, text[:MAX_TEXT], given, **_options(options))

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
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise UserError("the options are no JSON object")
    return options


def _request_of(body: TranslateBody) -> Any:
    from harken.studio.translating import TranslationRequest, glossary_terms

    terms = glossary_terms(body.glossary)
    return TranslationRequest(body.text, body.beam, body.length_penalty, body.nbest, body.prefix, terms)


async def _translation_events(opened: Any, asked: Any) -> AsyncIterator[str]:
    """`part` with the certain text so far, then `done` or `error`; leaving it ends the search."""
    from harken.studio.translating import translate

    loop, queue, stopped = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None](), threading.Event()

    def put(message: dict[str, Any] | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, message)

    def work() -> None:
        try:
            with opened.lock:
                if not stopped.is_set():
                    results = translate(opened.model, asked, lambda text: put({"part": text}), stopped.is_set)
                    put({"done": results})
        except UserError as problem:
            put({"error": str(problem)})
        except Exception as problem:  # the stream has begun, so the status cannot say it any more
            put({"error": f"internal error: {type(problem).__name__}"})
            raise
        finally:
            put(None)

    task = loop.run_in_executor(None, work)
    task.add_done_callback(lambda done: done.exception())
    try:
        while (message := await queue.get()) is not None:
            yield _event(message)
    finally:
        stopped.set()


async def alone(lock: asyncio.Lock, messages: Messages) -> Messages:
    """Messages of an experiment, which takes all cores: an error where another one runs."""
    if lock.locked():
        yield {"error": "another experiment runs; stop it, or wait until it has ended"}
        return
    async with lock, aclosing(messages):
        async for message in messages:
            yield message


async def _as_events(messages: Messages) -> AsyncIterator[str]:
    async with aclosing(messages):
        async for message in messages:
            yield _event(message)


def _event(message: dict[str, Any]) -> str:
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"
