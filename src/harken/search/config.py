"""What the `[search]` section of a recipe may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SearchConfig(BaseModel):
    """Beam search."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(5, ge=1, description="beam width; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="scores are divided by length to this power")
    stopping: Literal["exact", "count"] = Field(
        default="count",
        description=(
            "exact: stop when no better hypothesis is possible; count: stop when `beam` hypotheses have "
            "ended, which is faster"
        ),
    )
    max_length_factor: float = Field(
        2.0, gt=0, description="longest output, as a multiple of the source's length in pieces"
    )
    max_length_extra: int = Field(10, ge=1, description="constant added to the longest output")
    goal: Literal["bleu", "exact_match"] = Field(
        default="bleu",
        description="validation metric that selects the best weights: BLEU, or exact matches",
    )
    batch_sentences: int = Field(64, ge=1, description="sentences per batch")
