"""The `[search]` section of a recipe, which is also what the command line and Python take."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harken.errors import UserError
from harken.paths import PathStr
from harken.search.conflicts import OF_OPTIONS, OF_TRANSLATION, Conflict, conflict_of
from harken.search.descriptions import OPTIONS


def _with_implied(values: dict[str, Any]) -> dict[str, Any]:
    """Values with those that follow from them: `patience` counts hypotheses, so it sets the stopping rule."""
    counts = values.get("patience", 1) != 1 and "stopping" not in values
    return {**values, "stopping": "count"} if counts else values


class SearchOptions(BaseModel):
    """How to search: one source of truth for recipes, the command line and Python."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    conflicts: ClassVar[tuple[Conflict, ...]] = OF_OPTIONS

    beam: int = Field(5, ge=1, le=1000, description=OPTIONS["beam"].description)
    length_penalty: float = Field(1.0, ge=0, description=OPTIONS["length_penalty"].description)
    length_rule: Literal["power", "gnmt"] = Field("power", description=OPTIONS["length_rule"].description)
    word_reward: float = Field(0.0, description=OPTIONS["word_reward"].description)
    coverage_penalty: float = Field(0.0, ge=0, description=OPTIONS["coverage_penalty"].description)
    stopping: Literal["exact", "count", "first"] = Field(default="exact", description=OPTIONS["stopping"].description)
    patience: float = Field(1.0, gt=0, description=OPTIONS["patience"].description)
    min_length: int = Field(0, ge=0, description=OPTIONS["min_length"].description)
    no_repeat_ngram: int = Field(0, ge=0, description=OPTIONS["no_repeat_ngram"].description)
    repetition_penalty: float = Field(1.0, ge=1, description=OPTIONS["repetition_penalty"].description)
    unknown_penalty: float = Field(0.0, ge=0, description=OPTIONS["unknown_penalty"].description)
    diversity_groups: int = Field(1, ge=1, description=OPTIONS["diversity_groups"].description)
    diversity: float = Field(0.5, ge=0, description=OPTIONS["diversity"].description)
    sample: bool = Field(False, description=OPTIONS["sample"].description)
    temperature: float = Field(1.0, ge=0, description=OPTIONS["temperature"].description)
    top_k: int | None = Field(None, ge=1, description=OPTIONS["top_k"].description)
    top_p: float | None = Field(None, gt=0, le=1, description=OPTIONS["top_p"].description)
    min_p: float | None = Field(None, ge=0, le=1, description=OPTIONS["min_p"].description)
    seed: int = Field(0, ge=0, lt=2**63, description=OPTIONS["seed"].description)
    time_limit: float | None = Field(None, gt=0, description=OPTIONS["time_limit"].description)
    precision: Literal["float32", "int8", "auto"] = Field("float32", description=OPTIONS["precision"].description)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: Any) -> Any:
        return _with_implied(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if reason := conflict_of(self, self.conflicts):
            raise ValueError(reason)
        return self

    def changed(self, changes: dict[str, Any]) -> Self:
        """A copy with other values, validated.

        Raises:
            UserError: an unknown option, or one that does not fit; with the reason.
        """
        known = type(self).model_fields
        for name in changes:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
                raise UserError(f"there is no option of the search called {name!r}; {hint}")
        try:
            return type(self).model_validate({**self.model_dump(), **_with_implied(changes)})
        except ValidationError as problem:
            first = problem.errors()[0]
            key = "".join(f"search.{part}: " for part in first["loc"][:1])
            raise UserError(f"{key}{first['msg'].removeprefix('Value error, ')}") from None


class SearchConfig(SearchOptions):
    """Search of encoder-decoder models."""

    max_length_factor: float = Field(2.0, gt=0, description=OPTIONS["max_length_factor"].description)
    max_length_extra: int = Field(10, ge=1, description=OPTIONS["max_length_extra"].description)
    goal: Literal["bleu", "exact_match"] = Field(
        default="bleu",
        description="validation metric by which the best weights are chosen: BLEU, or the share of exact matches",
    )
    batch_sentences: int = Field(64, ge=1, description="sentences per batch")


class TranslationSearchConfig(SearchConfig):
    """Search of translators: also options that need words, files or other models."""

    conflicts: ClassVar[tuple[Conflict, ...]] = (*OF_OPTIONS, *OF_TRANSLATION)

    banned: list[str] = Field([], description=OPTIONS["banned"].description)
    glossary: PathStr | dict[str, str] | None = Field(None, description=OPTIONS["glossary"].description)
    language_model: PathStr | None = Field(None, description=OPTIONS["language_model"].description)
    lm_weight: float = Field(0.0, ge=0, description=OPTIONS["lm_weight"].description)
    shortlist: int = Field(0, ge=0, le=250, description=OPTIONS["shortlist"].description)
    mbr: Literal["chrf", "bleu"] | None = Field(None, description=OPTIONS["mbr"].description)
    mbr_candidates: int = Field(32, ge=2, description=OPTIONS["mbr_candidates"].description)
    rerank: PathStr | None = Field(None, description=OPTIONS["rerank"].description)
    rerank_weight: float = Field(0.5, ge=0, le=1, description=OPTIONS["rerank_weight"].description)
    rerank_reversed: bool = Field(False, description=OPTIONS["rerank_reversed"].description)

    @field_validator("glossary", mode="before")
    @classmethod
    def _is_glossary(cls, value: Any) -> Any:
        if value is None or isinstance(value, str | Mapping):
            return value
        raise ValueError(
            f"a {type(value).__name__} is no glossary; give a dict from source to target terms, such as "
            '{"letter": "message"}, or the path of a file with them'
        )


class CtcSearchConfig(BaseModel):
    """Decoding of CTC outputs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beam: int = Field(1, ge=1, description="prefixes kept at every step; 1: best path (greedy)")
    lm_order: int = Field(
        3,
        ge=1,
        description="order of the n-gram model of the training texts, which is saved with the model for the beam",
    )
    lm_weight: float = Field(0.0, ge=0, description="weight of the language model in the beam; 0: unused")
    bonus: float = Field(0.0, description="bonus per symbol, since language models prefer short texts")
    prune: float = Field(1e-4, ge=0, lt=1, description="symbols less probable than this at a step are skipped; 0: none")
    batch: int = Field(16, ge=1, description="recordings per batch")
