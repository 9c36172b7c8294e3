"""`[model]` of a forecaster: an encoder that reads the past, and what is made of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

from harken.models.config_encoder import (
    ConvolutionalEncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)


class ForecastWords(BaseModel):
    """Keys that every forecaster has."""

    base: Literal["smoothing", "seasonal", "last", "none"] = Field(
        "smoothing",
        description=(
            "base forecast: learned exponential smoothing, the value one season ago, the last value, or "
            "none (the mean of the window)"
        ),
    )
    residual: bool = Field(
        True,
        description=(
            "add a learned residual to the base; false: only mix the base forecasts and predict their quantiles"
        ),
    )
    strategy: Literal["direct", "recursive"] = Field(
        "direct", description="forecast all steps of the horizon at once, or one step that is fed back"
    )
    quantiles: list[float] = Field(
        [0.1, 0.5, 0.9], description="quantiles to forecast, in rising order, including 0.5; [0.5]: a point forecast"
    )
    members: int = Field(1, ge=1, description="ensemble size; the forecast is the mean")

    @field_validator("quantiles")
    @classmethod
    def _quantiles_rise(cls, values: list[float]) -> list[float]:
        inside = all(0 < value < 1 for value in values)
        if 0.5 not in values or not inside or any(low >= high for low, high in pairwise(values)):
            raise ValueError(f"model.quantiles is {values}; give numbers between 0 and 1 that rise, 0.5 among them")
        return values

    def head_parameters(self, width: int, steps: int, known: int) -> int:
        """Of one member, beside its encoder: queries, what is known ahead, two layers, and the mixture."""
        queries = steps * width + (known * width if known else 0)
        smoothing = 4 + 4 + 4 * width + 4 if self.base == "smoothing" else 0
        return queries + 2 * width * width + width + (width + 1) * len(self.quantiles) + smoothing


class RecurrentForecasterConfig(ForecastWords, RecurrentEncoderConfig):
    """Forecaster with a recurrent encoder."""

    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="recurrent cell")
    bidirectional: bool | Literal["first"] = Field(False, description="bidirectional encoder")
    embedding: int = Field(32, ge=1, description="width of the input projection")
    width: int = Field(32, ge=2, description="hidden width")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on inputs, between layers and before the output")


class TransformerForecasterConfig(ForecastWords, TransformerEncoderConfig):
    """Forecaster with a Transformer encoder."""

    layers: int = Field(2, ge=1, description="blocks")
    width: int = Field(32, ge=2, description="model width")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`")
    feedforward: int = Field(64, ge=1, description="width inside the feed-forward layer")


class ConvolutionalForecasterConfig(ForecastWords, ConvolutionalEncoderConfig):
    """Forecaster with a convolutional encoder."""

    width: int = Field(32, ge=2, description="hidden width")
    embedding: int = Field(32, ge=1, description="width of the input projection")


AnyForecasterConfig = RecurrentForecasterConfig | TransformerForecasterConfig | ConvolutionalForecasterConfig
ForecasterConfig = Annotated[AnyForecasterConfig, Field(discriminator="architecture")]
