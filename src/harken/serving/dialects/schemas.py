"""The bodies of native requests, derived from the operations of jobs; some have the options of the recipe's [search]
table, within limits."""

from __future__ import annotations

from dataclasses import MISSING
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from harken.search.config import TranslationSearchConfig
from harken.serving.settings import MAX_CANDIDATES, MAX_LENGTH_EXTRA, MAX_LENGTH_FACTOR
from harken.tasks.interface import MAX_SERVED_BEAM, Files, Interface, Operation, fields_of
from harken.tasks.interface import Field as OptionField

FILES = {"glossary", "language_model", "lm_weight", "rerank", "rerank_weight", "rerank_reversed"}  # read server files
OWN = {"goal", "batch_sentences"}  # no options of a request
MOST: dict[str, float] = {  # the largest values that a client may choose
    "beam": MAX_SERVED_BEAM, "mbr_candidates": MAX_CANDIDATES, "max_length_factor": MAX_LENGTH_FACTOR,
    "max_length_extra": MAX_LENGTH_EXTRA, "min_length": MAX_LENGTH_EXTRA, "length_penalty": 10.0, "word_reward": 100.0,
    "coverage_penalty": 100.0, "patience": 100.0, "no_repeat_ngram": 100, "repetition_penalty": 100.0,
    "unknown_penalty": 10_000.0, "diversity_groups": MAX_SERVED_BEAM, "diversity": 100.0, "temperature": 100.0,
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


Search: type[Body] = create_model("Search", __base__=Body, **_search_fields())
SEARCH_KEYS = frozenset(Search.model_fields) - frozenset(Body.model_fields)


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
def options_model(operation: Operation) -> type[BaseModel]:
    """The options of an operation that a request may have."""
    fields: dict[str, Any] = {name: field_of(field) for name, field in request_fields(operation.options).items()}
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(f"{operation.verb.capitalize()}Options", __config__=config, **fields)


@cache
def body_of(operation: Operation) -> type[Body]:
    """The body of a request to the route of an operation: its input, its options, where it takes them those of a
    search, and where its results can be streamed whether they are."""
    fields = {} if isinstance(operation.input, Files) else dict(fields_of(operation.input.request))
    fields |= request_fields(operation.options)
    known: dict[str, Any] = {name: field_of(field) for name, field in fields.items()}
    if isinstance(operation, Interface) and operation.is_streamed:
        known["stream"] = (bool, Field(False, description="server-sent events: parts of one result"))
    base = Search if operation.takes_search else Body
    body: type[Body] = create_model(f"{operation.verb.capitalize()}Body", __base__=base, **known)
    body.__doc__ = f"POST /v1/{operation.verb}."
    return body


def search_of(body: BaseModel) -> dict[str, Any]:
    """The options of the search that a request gives."""
    given = ((name, getattr(body, name)) for name in sorted(SEARCH_KEYS & body.model_fields_set))
    return {name: value for name, value in given if value is not None}
