"""The native API of translators: /v1/models, /v1/translate and what looks inside; the other jobs are in jobs.py.

Every answer is {"model": name, "results": [...]}, one result for each text. Errors are {"error": sentence}.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError

from harken.data.text.languages import canonical
from harken.errors import UserError
from harken.serving.context import Serving, serving_of, texts_in, until_disconnected
from harken.serving.dialects.schemas import (
    SEARCH_KEYS,
    AlternativesBody,
    AttentionBody,
    BeamBody,
    GatesBody,
    ScoreBody,
    TranslateBody,
)
from harken.serving.errors import ApiError, TooLong
from harken.serving.fast_path import FastJSONResponse
from harken.serving.glossaries import TermIndex
from harken.serving.keys import Client
from harken.serving.registry import ServedModel
from harken.serving.translating import Calls, find_route


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


@router.post("/translate", tags=["native"], response_model=ResultsAnswer)
async def translate(body: TranslateBody, request: Request, client: Caller) -> Any:
    """Translate texts with every option of the search; n-best lists, token scores, alignments; or a stream."""
    serving = serving_of(request)
    route = route_of(serving, body)
    texts = [body.text] if isinstance(body.text, str) else body.text
    options: dict[str, Any] = {"nbest": body.nbest, "search": search_of(body)}
    options |= {name: True for name in ("attention", "alignment", "tokens") if getattr(body, name)}
    if body.masked_heads:
        options["masked_heads"] = [(head.kind, head.layer, head.head) for head in body.masked_heads]
    if body.stream:
        if len(texts) != 1 or len(route) != 1 or body.masked_heads:
            raise ApiError(400, "a stream has one text, one model and no masked heads; leave out stream")
        items = _constrained(texts, body)
        return await server_sent(
            request, client, route[0], "translate", {"search": options["search"]}, items[0], body.timeout
        )
    calls = Calls(serving, client, body.timeout, whole=bool(body.sample))
    with serving.admitted(client, texts):
        work = calls.along(route, texts, options, lambda texts: _constrained(texts, body), {})
        *hops, results = await until_disconnected(request, work)
    if hops:
        pivots = [[result["hypotheses"][0]["text"] if result["hypotheses"] else "" for result in hop] for hop in hops]
        results = [
            {**result, "source": text, "pivots": list(between)}
            for result, text, *between in zip(results, texts, *pivots, strict=True)
        ]
    return FastJSONResponse({"model": route[-1].name, "results": results})


async def translate_directly(request: Request) -> Response | None:
    """`translate` without FastAPI, for bodies that are valid JSON of it; None for others."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        return None
    try:
        body = TranslateBody.model_validate_json(await request.body())
    except ValidationError:
        return None
    response: Response = await translate(body, request, await caller(request))
    return response


def _constrained(texts: Sequence[str], body: Any) -> list[dict[str, Any]]:
    """The items of texts, with what their translations must begin with or contain."""
    items: list[dict[str, Any]] = [{"text": text} for text in texts]
    prefixes = body.prefix
    if isinstance(prefixes, list) and len(prefixes) != len(items):
        raise ApiError(400, f"there are {len(prefixes)} prefixes for {len(items)} texts; give one for each")
    if not (prefixes or body.require or body.glossary):
        return items
    index = TermIndex(body.glossary)
    for number, item in enumerate(items):
        prefix = prefixes[number] if isinstance(prefixes, list) else prefixes
        given = {"prefix": prefix, "require": body.require, "glossary": index.terms_in(item["text"])}
        item |= {name: value for name, value in given.items() if value}
    return items


def route_of(serving: Serving, body: Any) -> list[ServedModel]:
    """The models that a translation goes through, by name or by languages.

    Raises:
        ApiError: there are none.
    """
    if body.model is None and body.source and body.target:
        route = find_route(serving, body.source, body.target)
        if not route:
            raise ApiError(400, f"the text is in {body.target} already; choose another target")
        return route
    return [translator(serving, body)]


