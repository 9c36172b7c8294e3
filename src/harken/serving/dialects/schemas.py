"""The bodies of native requests. Search options are those of the recipe's [search] table, within limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, create_model

from harken.search.config import TranslationSearchConfig
from harken.serving.settings import MAX_BEAM, MAX_CANDIDATES, MAX_LENGTH_EXTRA, MAX_LENGTH_FACTOR

FILES = {"glossary", "language_model", "lm_weight", "rerank", "rerank_weight", "rerank_reversed"}  # read server files
OWN = {"goal", "batch_sentences"}  # no options of a request
MOST: dict[str, float] = {  # the largest values that a client may choose
    "beam": MAX_BEAM, "mbr_candidates": MAX_CANDIDATES, "max_length_factor": MAX_LENGTH_FACTOR,
    "max_length_extra": MAX_LENGTH_EXTRA, "min_length": MAX_LENGTH_EXTRA, "length_penalty": 10.0, "word_reward": 100.0,
    "coverage_penalty": 100.0, "patience": 100.0, "no_repeat_ngram": 100, "repetition_penalty": 100.0,
    "unknown_penalty": 10_000.0, "diversity_groups": MAX_BEAM, "diversity": 100.0, "temperature": 100.0,
    "top_k": 1_000_000, "time_limit": 600.0,
}  # fmt: skip


def _search_fields() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in TranslationSearchConfig.model_fields.items():
        if name in FILES | OWN:
            continue
        kind: Any = field.annotation
        bounds = [one for one in field.metadata if not (name in MOST and isinstance(one, annotated_types.Le))]
        for one in bounds:
            kind = Annotated[kind, one]
        if name in MOST:
            kind = Annotated[kind, annotated_types.Le(MOST[name])]
        if name == "word_reward":
            kind = Annotated[kind, annotated_types.Ge(-MOST[name])]
        if name == "banned":
            kind = Annotated[list[Annotated[str, Field(max_length=1000)]], annotated_types.MaxLen(100)]
        found[name] = (kind | None, Field(None, description=field.description))
    return found


class Body(BaseModel):
    """What all native requests share."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str | None = Field(None, description="name of the model; default: the first of its job", max_length=200)
    timeout: float | None = Field(None, gt=0, le=3600, description="seconds to wait at most")


Search: Any = create_model("Search", __base__=Body, **_search_fields())
SEARCH_KEYS = frozenset(Search.model_fields) - frozenset(Body.model_fields)
Phrase = Annotated[str, Field(min_length=1, max_length=1000)]


