"""What the `[search]` section of a recipe for transcription may say."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CtcSearchConfig(BaseModel):
    """How a text is found in what the network hears."""

    model_config = ConfigDict(extra="forbid")

    beam: int = Field(1, ge=1, description="prefixes kept at every step; 1: the best path alone (greedy)")
    lm_order: int = Field(
        3,
        ge=1,
        description="symbols in an n-gram of the training texts, which lies beside the model for the beam to use",
    )
    lm_weight: float = Field(0.0, ge=0, description="how much the beam heeds it; 0: not at all")
    bonus: float = Field(0.0, description="added for every symbol, as language models prefer short texts")
    prune: float = Field(
        1e-4, ge=0, lt=1, description="symbols less likely than this at a step are not tried; 0: all are"
    )
    batch: int = Field(16, ge=1, description="recordings heard at once")
