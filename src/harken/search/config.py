"""What the `[search]` section of a recipe may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SearchConfig(BaseModel):
    """How an output is looked for."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(5, ge=1, description="live hypotheses per sentence; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="scores are divided by length to this power")
    stopping: Literal["exact", "count"] = Field(
        default="count",
        description="exact: until nothing better can come; count: until `beam` hypotheses have ended, faster",
    )
    max_length_factor: float = Field(2.0, gt=0, description="longest output, as a multiple of the source's pieces ...")
    max_length_extra: int = Field(10, ge=1, description="... plus this many")
    goal: Literal["bleu", "exact_match"] = Field(
        default="bleu",
        description="what says on the validation sentences which weights are best: BLEU, or outputs right as a whole",
    )
    batch_sentences: int = Field(64, ge=1, description="sentences searched at once")
