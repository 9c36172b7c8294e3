"""DeepL's dialect: /v2/translate, /v2/languages, /v2/usage and its glossaries (version 2); files in deepl_documents.py.

Keys come as `Authorization: DeepL-Auth-Key KEY`. Errors are {"message": sentence}: 400, 403 a bad key, 404 no such
glossary, 429 too many requests, 456 the key's characters are used up, 503 late or stopping. Options without a
counterpart (context, formality, model_type ...) are ignored, and the header `X-Harken-Ignored` names them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from harken.data.text.languages import canonical, language_name
from harken.errors import UserError
from harken.serving.context import Serving, serving_of
from harken.serving.dialects.parameters import STRING, TEXT, Parameters, parameters_of, request_body
from harken.serving.errors import ApiError
from harken.serving.fast_path import FastJSONResponse
from harken.serving.glossaries import Glossary, parse_entries
from harken.serving.keys import Client
from harken.serving.text.documents import Document, read_html, read_text
from harken.serving.text.markup import Rules
from harken.serving.translating import translate_texts

router = APIRouter(prefix="/v2", tags=["deepl"])
IGNORED = ("context", "formality", "model_type", "outline_detection", "custom_instructions", "style_id")
KIND = {"type": "string", "enum": ["source", "target"]}
NO_LIMIT = 1_000_000_000_000
ERROR = {"application/json": {"schema": {"type": "object", "properties": {"message": STRING}}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": about, "content": ERROR}
    for code, about in {
        400: "Bad request", 403: "Authorization failed", 404: "No such glossary", 413: "Too large",
        429: "Too many requests", 456: "Quota exceeded", 500: "Internal error", 503: "Try again later",
    }.items()
}  # fmt: skip


@router.post(
    "/translate",
    responses=ERRORS,
    openapi_extra=request_body(
        ("text", "target_lang"),
        text=TEXT,
        target_lang=STRING,
        source_lang=STRING,
        tag_handling={"type": "string", "enum": ["xml", "html"]},
        glossary_id=STRING,
        split_sentences=STRING,
        splitting_tags=TEXT,
        ignore_tags=TEXT,
        context=STRING,
        model={**STRING, "description": "name of a served model, such as an adapter; DeepL has none"},
    ),
)
async def translate(request: Request) -> Response:
    """Translate a list of texts."""
    serving = serving_of(request)
    client, given = serving.caller(request), await parameters_of(request)
    texts = given.texts("text")
    if not texts:
        raise ApiError(400, "Parameter 'text' not specified.")
    source, target = languages_of(serving, given)
    glossary = find_glossary(serving, client, given, source, target)
    terms = glossary.terms if glossary else ()
    results = await translate_texts(
        request, client, texts, reader_of(given), source, target, glossary=terms, model=given.text("model") or None
    )
    answer = [
        {"detected_source_language": detected.language.upper(), "text": best[0], "billed_characters": len(text)}
        for text, (detected, best) in zip(texts, results, strict=True)
    ]
    ignored = [name for name in IGNORED if given.values.get(name) not in (None, "", "0", 0, False)]
    headers = {"X-Harken-Ignored": ", ".join(ignored)} if ignored else None
    return FastJSONResponse({"translations": answer}, headers=headers)


def languages_of(serving: Serving, given: Parameters) -> tuple[str | None, str]:
    """The source, None where it is to be detected, and the target of a request.

    Raises:
        ApiError: one of them is not served.
    """
    source, target = given.text("source_lang"), canonical(given.text("target_lang") or "")
    known = {language["code"] for language in serving.languages()}
    if target not in known:
        raise ApiError(400, f"Value for 'target_lang' not supported; {serving.registry.served_pairs()}.")
    if source and canonical(source) not in known:
        raise ApiError(400, f"Value for 'source_lang' not supported; {serving.registry.served_pairs()}.")
    return canonical(source) if source else None, target


def find_glossary(
    serving: Serving, client: Client, given: Parameters, source: str | None, target: str
) -> Glossary | None:
    """The glossary that a request names.

    Raises:
        ApiError: there is none, or it is of other languages.
    """
    glossary_id = given.text("glossary_id")
    if not glossary_id:
        return None
    if source is None:
        raise ApiError(400, "Use of a glossary requires the source_lang parameter to be specified.")
    glossary = _find(serving, client, glossary_id)
    if (canonical(glossary.source_lang), canonical(glossary.target_lang)) != (source, target):
        raise ApiError(400, "The glossary is for another language pair.")
    return glossary


def reader_of(given: Parameters) -> Callable[[str], Document]:
    """How the texts of a request are parsed.

    Raises:
        ApiError: an unknown `tag_handling`.
    """
    handling = given.text("tag_handling")
    if handling not in (None, "", "xml", "html"):
        raise ApiError(400, "Value for 'tag_handling' not supported.")
    split = not given.is_off("split_sentences")
    if handling == "html":
        return partial(read_html, split=split)
    if handling == "xml":
        tags = [
            frozenset(tag.strip().lower() for value in given.texts(name) or () for tag in value.split(","))
            for name in ("ignore_tags", "splitting_tags")
        ]
        return partial(read_html, rules=Rules(*tags), split=split)
    return partial(read_text, split=split)


@router.post("/languages", responses=ERRORS, openapi_extra=request_body((), type=KIND))
@router.get(
    "/languages", responses=ERRORS, openapi_extra={"parameters": [{"name": "type", "in": "query", "schema": KIND}]}
)
async def languages(request: Request) -> Response:
    """The languages that can be translated from, or with type=target into."""
    serving = serving_of(request)
    serving.caller(request)
    given = await parameters_of(request)
    kind = given.text("type", "source")
    if kind not in ("source", "target"):
        raise ApiError(400, "Value for 'type' not supported.")
    sources = serving.registry.sources()
    targets = dict.fromkeys(code for source in sources for code in serving.registry.targets(source))
    entries: list[dict[str, Any]] = [
        {"language": code.upper(), "name": language_name(code)}
        for code in (sources if kind == "source" else [*targets])
    ]
    if kind == "target":
        entries = [{**entry, "supports_formality": False} for entry in entries]
    return JSONResponse(entries)


@router.post("/usage", responses=ERRORS)
@router.get("/usage", responses=ERRORS)
async def usage(request: Request) -> dict[str, int]:
    """Characters that the key has used since the server was started."""
    serving = serving_of(request)
    client = serving.caller(request)
    count = serving.usage.characters[client.name]
    return {"character_count": count, "character_limit": client.characters or NO_LIMIT}


@router.get("/glossary-language-pairs", responses=ERRORS)
async def glossary_pairs(request: Request) -> dict[str, Any]:
    """Language pairs that glossaries can be made for."""
    serving = serving_of(request)
    serving.caller(request)
    models = serving.registry.translators()
    return {"supported_languages": [{"source_lang": model.source, "target_lang": model.target} for model in models]}


@router.post(
    "/glossaries",
    status_code=201,
    responses=ERRORS,
    openapi_extra=request_body(
        ("name", "source_lang", "target_lang", "entries", "entries_format"),
        **dict.fromkeys(("name", "source_lang", "target_lang", "entries"), STRING),
        entries_format={"type": "string", "enum": ["tsv", "csv"]},
    ),
)
async def create_glossary(request: Request) -> Response:
    """Store a glossary."""
    serving = serving_of(request)
    client, given = serving.caller(request), await parameters_of(request)
    values = {name: given.text(name) or "" for name in ("name", "source_lang", "target_lang", "entries")}
    for name, value in values.items():
        if not value.strip():
            raise ApiError(400, f"Parameter '{name}' not specified.")
    source, target = canonical(values["source_lang"]), canonical(values["target_lang"])
    if all((model.source, model.target) != (source, target) for model in serving.registry.translators()):
        raise ApiError(400, "Unsupported glossary language pair.")
    try:
        entries = parse_entries(values["entries"], given.text("entries_format", "tsv") or "tsv")
        glossary = serving.glossaries.create(client.name, values["name"][:1000], source, target, entries)
    except UserError as error:
        raise ApiError(400, f"Invalid glossary entries provided: {error}") from None
    return JSONResponse(_about(glossary), 201)


@router.get("/glossaries", responses=ERRORS)
async def list_glossaries(request: Request) -> dict[str, Any]:
    """The glossaries of the caller."""
    serving = serving_of(request)
    owned = serving.glossaries.of(serving.caller(request).name)
    return {"glossaries": [_about(glossary) for glossary in owned]}


@router.get("/glossaries/{glossary_id}", responses=ERRORS)
async def one_glossary(glossary_id: str, request: Request) -> dict[str, Any]:
    """The description of a glossary."""
    serving = serving_of(request)
    return _about(_find(serving, serving.caller(request), glossary_id))


@router.get("/glossaries/{glossary_id}/entries", responses=ERRORS, response_class=PlainTextResponse)
async def glossary_entries(glossary_id: str, request: Request) -> Response:
    """The entries, tab-separated."""
    serving = serving_of(request)
    glossary = _find(serving, serving.caller(request), glossary_id)
    lines = "\n".join(f"{source}\t{target}" for source, target in glossary.entries)
    return PlainTextResponse(lines, media_type="text/tab-separated-values")


@router.delete("/glossaries/{glossary_id}", status_code=204, responses=ERRORS)
async def delete_glossary(glossary_id: str, request: Request) -> Response:
    """Remove a glossary."""
    serving = serving_of(request)
    serving.glossaries.delete(_find(serving, serving.caller(request), glossary_id))
    return Response(status_code=204)


def _find(serving: Serving, client: Client, glossary_id: str) -> Glossary:
    glossary = serving.glossaries.find(client.name, glossary_id)
    if glossary is None:
        raise ApiError(404, "Invalid or missing glossary id")
    return glossary


def _about(glossary: Glossary) -> dict[str, Any]:
    names = ("glossary_id", "name", "source_lang", "target_lang", "creation_time")
    return {
        "ready": True,
        **{name: getattr(glossary, name) for name in names},
        "entry_count": len(glossary.entries),
    }
