"""The `[search]` section of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PLAIN = {"beam", "length_penalty", "stopping", "precision"}


class SearchOptions(BaseModel):
    """How to search: one source of truth for recipes, the command line and Python."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(5, ge=1, description="beam width; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="scores are divided by length to this power")
    stopping: Literal["exact", "count"] = Field(
        default="count",
        description="exact: until no better hypothesis is possible; count: until `beam` hypotheses have ended, faster",
    )
    precision: Literal["float32", "int8", "auto"] = Field(
        default="float32",
        description=(
            "int8: weights and activations of a Transformer in 8 bits on a CPU, two to four times as fast; auto: int8 "
            "where the model and the options allow it"
        ),
    )

    @property
    def is_plain(self) -> bool:
        """Whether nothing but `PLAIN` differs from the defaults: what every decoding backend supports."""
        defaults = SearchOptions()
        names = SearchOptions.model_fields.keys() - PLAIN
        return all(getattr(self, name) == getattr(defaults, name) for name in names)


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
