"""The bodies of native requests: of the jobs derived from their interfaces; of translators with the options of the
recipe's [search] table, within limits."""

from __future__ import annotations

from dataclasses import MISSING
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from harken.search.config import TranslationSearchConfig
from harken.serving.settings import MAX_BEAM, MAX_CANDIDATES, MAX_LENGTH_EXTRA, MAX_LENGTH_FACTOR
from harken.tasks.interface import Field as OptionField
from harken.tasks.interface import Files, Interface, fields_of

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
    fields: dict[str, Any] = {}
    for name, field in TranslationSearchConfig.model_fields.items():
        if name in FILES | OWN:
            continue
        kind: Any = field.annotation
        bounds = [bound for bound in field.metadata if not (name in MOST and isinstance(bound, annotated_types.Le))]
        for bound in bounds:
            kind = Annotated[kind, bound]
        if name in MOST:
            kind = Annotated[kind, annotated_types.Le(MOST[name])]
        if name == "word_reward":
            kind = Annotated[kind, annotated_types.Ge(-MOST[name])]
        if name == "banned":
            kind = Annotated[list[Annotated[str, Field(max_length=1000)]], annotated_types.MaxLen(100)]
        fields[name] = (kind | None, Field(None, description=field.description))
    return fields


class Body(BaseModel):
    """The common fields of all native requests."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str | None = Field(None, description="name of the model; default: the first of its job", max_length=200)
    timeout: float | None = Field(None, gt=0, le=3600, description="seconds to wait at most")

    @model_validator(mode="before")
    @classmethod
    def check_names(cls, values: Any) -> Any:
        """Refuse a field that there is not, with those of a similar name."""
        for name in values.keys() - cls.model_fields.keys() if isinstance(values, dict) else ():
            near = get_close_matches(name, cls.model_fields, n=1) if len(name) < 50 else []
            hint = f"did you mean {near[0]}?" if near else "/docs lists those of this request"
            context = {"name": name[:50], "hint": hint}
            raise PydanticCustomError("unknown_field", "{name}: there is no such field; {hint}", context)
        return values


if TYPE_CHECKING:

    class Search(Body):
        """The options of the search; only those that routes read by name are listed."""

        sample: bool | None

else:
    Search = create_model("Search", __base__=Body, **_search_fields())
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


def request_fields(options: type) -> dict[str, OptionField]:
    """The fields of a dataclass of options that a request may have."""
    return {name: field for name, field in fields_of(options).items() if field.option.in_request}


def field_of(field: OptionField) -> tuple[Any, Any]:
    """A field of an interface as pydantic takes it, within the bounds of requests."""
    option = field.option
    bounds = [bound for bound in (option.le, option.served_le) if bound is not None]
    limits = {"ge": option.ge, "gt": option.gt, "le": min(bounds, default=None)}
    limits |= {"min_length": option.min_length, "max_length": option.max_length}
    default = ... if field.default is MISSING else field.default
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if option.slider is not None:
        given["json_schema_extra"] = {"x-slider": list(option.slider)}
    return field.kind, Field(default, description=option.description, **given)


@cache
def options_model(interface: Interface) -> type[BaseModel]:
    """The options of a job that a request may have."""
    fields: dict[str, Any] = {name: field_of(field) for name, field in request_fields(interface.options).items()}
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(f"{interface.verb.capitalize()}Options", __config__=config, **fields)


@cache
def body_of(interface: Interface) -> type[Body]:
    """The body of a request to the route of a job: its input, its options and, where it can be, whether to stream."""
    fields = {} if isinstance(interface.input, Files) else dict(fields_of(interface.input.request))
    fields |= request_fields(interface.options)
    known: dict[str, Any] = {name: field_of(field) for name, field in fields.items()}
    if interface.is_streamed:
        known["stream"] = (bool, Field(False, description="server-sent events: parts of one result"))
    body: type[Body] = create_model(f"{interface.verb.capitalize()}Body", __base__=Body, **known)
    body.__doc__ = f"POST /v1/{interface.verb}."
    return body
