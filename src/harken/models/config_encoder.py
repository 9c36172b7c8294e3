"""What `[model]` may say where a job reads sequences and writes none: one encoder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.config_table import ModelTable
from harken.models.convolutional.config import ConvolutionalBlocksConfig
from harken.models.recurrent.config import RecurrentCellsConfig
from harken.models.transformer.config import TransformerBlocksConfig

START = "folder of a masked model (task masked) whose encoder and token vectors this one begins with"


class RecurrentEncoderConfig(RecurrentCellsConfig):
    """Recurrent layers that read one way or both."""

    architecture: Literal["recurrent"] = "recurrent"
    start: str | None = Field(None, description=START)
    bidirectional: bool | Literal["first"] = Field(
        True, description="read in both directions, in every layer or in the first alone"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentEncoderConfig:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"model.width {self.width} is odd; a bidirectional encoder gives each direction half of it"
            )
        return self


class TransformerEncoderConfig(TransformerBlocksConfig):
    """Blocks that see the whole sequence."""

    no_dependency_trees = 'model.positions is "dependency", which only translation has trees for; choose another'
    architecture: Literal["transformer"] = "transformer"
    start: str | None = Field(None, description=START)


class ConvolutionalEncoderConfig(ConvolutionalBlocksConfig):
    """Convolutions, each word at the centre of its own."""

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
    """Filters of several widths side by side, one layer (Kim, 2014)."""

    architecture: Literal["filters"] = "filters"
    start: str | None = Field(None, description=START)
    embedding: int = Field(128, ge=1, description="E, the width of word embeddings")
    kernels: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 2, 3, 4, 5], min_length=1, description="words that filters see, one width for each"
    )
    width: int = Field(500, ge=1, description="H, filters of all widths together, the same number of each")
    dropout: float = Field(0.3, ge=0, lt=1, description="share zeroed on embeddings")

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
