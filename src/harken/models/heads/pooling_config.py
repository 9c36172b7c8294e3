"""The words of a recipe for what makes one vector of the states of all steps."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harken.models.config_table import ScoreName


class PoolingConfig(BaseModel):
    """Pooling: from the states of all steps to one vector."""

    model_config = ConfigDict(extra="forbid")

    pooling: Literal["last", "mean", "max", "attention"] = Field(
        "attention", description="pooling of the states of all steps"
    )
    score: ScoreName = Field("additive", description="attention pooling: score function")
