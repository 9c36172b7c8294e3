"""DeepL's documents: a file is sent, its translation asked for until it is done, and then downloaded, once.

    POST /v2/document                       file, target_lang, source_lang, glossary_id -> document_id, document_key
    POST /v2/document/{document_id}         document_key -> status: queued, translating, done, downloaded or error
    POST /v2/document/{document_id}/result  document_key -> the file

Files are those of `harken.serving.text.files`. A document is known for an hour or until the server stops; while it is
translated, its status has the seconds that remain, at the speed so far.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from harken.serving.context import Serving, serving_of
from harken.serving.dialects.deepl import ERRORS, find_glossary, languages_of
from harken.serving.dialects.parameters import FILE, STRING, parameters_of, request_body
from harken.serving.dialects.uploads import KEPT_SECONDS, Upload, results_lifespan, store_result, translate_upload
from harken.serving.errors import ApiError, QuotaExceeded
from harken.serving.text.files import SUFFIXES
from harken.serving.translating import find_route

MAX_JOBS = 100  # that are translated or wait for their download
POLL_SECONDS = 1.0  # that a question for the status waits for the end, as clients ask again after five seconds
router = APIRouter(prefix="/v2/document", tags=["deepl"], responses=ERRORS, lifespan=results_lifespan)
KEY_BODY = request_body(("document_key",), document_key=STRING)
FILE_BODY = request_body(
    ("file", "target_lang"),
    file=FILE,
    **dict.fromkeys(("target_lang", "source_lang", "filename", "glossary_id"), STRING),
)


@dataclass(eq=False)
class DocumentJob:
    """One document, from its upload to its download."""

    key: str
    upload: Upload
    path: Path  # of the translation
    created: float = field(default_factory=time.monotonic)
    error: str | None = None
    is_downloaded: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        """As DeepL calls it."""
        if self.error is not None:
            return "error"
        if self.task is not None and not self.task.done():
            return "translating" if self.upload.total else "queued"
        return "downloaded" if self.is_downloaded else "done"


@router.post("", openapi_extra=FILE_BODY)
async def upload(request: Request) -> Response:
    """Begin to translate a document."""
    serving = serving_of(request)
    client, given = serving.caller(request), await parameters_of(request)
    file = given.file("file")
    if file is None:
        raise ApiError(400, "Invalid file data.")
    name = given.text("filename") or file.filename or ""
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise ApiError(400, f"Unsupported document type; send one of {', '.join(SUFFIXES)}.")
    if (given.text("output_format") or suffix[1:]).lower() != suffix[1:]:
        raise ApiError(400, "Value for 'output_format' not supported.")
    source, target = languages_of(serving, given)
    glossary = find_glossary(serving, client, given, source, target)
    _forget_old(serving)
    if len(serving.documents) >= MAX_JOBS:
        raise ApiError(429, "Too many documents; download those that are done", 60)
    if source is not None:
        find_route(serving, source, target)
    document = Upload(await file.read(), suffix, source, target, glossary.terms if glossary else ())
    number = secrets.token_hex(16).upper()
    folder = serving.folder("documents")
    job = DocumentJob(secrets.token_hex(32).upper(), document, folder / f"{number}{suffix}")

    async def run() -> None:
        try:
            await store_result(folder, job.path.name, await translate_upload(serving, client, document))
        except ApiError as error:
            job.error = "Quota Exceeded" if isinstance(error, QuotaExceeded) else error.message
        except Exception:
            job.error = "internal error"
            raise
        finally:
            document.data = b""

    job.task = asyncio.create_task(run())
    serving.documents[number] = job
    asyncio.get_running_loop().call_later(KEPT_SECONDS + 1, _forget_old, serving)
    return JSONResponse({"document_id": number, "document_key": job.key})


@router.post("/{document_id}", openapi_extra=KEY_BODY)
async def status(document_id: str, request: Request) -> dict[str, Any]:
    """How far a document is."""
    job = await _find(document_id, request)
    if job.task is not None:
        await asyncio.wait({job.task}, timeout=POLL_SECONDS)
    answer: dict[str, Any] = {"document_id": document_id, "status": job.status}
    if job.error is not None:
        return answer | {"message": job.error, "error_message": job.error}
    if job.status in ("queued", "translating"):
        return answer | {"seconds_remaining": job.upload.seconds_remaining, "translated_characters": job.upload.done}
    return answer | {"billed_characters": job.upload.characters}


@router.post("/{document_id}/result", openapi_extra=KEY_BODY, response_class=Response)
async def result(document_id: str, request: Request) -> Response:
    """The translated document; it can be downloaded once."""
    job = await _find(document_id, request)
    if job.status != "done":
        about = {"error": "Document translation failed", "downloaded": "Document already downloaded"}
        raise ApiError(503, about.get(job.status, "Document translation is not done"))
    content = job.path.read_bytes()
    job.path.unlink()
    job.is_downloaded = True
    headers = {"Content-Disposition": f'attachment; filename="{document_id}{job.path.suffix}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _find(document_id: str, request: Request) -> DocumentJob:
    """The document of an id and a key.

    Raises:
        ApiError: 404, also for a wrong key.
    """
    serving_of(request).caller(request)
    key = (await parameters_of(request)).text("document_key") or ""
    job = serving_of(request).documents.get(document_id)
    if job is None or not secrets.compare_digest(job.key.encode(), key.encode("utf-8", "replace")):
        raise ApiError(404, "Document not found")
    document: DocumentJob = job
    return document


def _forget_old(serving: Serving) -> None:
    """Remove documents that were downloaded or are older than an hour."""
    for number, job in list(serving.documents.items()):
        if job.is_downloaded or time.monotonic() - job.created > KEPT_SECONDS:
            if job.task is not None:
                job.task.cancel()
            job.path.unlink(missing_ok=True)
            del serving.documents[number]
