"""`[model]` of a forecaster: an encoder of the past, the base forecast, and the quantiles."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

from harken.models.config import (
    ConvolutionalEncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)


class ForecastOptions(BaseModel):
    """Keys that all forecasters have."""

    base: Literal["smoothing", "seasonal", "last", "none"] = Field(
        "smoothing",
        description="the forecast that the network corrects: exponential smoothing trained with it, the value a season "
        "ago, the last value, or none: the mean of the window",
    )
    residual: bool = Field(
        True, description="the network adds to the base; false: it only mixes the smoothings and predicts the spread"
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


class RecurrentForecasterConfig(ForecastOptions, RecurrentEncoderConfig):
    """Forecaster with a recurrent encoder."""

    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="recurrent cell")
    bidirectional: bool | Literal["first"] = Field(False, description="bidirectional encoder")
    embedding: int = Field(32, ge=1, description="width of the input projection")
    width: int = Field(32, ge=2, description="hidden width")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on inputs, between layers and before the output")


class TransformerForecasterConfig(ForecastOptions, TransformerEncoderConfig):
    """Forecaster with a Transformer encoder."""

    layers: int = Field(2, ge=1, description="blocks")
    width: int = Field(32, ge=2, description="model width")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`")
    feedforward: int = Field(64, ge=1, description="width inside the feed-forward layer")


class ConvolutionalForecasterConfig(ForecastOptions, ConvolutionalEncoderConfig):
    """Forecaster with a convolutional encoder."""

    width: int = Field(32, ge=2, description="hidden width")
    embedding: int = Field(32, ge=1, description="width of the input projection")


AnyForecasterConfig = RecurrentForecasterConfig | TransformerForecasterConfig | ConvolutionalForecasterConfig
ForecasterConfig = Annotated[AnyForecasterConfig, Field(discriminator="architecture")]
