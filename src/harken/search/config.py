"""The `[search]` section of a recipe, which is also what the command line and Python take."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harken.errors import UserError

PLAIN = {"beam", "length_penalty", "stopping", "seed"}  # what every decoding backend supports
SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None}  # options of sampling, and their defaults


class SearchOptions(BaseModel):
    """How to search: one source of truth for recipes, the command line and Python."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(5, ge=1, le=1000, description="beam width; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="scores are divided by length to this power")
    length_rule: Literal["power", "gnmt"] = Field(
        "power", description="power: divide by length ** length_penalty; gnmt: by ((5 + length) / 6) ** length_penalty"
    )
    word_reward: float = Field(0.0, description="added to the final score for every token; negative: a penalty")
    coverage_penalty: float = Field(
        0.0, ge=0, description="weight of the coverage of the source by attention in the final score (Wu et al., 2016)"
    )
    stopping: Literal["exact", "count", "first"] = Field(
        default="count",
        description="exact: until no better hypothesis is possible; count: until beam * patience hypotheses have "
        "ended, faster; first: until one has ended that beats all live ones",
    )
    patience: float = Field(1.0, gt=0, description="stopping = count: beam * patience hypotheses must end")
    min_length: int = Field(0, ge=0, description="fewest tokens of an output")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this many tokens twice; 0: off")
    repetition_penalty: float = Field(
        1.0, ge=1, description="log-probabilities of tokens written before are multiplied by this"
    )
    unknown_penalty: float = Field(0.0, ge=0, description="subtracted for every unknown word; inf: none is written")
    diversity_groups: int = Field(1, ge=1, description="groups of the beam that avoid each other's tokens")
    diversity: float = Field(0.5, ge=0, description="how much they avoid them, with diversity_groups above 1")
    sample: bool = Field(False, description="draw outputs at random instead of searching for the best")
    temperature: float = Field(1.0, ge=0, description="sampling: below 1 sharper, above 1 flatter")
    top_k: int | None = Field(None, ge=1, description="sampling: only from this many most probable tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sampling: only from the most probable tokens of this mass"
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="sampling: only from tokens this probable beside the best"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="sampling: the same seed gives the same outputs")
    time_limit: float | None = Field(
        None, gt=0, description="seconds for a batch, after which the search ends with what it has"
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.diversity_groups > 1 and self.beam % self.diversity_groups:
            raise ValueError(
                f"search.diversity_groups is {self.diversity_groups}, which does not divide search.beam = {self.beam}"
            )
        if self.sample and self.diversity_groups > 1:
            raise ValueError("search.diversity_groups is for beam search; leave it out where search.sample is true")
        given = [name for name, default in SAMPLING.items() if getattr(self, name) != default]
        if given and not self.sample:
            raise ValueError(f"search.{given[0]} is for sampling; also set search.sample = true")
        if self.patience != 1 and self.stopping != "count":
            raise ValueError('search.patience is for search.stopping = "count"; leave it out')
        return self

    @property
    def is_plain(self) -> bool:
        """Whether nothing but `PLAIN` differs from the defaults: what every decoding backend supports."""
        defaults, names = SearchOptions(), SearchOptions.model_fields.keys() - PLAIN
        return self.stopping != "first" and all(getattr(self, name) == getattr(defaults, name) for name in names)

    def changed(self, changes: dict[str, Any]) -> Self:
        """A copy with other values, validated.

        Raises:
            UserError: an unknown option, or one that does not fit; with the reason.
        """
        known = type(self).model_fields
        for name in changes:
            if name not in known:
                raise UserError(f"there is no option of the search called {name!r}; choose from {', '.join(known)}")
        try:
            return type(self).model_validate({**self.model_dump(), **changes})
        except ValidationError as problem:
            first = problem.errors()[0]
            place = "".join(f"search.{part}: " for part in first["loc"][:1])
            raise UserError(f"{place}{first['msg'].removeprefix('Value error, ')}") from None


class SearchConfig(SearchOptions):
    """Search of encoder-decoder models."""

    max_length_factor: float = Field(
        2.0, gt=0, description="longest output, as a multiple of the source's length in pieces"
    )
    max_length_extra: int = Field(10, ge=1, description="constant added to the longest output")
    goal: Literal["bleu", "exact_match"] = Field(
        default="bleu",
        description="validation metric by which the best weights are chosen: BLEU, or the share of exact matches",
    )
    batch_sentences: int = Field(64, ge=1, description="sentences per batch")


class TranslationSearchConfig(SearchConfig):
    """Search of translators: also options that need words, files or other models."""

    banned: list[str] = Field([], description="words and phrases that are never written")
    glossary: str | None = Field(
        None,
        description="file of source TAB target lines; where the source has the left, the output has the right side",
    )
    language_model: str | None = Field(
        None, description="folder of a language model over the target's tokens, for shallow fusion"
    )
    lm_weight: float = Field(0.0, ge=0, description="weight of the language model's log-probabilities")
    mbr: Literal["chrf", "bleu"] | None = Field(
        None, description="minimum Bayes risk: of the candidates choose the one most like the others by this metric"
    )
    mbr_candidates: int = Field(32, ge=2, description="candidates of minimum Bayes risk: samples, or the n-best list")

    @model_validator(mode="after")
    def _models_are_there(self) -> Self:
        if self.lm_weight and self.language_model is None:
            raise ValueError("search.lm_weight needs search.language_model, the folder of a language model")
        return self


class CtcSearchConfig(BaseModel):
    """Decoding of CTC outputs."""

    model_config = ConfigDict(extra="forbid")

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
