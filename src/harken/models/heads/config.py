"""Configs of heads over an encoder and of the handwriting model; no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class PoolingConfig(BaseModel):
    """How the states of all steps become one vector (`harken.models.heads.pooling`)."""

    model_config = ConfigDict(extra="forbid")

    pooling: Literal["last", "mean", "max", "attention"] = Field(
        "attention", description="how the states of all steps become one vector"
    )
    score: Literal["dot", "scaled", "multiplicative", "additive", "cosine"] = Field(
        "additive", description="attention: the score of each step"
    )


class PenConfig(BaseModel):
    """Stacked LSTMs with a mixture density, and a soft window over the text (Graves, 2013)."""

    model_config = ConfigDict(extra="forbid")

    width: int = Field(160, ge=1, description="units of each LSTM layer")
    layers: int = Field(2, ge=1, description="LSTM layers")
    mixtures: int = Field(10, ge=1, description="Gaussians for the next point")
    window: int = Field(6, ge=0, description="Gaussians of the window over the text; 0: the text is not read")
    pace: float = Field(14.0, gt=0, description="points of a character at first; the window learns its own pace")
    embedding: int = Field(32, ge=1, description="width of a character")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of the layers' outputs that is dropped in training")

    @property
    def title(self) -> str:
        """For the card."""
        kind = f", a window of {self.window} Gaussians" if self.window else ""
        return f"{self.layers} LSTM layers of {self.width}, {self.mixtures} Gaussians{kind}"