def translator(serving: Serving, body: Any) -> ServedModel:
    """The model that a request names, by its name or its languages.

    Raises:
        ApiError: there is none.
    """
    try:
        if body.model is None and (getattr(body, "source", None) or getattr(body, "target", None)):
            for model in serving.registry.translators():
                chosen = (body.source or model.source or "", body.target or model.target or "")
                if tuple(map(canonical, chosen)) == (model.source, model.target):
                    return model
            asked = f"from {body.source or 'any language'} to {body.target or 'any'}"
            raise UserError(f"no model translates {asked}; {serving.registry.served_pairs()}")
        return serving.registry.find(body.model, "translate")
    except UserError as error:
        raise ApiError(400, str(error)) from None


def search_of(body: Any) -> dict[str, Any]:
    """The options of the search that were given."""
    given = ((name, getattr(body, name)) for name in sorted(SEARCH_KEYS & body.model_fields_set))
    return {name: value for name, value in given if value is not None}


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


@router.post("/attention", tags=["native"], response_model=ResultsAnswer)
async def attention(body: AttentionBody, request: Request, client: Caller) -> Any:
    """The attention of any layer and head over pieces; of classifiers and regressors the weights over words."""
    serving = serving_of(request)
    model = _any_model(serving, body.model, "attention")
    options = {"kind": body.kind, "layer": body.layer, "head": body.head, "search": search_of(body)}
    return await results_of(
        request, client, model, "attention", options, [{"text": body.text, "target": body.target}], body
    )


@router.post("/beam", tags=["native"], response_model=ResultsAnswer)
async def beam(body: BeamBody, request: Request, client: Caller) -> Any:
    """The tree of the beam search, each hypothesis with the terms of its score, and why the best one won."""
    serving = serving_of(request)
    items = _constrained([body.text], body)
    return await results_of(
        request, client, translator(serving, body), "beam", {"search": search_of(body)}, items, body
    )


@router.post("/alternatives", tags=["native"], response_model=ResultsAnswer)
async def alternatives(body: AlternativesBody, request: Request, client: Caller) -> Any:
    """Translations that share a beginning and go on with different tokens, the most probable first."""
    serving = serving_of(request)
    options = {"count": body.count, "search": search_of(body)}
    items = [{"text": body.text, "prefix": body.prefix}]
    return await results_of(request, client, translator(serving, body), "alternatives", options, items, body)


@router.post("/gates", tags=["native"], response_model=ResultsAnswer)
async def gates(body: GatesBody, request: Request, client: Caller) -> Any:
    """Every gate and state of a recurrent model over the steps of a text."""
    serving = serving_of(request)
    model = _any_model(serving, body.model, "gates")
    items = [{"text": body.text, "target": body.target}]
    return await results_of(request, client, model, "gates", {"units": body.units}, items, body)


@router.post("/score", tags=["native"], response_model=ResultsAnswer)
async def score(body: ScoreBody, request: Request, client: Caller) -> Any:
    """How probable given translations, or texts of a language model, are; token by token."""
    serving = serving_of(request)
    model = _any_model(serving, body.model, "score")
    texts, targets = ([given] if isinstance(given, str) else given for given in (body.text, body.target or []))
    if model.task == "translate" and len(targets) != len(texts):
        raise ApiError(400, f"there are {len(targets)} targets for {len(texts)} texts; give one for each")
    if model.task == "translate":
        items = [{"text": text, "target": target} for text, target in zip(texts, targets, strict=True)]
    else:
        items = [{"text": text} for text in texts]
    return await results_of(request, client, model, "score", {}, items, body)


def _any_model(serving: Serving, name: str | None, operation: str) -> ServedModel:
    """A model by its name, or the first with an operation."""
    from harken.serving.operations import operations_of

    known = [model for model in serving.registry.models.values() if operation in operations_of(model.task)]
    if name is not None:
        named = [model for model in known if model.name == name]
        if not named:
            names = ", ".join(model.name for model in known) or "none of those served"
            raise ApiError(400, f"there is no model {name!r} with {operation}; choose from {names}")
        return named[0]
    ready = [model for model in known if operation in serving.engine.facts.get(model.name, {}).get("operations", [])]
    if not ready:
        raise ApiError(400, f"no served model has {operation}")
    return ready[0]
