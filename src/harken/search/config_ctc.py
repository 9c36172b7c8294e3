"""What the `[search]` section of a recipe for transcription may say."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CtcSearchConfig(BaseModel):
    """CTC decoding."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(1, ge=1, description="prefixes kept at every step; 1: best path (greedy)")
    lm_order: int = Field(
        3,
        ge=1,
        description="order of a symbol n-gram trained on the training texts, for beam search",
    )
    lm_weight: float = Field(0.0, ge=0, description="weight of the n-gram; 0: not used")
    bonus: float = Field(0.0, description="bonus per symbol, since language models prefer short texts")
    prune: float = Field(1e-4, ge=0, lt=1, description="prune symbols below this probability at a step; 0: none")
    batch: int = Field(16, ge=1, description="recordings per batch")