class MaskedHead(BaseModel):
    """An attention head, counted from 0."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["cross", "encoder", "decoder"] = Field(description="attention to the source, or self-attention")
    layer: int = Field(ge=0, le=1000)
    head: int = Field(ge=0, le=1000)


class TranslateBody(Search):
    """POST /v1/translate."""

    text: str | list[str] = Field(description="one text, or several; each is translated as one sentence")
    source: str | None = Field(None, max_length=20, description="language code, where no model is named")
    target: str | None = Field(
        None, max_length=20, description="language code; a pair without a model goes through a third language"
    )
    nbest: int = Field(1, ge=1, le=MAX_BEAM, description="translations of each text")
    prefix: str | list[str] | None = Field(None, description="how translations begin: one for all, or one for each")
    require: list[Phrase] = Field([], max_length=20, description="phrases that every translation must contain")
    glossary: list[tuple[Phrase, Phrase]] = Field([], max_length=1000, description="pairs of source and target terms")
    attention: bool = Field(False, description="also weights of target words over source words, and links")
    alignment: bool = Field(False, description="also links of source and target words")
    tokens: bool = Field(False, description="also every piece with its log-probability and its word")
    masked_heads: list[MaskedHead] = Field([], max_length=512, description="attention heads that contribute nothing")
    stream: bool = Field(False, description="server-sent events: parts of one translation as they become certain")


class AttentionBody(Search):
    """POST /v1/attention."""

    text: str = Field(description="a sentence")
    target: str | None = Field(None, description="a translation to look at; default: the model's own")
    kind: Literal["cross", "encoder", "decoder"] | None = Field(None, description="which attention; default: all")
    layer: int | None = Field(None, ge=0, description="this layer alone, counted from 0")
    head: int | None = Field(None, ge=0, description="this head alone, counted from 0")


class BeamBody(Search):
    """POST /v1/beam."""

    text: str = Field(description="a sentence")
    prefix: str | None = Field(None, description="how the translation begins")
    require: list[Phrase] = Field([], max_length=20, description="phrases that the translation must contain")
    glossary: list[tuple[Phrase, Phrase]] = Field([], max_length=1000, description="pairs of source and target terms")


class AlternativesBody(Search):
    """POST /v1/alternatives."""

    text: str = Field(description="a sentence")
    prefix: str = Field("", description="the beginning of the translation that is kept")
    count: int = Field(5, ge=1, le=MAX_BEAM, description="alternatives for what follows the prefix")


class GatesBody(Body):
    """POST /v1/gates."""

    text: str = Field(max_length=1000, description="what the model reads")
    target: str | None = Field(None, max_length=1000, description="translators: what the decoder reads")
    units: bool = Field(False, description="every unit, and not summaries alone")


class ScoreBody(Body):
    """POST /v1/score."""

    text: str | list[str] = Field(description="texts; for a translator the sources")
    target: str | list[str] | None = Field(None, description="translators: the translation of each text")


class TextsBody(Body):
    """Jobs that read texts or signals."""

    text: str | list[str] | None = Field(None, description="one text, or several")
    signals: list[list[list[float]]] | None = Field(None, description="models of signals: frames (T, C) of each")


class TagBody(TextsBody):
    """POST /v1/tag."""

    scores: bool = Field(False, description="also the probability of every tag at every word")


class FillBody(Body):
    """POST /v1/fill."""

    text: str | list[str] = Field(description="texts with [MASK] in place of words")
    count: int = Field(5, ge=1, le=1000, description="tokens for each gap")


class VectorsBody(Body):
    """POST /v1/vectors."""

    text: str | list[str] = Field(description="sentences")
    layers: bool = Field(False, description="a vector of every layer, and not their mean")


class AnswerBody(Body):
    """POST /v1/answer."""

    facts: list[str] = Field(min_length=1, max_length=1000, description="sentences, oldest first")
    question: str = Field(description="a question about them")


class GenerateBody(Body):
    """POST /v1/generate."""

    text: str = Field("", description="the prompt")
    length: int = Field(200, ge=1, le=2000, description="tokens to write")
    count: int = Field(1, ge=1, le=64, description="continuations")
    temperature: float = Field(1.0, ge=0, le=100, description="below 1 safer, above 1 bolder; 0: the likeliest token")
    top_k: int | None = Field(None, ge=1, le=1_000_000, description="draw from so many likeliest tokens alone")
    top_p: float | None = Field(None, gt=0, le=1, description="draw from the fewest tokens with this probability")
    min_p: float | None = Field(None, ge=0, le=1, description="draw from tokens this probable beside the likeliest")
    seed: int = Field(0, ge=0, lt=2**63, description="the same seed gives the same text")
    line: bool = Field(False, description="stop at the end of a line")
    stream: bool = Field(False, description="server-sent events, one for each token")


class ForecastBody(Body):
    """POST /v1/forecast."""

    past: list[float] | dict[str, list[Any]] | None = Field(
        None, description="numbers, or a table by columns; default: the end of the training series"
    )
    covariates: list[list[float]] | None = Field(None, description="(steps, covariates) that are known ahead")
    steps: int | None = Field(None, ge=1, le=1000, description="how many; default: the recipe's horizon")
    at: Literal["end", "test"] = Field("end", description="without a past: after the data, or at its held-out part")


class WriteBody(Body):
    """POST /v1/write."""

    text: str = Field("", max_length=1000, description="what to write; empty for models that draw from nothing")
    bias: float | None = Field(None, ge=0, le=100, description="0 draws from the density itself, more is neater")
    seed: int = Field(1, ge=0, lt=2**63, description="the same seed gives the same strokes")
