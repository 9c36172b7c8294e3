"""What `[model]` may say where a job reads sequences and writes none: one encoder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.config_table import ModelTable
from harken.models.convolutional.config import ConvolutionalBlocksConfig
from harken.models.recurrent.config import RecurrentCellsConfig
from harken.models.transformer.config import TransformerBlocksConfig

START = "folder of a masked model (task masked) that initialises the encoder and the embeddings"


class RecurrentEncoderConfig(RecurrentCellsConfig):
    """Recurrent encoder, unidirectional or bidirectional."""

    architecture: Literal["recurrent"] = "recurrent"
    start: str | None = Field(None, description=START)
    bidirectional: bool | Literal["first"] = Field(
        True, description="bidirectional: in every layer, or only in the first"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentEncoderConfig:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"model.width {self.width} is odd; a bidirectional encoder gives each direction half of it"
            )
        return self


class TransformerEncoderConfig(TransformerBlocksConfig):
    """Transformer encoder."""

    no_dependency_trees = 'model.positions is "dependency", which only translation has trees for; choose another'
    architecture: Literal["transformer"] = "transformer"
    start: str | None = Field(None, description=START)


class ConvolutionalEncoderConfig(ConvolutionalBlocksConfig):
    """Convolutional encoder with centred kernels."""

    architecture: Literal["convolutional"] = "convolutional"
    start: str | None = Field(None, description=START)

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> ConvolutionalEncoderConfig:
        if self.kernel % 2 == 0:
            raise ValueError(
                f"model.kernel {self.kernel} is even; the encoder's is centred on a word, so choose {self.kernel + 1}"
            )
        return self


class FiltersEncoderConfig(ModelTable):
    """One layer of convolution filters of several widths (Kim, 2014)."""

    architecture: Literal["filters"] = "filters"
    start: str | None = Field(None, description=START)
    embedding: int = Field(128, ge=1, description="width of word embeddings")
    kernels: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 2, 3, 4, 5], min_length=1, description="kernel widths in words"
    )
    width: int = Field(500, ge=1, description="number of filters over all widths, equally divided")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout on embeddings")

    @model_validator(mode="after")
    def _width_is_dealt_out(self) -> FiltersEncoderConfig:
        if self.width % len(self.kernels):
            raise ValueError(
                f"model.width {self.width} is not a multiple of the {len(self.kernels)} model.kernels, which have as "
                "many filters each; choose one that is"
            )
        return self


AnyEncoderConfig = RecurrentEncoderConfig | TransformerEncoderConfig | ConvolutionalEncoderConfig | FiltersEncoderConfig
EncoderConfig = Annotated[AnyEncoderConfig, Field(discriminator="architecture")]
