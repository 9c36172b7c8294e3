"""LibreTranslate's dialect, as of its version 1.9: its paths, parameters, answers and errors.

Parameters come as JSON, as a form or in the query string. Lists of texts are translated in one batch. Errors are
{"error": sentence} with 400, 403, 429 or 500.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from harken.data.text.languages import canonical
from harken.serving.context import Serving, serving_of, until_disconnected
from harken.serving.detection import Detected
from harken.serving.dialects.parameters import FILE, STRING, TEXT, Parameters, parameters_of, request_body
from harken.serving.dialects.uploads import Upload, find_result, store_result, translate_upload
from harken.serving.errors import ApiError
from harken.serving.fast_path import FastJSONResponse
from harken.serving.text.documents import read_html, read_text
from harken.serving.text.files import SUFFIXES
from harken.serving.translating import find_route, translate_texts

MAX_ALTERNATIVES = 8
STATUSES = {
    400: "Invalid request", 403: "Banned, or a bad key", 413: "Too large", 429: "Slow down", 500: "Translation error",
    503: "Stopping", 504: "Too slow",
}  # fmt: skip
router = APIRouter(tags=["libretranslate"])


def described(required: tuple[str, ...], **fields: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI description of a body, and of the answers."""
    return {**request_body(required, **fields), "responses": answers(*STATUSES)}


def answers(*statuses: int) -> dict[str, Any]:
    """The OpenAPI description of errors."""
    error = {"application/json": {"schema": {"type": "object", "properties": {"error": STRING}}}}
    return {str(status): {"description": STATUSES[status], "content": error} for status in statuses}


@router.post(
    "/translate",
    openapi_extra=described(
        ("q", "source", "target"),
        q=TEXT,
        source=STRING,
        target=STRING,
        format={"type": "string", "enum": ["text", "html"]},
        alternatives={"type": "integer", "minimum": 0, "maximum": MAX_ALTERNATIVES},
        model={**STRING, "description": "name of a served model, such as an adapter; LibreTranslate has none"},
        api_key=STRING,
    ),
)
async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts."""
    serving, given = serving_of(request), await parameters_of(request)
    client = serving.caller(request, given.text("api_key"))
    texts = given.texts("q")
    if not texts or (not given.is_list("q") and not texts[0]):
        raise ApiError(400, "Invalid request: missing q parameter")
    source, target = _languages(given)
    form = given.text("format", "text")
    if form not in ("text", "html"):
        raise ApiError(400, f"{str(form)[:20]} format is not supported")
    count = given.number("alternatives", 0, MAX_ALTERNATIVES)
    if source != "auto":
        _check_route(serving, source, target)
    results = await translate_texts(
        request,
        client,
        texts,
        read_html if form == "html" else read_text,
        None if source == "auto" else source,
        target,
        alternatives=0 if form == "html" else count,
        model=given.text("model") or None,
    )
    is_list = given.is_list("q")
    values: dict[str, list[Any]] = {"translatedText": [best[0] for _, best in results]}
    if source == "auto":
        values["detectedLanguage"] = [_as_json(detected) for detected, _ in results]
    if count:
        values["alternatives"] = [best[1:] for _, best in results]
    return FastJSONResponse(values if is_list else {name: value[0] for name, value in values.items()})


def _languages(given: Parameters) -> tuple[str, str]:
    source, target = given.text("source"), given.text("target")
    if not source:
        raise ApiError(400, "Invalid request: missing source parameter")
    if not target:
        raise ApiError(400, "Invalid request: missing target parameter")
    return canonical(source), canonical(target)


def _check_route(serving: Serving, source: str, target: str) -> None:
    known = {language["code"] for language in serving.languages()}
    for code in (source, target):
        if code not in known:
            raise ApiError(400, f"{code[:20]} is not supported; {serving.registry.served_pairs()}")
    try:
        find_route(serving, source, target)
    except ApiError:
        pairs = serving.registry.served_pairs()
        raise ApiError(400, f"{target} is not available as a target language from {source}; {pairs}") from None


def _as_json(detected: Detected) -> dict[str, Any]:
    return {"confidence": detected.confidence, "language": detected.language}


@router.post("/detect", openapi_extra=described(("q",), q=STRING, api_key=STRING))
async def detect(request: Request) -> Response:
    """The languages that a text may be in."""
    serving, given = serving_of(request), await parameters_of(request)
    serving.caller(request, given.text("api_key"))
    text = given.text("q")
    if not text:
        raise ApiError(400, "Invalid request: missing q parameter")
    serving.check_texts([text])
    detector = await serving.detector()
    return JSONResponse([_as_json(detected) for detected in detector.detect(text) if detected.confidence >= 1])


@router.get("/languages")
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages, and what each can be translated into."""
    return serving_of(request).languages()


@router.get("/frontend/settings")
async def frontend_settings(request: Request) -> dict[str, Any]:
    """The settings that LibreTranslate's own page asks for."""
    serving = serving_of(request)
    known = serving.languages() or [{"code": "en", "name": "English", "targets": []}]
    first = known[0]
    target = next((language for language in known if language["code"] in first["targets"][1:]), first)
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
    openapi_extra=described(("file", "source", "target"), file=FILE, source=STRING, target=STRING, api_key=STRING),
)
async def translate_whole_file(request: Request) -> Response:
    """Translate a file; the answer says where the result can be downloaded for an hour."""
    serving, given = serving_of(request), await parameters_of(request)
    client = serving.caller(request, given.text("api_key"))
    upload = given.file("file")
    if upload is None or not upload.filename:
        raise ApiError(400, "Invalid request: missing file parameter")
    suffix = Path(upload.filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise ApiError(400, "Invalid request: file format not supported")
    source, target = _languages(given)
    if source != "auto":
        _check_route(serving, source, target)
    file = Upload(await upload.read(), suffix, None if source == "auto" else source, target)
    result = await until_disconnected(request, translate_upload(serving, client, file))
    stem = "".join(c for c in Path(upload.filename).stem if c.isalnum() or c in "-_")[:60] or "file"
    name = f"{secrets.token_urlsafe(12)}.{stem}_{target}{suffix}"
    await store_result(serving.folder("files"), name, result)
    return JSONResponse({"translatedFileUrl": str(request.base_url.replace(path=f"/download_file/{name}"))})


@router.get("/download_file/{name}", response_class=FileResponse, openapi_extra={"responses": answers(400)})
async def download_file(name: str, request: Request) -> Response:
    """A translated file; 400 where there is none of this name, or its hour is over."""
    path = find_result(serving_of(request).folder("files"), name)
    if path is None:
        raise ApiError(400, "Invalid filename")
    return FileResponse(path, filename=name.partition(".")[2], media_type="application/octet-stream")


@router.post(
    "/suggest",
    openapi_extra=described(("q", "s", "source", "target"), q=STRING, s=STRING, source=STRING, target=STRING),
)
async def suggest(request: Request) -> Response:
    """A better translation; kept where the server was started with a file for them."""
    serving, given = serving_of(request), await parameters_of(request)
    serving.caller(request, given.text("api_key"))
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
