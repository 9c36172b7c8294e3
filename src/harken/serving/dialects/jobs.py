"""The native API of the other jobs: one route for each."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile

from harken.errors import UserError
from harken.serving.context import Serving, serving_of
from harken.serving.dialects.native import ERRORS, Caller, ResultsAnswer, results_of, server_sent
from harken.serving.dialects.schemas import (
    AnswerBody,
    Body,
    FillBody,
    ForecastBody,
    GenerateBody,
    TagBody,
    TextsBody,
    VectorsBody,
    WriteBody,
)
from harken.serving.errors import ApiError
from harken.serving.registry import ServedModel

router = APIRouter(prefix="/v1", responses=ERRORS)


def find(serving: Serving, name: str | None, task: str) -> ServedModel:
    """A model of a job.

    Raises:
        ApiError: there is none.
    """
    try:
        return serving.registry.find(name, task)
    except UserError as error:
        raise ApiError(400, str(error)) from None


def _inputs(serving: Serving, body: TextsBody) -> list[Any]:
    """Texts or signals of a request.

    Raises:
        ApiError: neither, both, or too many.
    """
    if (body.text is None) == (body.signals is None):
        raise ApiError(400, "give either text or signals")
    if body.signals is not None:
        if len(body.signals) > serving.settings.max_texts:
            raise ApiError(400, f"send at most {serving.settings.max_texts:,} signals at a time")
        for signal in body.signals:
            if not signal or not signal[0] or len({len(frame) for frame in signal}) != 1:
                raise ApiError(400, "a signal is a list of frames with the same number of channels")
        return list(body.signals)
    return [body.text] if isinstance(body.text, str) else list(body.text or [])


def _texts(serving: Serving, text: str | list[str]) -> list[dict[str, Any]]:
    return [{"text": one} for one in ([text] if isinstance(text, str) else text)]


@router.post("/classify", tags=["native"], response_model=ResultsAnswer)
async def classify(body: TextsBody, request: Request, client: Caller) -> Any:
    """The probability of every class for texts or signals."""
    serving = serving_of(request)
    items = [{"text": one} for one in _inputs(serving, body)]
    return await results_of(request, client, find(serving, body.model, "classify"), "classify", {}, items, body)


@router.post("/regress", tags=["native"], response_model=ResultsAnswer)
async def regress(body: TextsBody, request: Request, client: Caller) -> Any:
    """A number for texts or signals."""
    serving = serving_of(request)
    items = [{"text": one} for one in _inputs(serving, body)]
    return await results_of(request, client, find(serving, body.model, "regress"), "regress", {}, items, body)


@router.post("/tag", tags=["native"], response_model=ResultsAnswer)
async def tag(body: TagBody, request: Request, client: Caller) -> Any:
    """A tag for every word of texts, or every frame of signals."""
    serving = serving_of(request)
    items = [{"text": one} for one in _inputs(serving, body)]
    options = {"scores": body.scores}
    return await results_of(request, client, find(serving, body.model, "tag"), "tag", options, items, body)


@router.post("/generate", tags=["native"], response_model=ResultsAnswer)
async def generate(body: GenerateBody, request: Request, client: Caller) -> Any:
    """Continuations of a prompt by a language model; or a stream of tokens."""
    serving = serving_of(request)
    model = find(serving, body.model, "language")
    if body.length * body.count > 20_000:
        raise ApiError(400, "length times count is at most 20,000 tokens")
    options = body.model_dump(exclude={"text", "model", "timeout", "stream"})
    if body.stream:
        if body.count != 1:
            raise ApiError(400, "a stream has one continuation; leave count out")
        return await server_sent(serving, client, model, "generate", options, {"text": body.text})
    return await results_of(request, client, model, "generate", options, [{"text": body.text}], body)


@router.post("/fill", tags=["native"], response_model=ResultsAnswer)
async def fill(body: FillBody, request: Request, client: Caller) -> Any:
    """The likeliest tokens for every [MASK], by a masked model."""
    serving = serving_of(request)
    items = _texts(serving, body.text)
    model = find(serving, body.model, "masked")
    return await results_of(request, client, model, "fill", {"count": body.count}, items, body)


@router.post("/vectors", tags=["native"], response_model=ResultsAnswer)
async def vectors(body: VectorsBody, request: Request, client: Caller) -> Any:
    """The vector of every word in its sentence, by an ELMo."""
    serving = serving_of(request)
    items = _texts(serving, body.text)
    model = find(serving, body.model, "elmo")
    return await results_of(request, client, model, "vectors", {"layers": body.layers}, items, body)


@router.post("/answer", tags=["native"], response_model=ResultsAnswer)
async def answer(body: AnswerBody, request: Request, client: Caller) -> Any:
    """The answer to a question about facts, with the attention of every hop."""
    serving = serving_of(request)
    items = [{"facts": body.facts, "question": body.question}]
    return await results_of(request, client, find(serving, body.model, "answer"), "answer", {}, items, body)


@router.post("/forecast", tags=["native"], response_model=ResultsAnswer)
async def forecast(body: ForecastBody, request: Request, client: Caller) -> Any:
    """Quantiles of the coming steps of a series."""
    serving = serving_of(request)
    items = [{"past": body.past, "covariates": body.covariates, "steps": body.steps, "at": body.at}]
    return await results_of(request, client, find(serving, body.model, "forecast"), "forecast", {}, items, body)


@router.post("/write", tags=["native"], response_model=ResultsAnswer)
async def write(body: WriteBody, request: Request, client: Caller) -> Any:
    """Pen strokes for a text, by a handwriting model."""
    serving = serving_of(request)
    options = {"bias": body.bias, "seed": body.seed}
    model = find(serving, body.model, "handwriting")
    return await results_of(request, client, model, "write", options, [{"text": body.text}], body)


Upload = Annotated[UploadFile, File(description="the file")]
ModelName = Annotated[str | None, Form(max_length=200, description="name of the model")]
BeamWidth = Annotated[int | None, Form(ge=1, le=64, description="live hypotheses; 1 is greedy search")]


@router.post("/transcribe", tags=["native"], response_model=ResultsAnswer)
async def transcribe(
    request: Request,
    client: Caller,
    file: Upload,
    model: ModelName = None,
    beam: BeamWidth = None,
    posteriors: Annotated[bool, Form(description="also spectrogram and probabilities of symbols over time")] = False,
) -> Any:
    """What is said in a sound file (WAV and what soundfile reads)."""
    serving = serving_of(request)
    item = {"data": await file.read(), "name": file.filename or "sound.wav"}
    options = {"posteriors": posteriors, "search": {} if beam is None else {"beam": beam}}
    found = find(serving, model, "transcribe")
    return await results_of(request, client, found, "transcribe", options, [item], Body(model=None, timeout=None))


@router.post("/caption", tags=["native"], response_model=ResultsAnswer)
async def caption(
    request: Request, client: Caller, file: Upload, model: ModelName = None, beam: BeamWidth = None
) -> Any:
    """A caption of an image (PNG or JPEG), with a map of attention for each word."""
    serving = serving_of(request)
    item = {"data": await file.read(), "name": file.filename or "image.png"}
    options = {"search": {} if beam is None else {"beam": beam}}
    found = find(serving, model, "caption")
    return await results_of(request, client, found, "caption", options, [item], Body(model=None, timeout=None))
