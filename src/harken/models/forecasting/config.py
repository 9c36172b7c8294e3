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
        "direct", description="all steps of the horizon at once, or one step that is fed back"
    )
    quantiles: list[float] = Field(
        [0.1, 0.5, 0.9], description="what is forecast, in rising order with 0.5 among them; [0.5]: a point alone"
    )
    members: int = Field(1, ge=1, description="networks trained at once; their mean is the forecast")

    @field_validator("quantiles")
    @classmethod
    def _quantiles_rise(cls, values: list[float]) -> list[float]:
        inside = all(0 < value < 1 for value in values)
        if 0.5 not in values or not inside or any(low >= high for low, high in pairwise(values)):
            raise ValueError(f"model.quantiles is {values}; give numbers between 0 and 1 that rise, 0.5 among them")
        return values


class RecurrentForecasterConfig(ForecastOptions, RecurrentEncoderConfig):
    """Recurrent layers read the past."""

    cell: Literal["rnn", "lstm", "gru"] = Field("gru", description="recurrent cell")
    bidirectional: bool | Literal["first"] = Field(False, description="read the past in both directions")
    embedding: int = Field(32, ge=1, description="width of a step before the first layer")
    width: int = Field(32, ge=2, description="H, width of the states")
    dropout: float = Field(0.1, ge=0, lt=1, description="share zeroed on inputs, between layers and before the output")


class TransformerForecasterConfig(ForecastOptions, TransformerEncoderConfig):
    """Self-attention reads the past."""

    layers: int = Field(2, ge=1, description="blocks")
    width: int = Field(32, ge=2, description="D, width of the states")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`")
    feedforward: int = Field(64, ge=1, description="width inside the feed-forward layer")


class ConvolutionalForecasterConfig(ForecastOptions, ConvolutionalEncoderConfig):
    """Convolutions read the past."""

    width: int = Field(32, ge=2, description="width of the states")
    embedding: int = Field(32, ge=1, description="width of a step before the first layer")


AnyForecasterConfig = RecurrentForecasterConfig | TransformerForecasterConfig | ConvolutionalForecasterConfig
ForecasterConfig = Annotated[AnyForecasterConfig, Field(discriminator="architecture")]
