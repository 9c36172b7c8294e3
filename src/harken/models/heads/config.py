"""Configs of heads over an encoder and of the handwriting model; no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harken.models.config_table import ScoreName


class PoolingConfig(BaseModel):
    """How the states of all steps become one vector (`harken.models.heads.pooling`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pooling: Literal["last", "mean", "max", "attention"] = Field(
        "attention", description="pooling of the states of all steps"
    )
    score: ScoreName = Field("additive", description="attention pooling: score function")


class PenConfig(BaseModel):
    """Stacked LSTMs with a mixture density, and a soft window over the text (Graves, 2013)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: int = Field(160, ge=1, description="hidden width of each LSTM layer")
    layers: int = Field(2, ge=1, description="LSTM layers")
    mixtures: int = Field(10, ge=1, description="mixture components for the next point")
    window: int = Field(6, ge=0, description="mixture components of the window over the text; 0: unconditional")
    pace: float = Field(14.0, gt=0, description="initial number of points per character, for the window's speed")
    embedding: int = Field(32, ge=1, description="width of character embeddings")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the outputs of the layers")

    @property
    def title(self) -> str:
        """For the card."""
        kind = f", a window of {self.window} Gaussians" if self.window else ""
        return f"{self.layers} LSTM layers of {self.width}, {self.mixtures} Gaussians{kind}"
