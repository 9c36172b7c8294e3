"""The native API: /v1/models, translation by languages, and how results are answered; jobs.py derives the routes.

Every answer is {"model": name, "results": [...]}, one result for each text. Errors are {"error": sentence}.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from harken.data.text.languages import canonical
from harken.errors import UserError
from harken.serving.context import Serving, serving_of, texts_in, until_disconnected
from harken.serving.dialects.schemas import search_of
from harken.serving.errors import ApiError, TooLong
from harken.serving.fast_path import FastJSONResponse
from harken.serving.glossaries import TermIndex
from harken.serving.keys import Client
from harken.serving.operations import operations_of
from harken.serving.registry import ServedModel
from harken.serving.translating import Calls, find_route
from harken.tasks.interface import Input, Interface


class ErrorAnswer(BaseModel):
    """The answer to a request that fails."""

    error: str


class ResultsAnswer(BaseModel):
    """One result for each input."""

    model: str
    results: list[Any]


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorAnswer, "description": about}
    for code, about in {
        400: "a bad request", 401: "an API key is needed", 403: "the API key is not valid", 413: "too large",
        422: "a bad request", 429: "too many requests", 500: "an internal error", 503: "stopping", 504: "too slow",
    }.items()
}  # fmt: skip
router = APIRouter(prefix="/v1", responses=ERRORS)


async def caller(request: Request) -> Client:  # async, as FastAPI runs other dependencies in a thread
    """Who calls."""
    return serving_of(request).caller(request)


Caller = Annotated[Client, Depends(caller)]


@router.get("/models", tags=["native"])
async def models(request: Request, client: Caller) -> dict[str, Any]:
    """The served models: jobs, languages, sizes, operations, defaults of the search."""
    serving = serving_of(request)
    return {
        "models": [
            {
                "name": name,
                "task": model.task,
                "source_language": model.source,
                "target_language": model.target,
                **serving.engine.facts.get(name, {}),
            }
            for name, model in serving.registry.models.items()
        ]
    }


async def translate(interface: Interface, task: str, body: Any, request: Request, client: Client) -> Any:
    """Translate texts by a model, or by those on the way from one language to another; or a stream.

    Raises:
        ApiError: there is no such model or way, or the request asks for too much.
    """
    serving = serving_of(request)
    route = route_of(serving, body, task)
    items = items_of(interface.input, body)
    texts = [item["text"] for item in items]
    options: dict[str, Any] = {"nbest": body.nbest, "search": search_of(body)}
    options |= {name: True for name in ("attention", "alignment", "tokens") if getattr(body, name)}
    if body.masked_heads:
        options["masked_heads"] = [(head.kind, head.layer, head.head) for head in body.masked_heads]
    if body.stream:
        if len(items) != 1 or len(route) != 1 or body.masked_heads:
            raise ApiError(400, "a stream has one text, one model and no masked heads; leave out stream")
        chosen = {"search": options["search"]}
        return await server_sent(request, client, route[0], interface.verb, chosen, items[0], body.timeout)
    calls = Calls(serving, client, body.timeout, whole=bool(body.sample))

    def items_after(pivots: Sequence[str]) -> list[dict[str, Any]]:
        return items if len(route) == 1 else items_of(interface.input, body.model_copy(update={"text": pivots}))

    with serving.admitted(client, texts):
        *hops, results = await until_disconnected(request, calls.along(route, texts, options, items_after, {}))
    if hops:
        pivots = [[result["hypotheses"][0]["text"] if result["hypotheses"] else "" for result in hop] for hop in hops]
        results = [
            {**result, "source": text, "pivots": list(between)}
            for result, text, *between in zip(results, texts, *pivots, strict=True)
        ]
    return FastJSONResponse({"model": route[-1].name, "results": results})


def items_of(form: Input, body: Any) -> list[dict[str, Any]]:
    """The items of a request; of a glossary each has the terms that may be in its text.

    Raises:
        ApiError: they cannot be read.
    """
    try:
        items = form.items(body)
    except UserError as error:
        raise ApiError(400, str(error)) from None
    if getattr(body, "glossary", None):
        index = TermIndex(body.glossary)
        for item in items:
            item["glossary"] = index.terms_in(item["text"])
    return items


def route_of(serving: Serving, body: Any, task: str) -> list[ServedModel]:
    """The models that a translation goes through, by name or by languages.

    Raises:
        ApiError: there are none.
    """
    if body.model is None and body.source and body.target:
        route = find_route(serving, body.source, body.target)
        if not route:
            raise ApiError(400, f"the text is in {body.target} already; choose another target")
        return route
    return [translator(serving, body, task)]


def translator(serving: Serving, body: Any, task: str) -> ServedModel:
    """The model that a request names, by its name or its languages.

    Raises:
        ApiError: there is none.
    """
    try:
        if body.model is None and (body.source or body.target):
            for model in serving.registry.translators():
                chosen = (body.source or model.source or "", body.target or model.target or "")
                if tuple(map(canonical, chosen)) == (model.source, model.target):
                    return model
            asked = f"from {body.source or 'any language'} to {body.target or 'any'}"
            raise UserError(f"no model translates {asked}; {serving.registry.served_pairs()}")
        return serving.registry.find(body.model, task)
    except UserError as error:
        raise ApiError(400, str(error)) from None


async def results_of(
    request: Request,
    client: Client,
    model: ServedModel,
    operation: str,
    options: dict[str, Any],
    items: Sequence[Any],
    body: Any,
) -> JSONResponse:
    """Admit a request, run its operation and answer; cancelled where the client leaves.

    Raises:
        ApiError: the request is too large, the client's characters are used up, or see `Engine.submit`.
    """
    serving = serving_of(request)
    if len(items) > serving.settings.max_texts:
        raise TooLong(f"send at most {serving.settings.max_texts:,} examples at a time")
    with serving.admitted(client, [text for item in items for text in texts_in(item)]):
        work = serving.work(client, model, operation, options, items)
        results = await until_disconnected(request, serving.engine.submit(work, body.timeout))
    return FastJSONResponse({"model": model.name, "results": results})


async def server_sent(
    request: Request,
    client: Client,
    model: ServedModel,
    operation: str,
    options: dict[str, Any],
    item: dict[str, Any],
    seconds: float | None = None,
) -> StreamingResponse:
    """Events as `data: {...}` lines; the last is `event: done`, or `event: error`.

    The first event is awaited before the answer begins, so that a bad request gets its status. A stream that fails is
    not charged, at whichever event.
    """
    serving = serving_of(request)
    charge = serving.charge(client, texts_in(item))
    events = serving.engine.stream(serving.work(client, model, operation, options, [item]), seconds)
    try:
        first: dict[str, Any] | None = await until_disconnected(request, _next(events))
    except BaseException:
        charge.take_back()
        raise

    async def written() -> AsyncIterator[str]:
        whole = ""
        try:
            event = first
            while event is not None:
                whole += event.get("text", "")
                yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
                event = await _next(events)
            yield f"event: done\ndata: {json.dumps({'model': model.name, 'text': whole}, ensure_ascii=False)}\n\n"
        except ApiError as error:
            charge.take_back()
            yield f"event: error\ndata: {json.dumps({'error': error.message})}\n\n"
        finally:
            charge.settle()
            await events.aclose()  # type: ignore[attr-defined]

    return StreamingResponse(written(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _next(events: AsyncIterator[dict[str, Any]]) -> dict[str, Any] | None:
    return await anext(events, None)


def any_model(serving: Serving, name: str | None, operation: str) -> ServedModel:
    """A model by its name, or the first with an operation.

    Raises:
        ApiError: there is none.
    """
    known = [model for model in serving.registry.models.values() if operation in operations_of(model.task)]
    if name is not None:
        named = [model for model in known if model.name == name]
        if not named:
            names = ", ".join(model.name for model in known) or "none of those served"
            raise ApiError(400, f"there is no model {name!r} with {operation}; choose from {names}")
        return named[0]
    ready = [
        model for model in known if operation in serving.engine.facts.get(model.name, {}).get("operations", [operation])
    ]
    if not ready:
        raise ApiError(400, f"no served model has {operation}")
    return ready[0]
