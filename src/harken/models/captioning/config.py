"""`[model]` of a captioner: an image encoder, and the decoder that attends to its regions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.config import DecoderConfig
from harken.models.config_table import ModelTable

LOOKS_INTO = "a table [model.decoder] with an architecture: recurrent, transformer or convolutional, and its keys"


class ImageTable(ModelTable):
    """Keys that all image encoders have."""

    width: int = Field(128, ge=2, description="width of a region's feature vector")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the region features")
    focus: float = Field(0.0, ge=0, description="weight in the loss of the entropy of each word's attention, in nats")
    tied: Literal["output", "none"] = Field("output", description="tie the embedding and the output layer")
    decoder: DecoderConfig = Field(description=LOOKS_INTO)

    @property
    def title(self) -> str:
        return f"{self.architecture} regions with {self.decoder.architecture} decoder"

    @property
    def longest(self) -> int | None:
        return self.decoder.longest

    def side(self, size: int) -> int:
        """Regions along a side of an image of `size` pixels.

        Raises:
            ValueError: the image cannot be divided into regions.
        """
        cell = self.cell
        if size % cell or size < cell:
            raise ValueError(
                f"data.image_size {size} is not a multiple of {cell}, the pixels of a region by [model]; "
                f"choose {max(1, round(size / cell)) * cell}"
            )
        return size // cell

    @property
    def cell(self) -> int:
        """Pixels along a side of a region."""
        return 1


class RegionsConfig(ImageTable):
    """A small convolutional network, trained with the decoder."""

    architecture: Literal["convolutional"] = "convolutional"
    channels: list[Annotated[int, Field(ge=1)]] = Field(
        [32, 64, 128],
        min_length=1,
        max_length=8,
        description="channels after each block; each block halves the image",
    )
    depth: list[Annotated[int, Field(ge=0)]] = Field(
        [1, 0, 0],
        description="convolutions in each block after the halving; each widens the receptive field of a region",
    )

    @model_validator(mode="after")
    def _blocks_fit(self) -> RegionsConfig:
        if len(self.depth) != len(self.channels):
            raise ValueError(
                f"model.channels names {len(self.channels)} blocks and model.depth {len(self.depth)}; "
                "give a number for each"
            )
        return self

    @property
    def cell(self) -> int:
        return 2 ** len(self.channels)


class PatchesConfig(ImageTable):
    """Transformer blocks over patches of pixels."""

    architecture: Literal["patches"] = "patches"
    patch: int = Field(8, ge=1, description="side of a patch in pixels")
    layers: int = Field(2, ge=1, description="Transformer blocks")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`")
    feedforward: int = Field(256, ge=1, description="width inside the feed-forward layer")

    @property
    def cell(self) -> int:
        return self.patch

    @model_validator(mode="after")
    def _heads_fit(self) -> PatchesConfig:
        if self.width % self.heads:
            raise ValueError(
                f"model.width {self.width} is not a multiple of model.heads {self.heads}; choose e.g. "
                f"width {self.width // self.heads * self.heads or self.heads}"
            )
        return self


AnyImageConfig = RegionsConfig | PatchesConfig
ImageConfig = Annotated[AnyImageConfig, Field(discriminator="architecture")]
