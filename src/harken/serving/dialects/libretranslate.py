"""LibreTranslate's dialect, as of its version 1.9: its paths, parameters, answers and errors.

Parameters come as JSON, as a form or in the query string. Lists of texts are translated in one batch. Errors are
{"error": sentence} with 400, 403, 429 or 500.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from harken.serving.context import Serving, serving_of, until_disconnected
from harken.serving.dialects.parameters import Parameters, parameters_of
from harken.serving.errors import ApiError
from harken.serving.fast_path import FastJSONResponse
from harken.serving.keys import Client
from harken.serving.languages import canonical
from harken.serving.text.documents import read_html, read_text
from harken.serving.text.files import SUFFIXES, sample_of, translate_file
from harken.serving.translating import find_route, translate_all, translator

MAX_ALTERNATIVES = 8
KEPT_SECONDS = 3600  # that translated files can be downloaded
router = APIRouter(tags=["libretranslate"])


def described(required: tuple[str, ...], **fields: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI description of a body that may be JSON or a form, and of the answers."""
    schema = {"type": "object", "required": list(required), "properties": fields}
    forms = ("application/json", "application/x-www-form-urlencoded")
    error = {"application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}}
    about = {400: "Invalid request", 403: "Banned, or a bad key", 429: "Slow down", 500: "Translation error"}
    about |= {413: "Too large", 503: "Stopping", 504: "Too slow"}
    return {
        "requestBody": {"required": True, "content": {form: {"schema": schema} for form in forms}},
        "responses": {str(code): {"description": text, "content": error} for code, text in about.items()},
    }


TEXT = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
STRING = {"type": "string"}


def caller(serving: Serving, request: Request, given: Parameters) -> Client:
    """Who calls, by `api_key`; a missing key is 400 here, as LibreTranslate has it."""
    try:
        return serving.client(request, given.text("api_key") or _bearer(request))
    except ApiError as error:
        if error.status == 401:
            raise ApiError(400, "Please contact the server operator to get an API key") from None
        raise ApiError(403, "Invalid API key") if error.status == 403 else error from None


def _bearer(request: Request) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


@router.post(
    "/translate",
    openapi_extra=described(
        ("q", "source", "target"),
        q=TEXT,
        source=STRING,
        target=STRING,
        format={"type": "string", "enum": ["text", "html"]},
        alternatives={"type": "integer", "minimum": 0, "maximum": MAX_ALTERNATIVES},
        api_key=STRING,
    ),
)
async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts."""
    serving, given = serving_of(request), await parameters_of(request)
    client = caller(serving, request, given)
    texts = given.texts("q")
    if not texts or (not given.is_list("q") and not texts[0]):
        raise ApiError(400, "Invalid request: missing q parameter")
    source, target = _languages(given)
    form = given.text("format", "text")
    if form not in ("text", "html"):
        raise ApiError(400, f"{form} format is not supported")
    count = given.number("alternatives", 0, MAX_ALTERNATIVES)
    characters = serving.check_texts(texts)
    detected = [await detect_one(serving, text, target) for text in texts] if source == "auto" else []
    documents = [read_html(text) if form == "html" else read_text(text) for text in texts]
    more = 0 if form == "html" else count

    async def run() -> list[list[str]]:
        found: list[list[str]] = [[] for _ in texts]
        codes = [one["language"] for one in detected] or [source] * len(texts)
        for code in dict.fromkeys(codes):
            chosen = [index for index, other in enumerate(codes) if other == code]
            route = _route(serving, code, target)
            some = await translate_all(serving, client, route, [documents[index] for index in chosen], more)
            for index, best in zip(chosen, some, strict=True):
                found[index] = best
        return found

    found = await until_disconnected(request, run())
    serving.metrics.count("characters", characters)
    is_list = given.is_list("q")
    answer: dict[str, Any] = {"translatedText": [best[0] for best in found] if is_list else found[0][0]}
    if source == "auto":
        answer["detectedLanguage"] = detected if is_list else detected[0]
    if count:
        others = [best[1:] for best in found]
        answer["alternatives"] = others if is_list else others[0]
    return FastJSONResponse(answer)


def _languages(given: Parameters) -> tuple[str, str]:
    source, target = given.text("source"), given.text("target")
    if not source:
        raise ApiError(400, "Invalid request: missing source parameter")
    if not target:
        raise ApiError(400, "Invalid request: missing target parameter")
    return canonical(source), canonical(target)


def _route(serving: Serving, source: str, target: str) -> Any:
    known = {one["code"] for one in serving.languages()}
    for code in (source, target):
        if code not in known:
            raise ApiError(400, f"{code[:20]} is not supported")
    try:
        return find_route(serving, source, target)
    except ApiError:
        raise ApiError(400, f"{target} is not available as a target language from {source}") from None


async def detect_one(serving: Serving, text: str, target: str | None = None) -> dict[str, Any]:
    """The language of a text, of those that can be translated into the target."""
    among = (
        None
        if target is None
        else [*(c for c in serving.registry.sources() if target in serving.registry.targets(c)), target]
    )
    detector = await serving.detector()
    found = detector.detect(text, among) or detector.detect(text)
    if not found:
        raise ApiError(400, "the language of the text cannot be detected; name it")
    return {"confidence": found[0].confidence, "language": found[0].language}


@router.post("/detect", openapi_extra=described(("q",), q=STRING, api_key=STRING))
async def detect(request: Request) -> Response:
    """The languages that a text may be in."""
    serving, given = serving_of(request), await parameters_of(request)
    caller(serving, request, given)
    text = given.text("q")
    if not text:
        raise ApiError(400, "Invalid request: missing q parameter")
    serving.check_texts([text])
    found = (await serving.detector()).detect(text)
    answer = [{"confidence": one.confidence, "language": one.language} for one in found if one.confidence >= 1]
    return JSONResponse(answer)


@router.get("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages, and what each can be translated into."""
    return serving_of(request).languages()


@router.get("/frontend/settings")
async def frontend_settings(request: Request) -> dict[str, Any]:
    """What LibreTranslate's own page asks for."""
    serving = serving_of(request)
    known = serving.languages() or [{"code": "en", "name": "English", "targets": []}]
    first = known[0]
    target = next((one for one in known if one["code"] in first["targets"][1:]), first)
    return {
        "apiKeys": serving.keys.needed,
        "charLimit": serving.settings.max_characters,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": serving.keys.needed,
        "language": {
            "source": {"code": first["code"], "name": first["name"]},
            "target": {"code": target["code"], "name": target["name"]},
        },
        "suggestions": serving.settings.suggestions is not None,
        "supportedFilesFormat": list(SUFFIXES),
    }


@router.post(
    "/translate_file",
    openapi_extra={
        **described((), source=STRING),
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["file", "source", "target"],
                        "properties": {
                            "file": {"type": "string", "format": "binary"},
                            "source": STRING,
                            "target": STRING,
                            "api_key": STRING,
                        },
                    }
                }
            },
        },
    },
)
async def translate_whole_file(request: Request) -> Response:
    """Translate a file; the answer says where the result can be downloaded for an hour."""
    serving, given = serving_of(request), await parameters_of(request)
    client = caller(serving, request, given)
    upload = given.file("file")
    if upload is None or not upload.filename:
        raise ApiError(400, "Invalid request: missing file parameter")
    suffix = Path(upload.filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise ApiError(400, "Invalid request: file format not supported")
    source, target = _languages(given)
    data = await upload.read()

    if source == "auto":
        sample = await asyncio.to_thread(sample_of, data, suffix)
        source = (await detect_one(serving, sample, target))["language"]
    function = translator(serving, client, _route(serving, source, target), patient=True)
    result = await until_disconnected(request, translate_file(data, suffix, function))
    folder = serving.folder("files")
    _delete_old(folder)
    stem = "".join(c for c in Path(upload.filename).stem if c.isalnum() or c in "-_")[:60] or "file"
    name = f"{secrets.token_urlsafe(12)}.{stem}_{target}{suffix}"
    (folder / name).write_bytes(result)
    return JSONResponse({"translatedFileUrl": str(request.base_url.replace(path=f"/download_file/{name}"))})


def _delete_old(folder: Path) -> None:
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)


@router.get("/download_file/{name}", response_class=FileResponse)
async def download_file(name: str, request: Request) -> Response:
    """A translated file."""
    known = {path.name: path for path in serving_of(request).folder("files").iterdir()}
    if name not in known:
        raise ApiError(400, "Invalid filename")
    return FileResponse(known[name], filename=name.partition(".")[2], media_type="application/octet-stream")


@router.post(
    "/suggest",
    openapi_extra=described(("q", "s", "source", "target"), q=STRING, s=STRING, source=STRING, target=STRING),
)
async def suggest(request: Request) -> Response:
    """A better translation; kept where the server was started with a file for them."""
    serving, given = serving_of(request), await parameters_of(request)
    caller(serving, request, given)
    path = serving.settings.suggestions
    if path is None:
        raise ApiError(403, "Suggestions are disabled on this server.")
    values = {name: given.text(name) for name in ("q", "s", "source", "target")}
    for name, value in values.items():
        if not value:
            raise ApiError(400, f"Invalid request: missing {name} parameter")
    serving.check_texts([values["q"] or "", values["s"] or ""])
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values, ensure_ascii=False) + "\n")
    return JSONResponse({"success": True})
