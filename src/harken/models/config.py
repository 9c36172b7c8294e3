"""`[model]` tables: encoder-decoders of every architecture, and single encoders for jobs that write no sequence.

Any encoder goes with any decoder: `[model]` names one architecture for both, and a table `[model.decoder]` another for
the decoder.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.config_table import DECODER, START, ModelTable, TiedTable
from harken.models.convolutional.config import (
    ConvolutionalBlocksConfig,
    ConvolutionalDecoderConfig,
    ConvolutionalStackConfig,
)
from harken.models.recurrent.config import (
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentStackConfig,
    refuse_odd_width,
)
from harken.models.transformer.config import TransformerBlocksConfig, TransformerDecoderConfig, TransformerStackConfig

DecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig, Field(discriminator="architecture")
]


class EncoderDecoderTable(TiedTable):
    """`[model]` of an encoder and a decoder; `[model.decoder]` replaces the second."""

    decoder: DecoderConfig | None = Field(None, description=DECODER)

    @property
    def title(self) -> str:
        return f"{self.architecture} with {self.decoder.architecture} decoder" if self.decoder else self.architecture

    @model_validator(mode="after")
    def _widths_can_be_tied(self) -> EncoderDecoderTable:
        own, other = self.embedding_width, self.decoder.embedding_width if self.decoder else self.embedding_width
        if self.tied == "all" and own != other:
            raise ValueError(
                f'model.tied is "all", but the encoder reads embeddings of width {own} and the decoder of {other}: '
                'make them equal, or set model.tied = "output"'
            )
        return self


class TransformerConfig(EncoderDecoderTable, TransformerStackConfig):
    """The encoder-decoder of "Attention Is All You Need"."""

    architecture: Literal["transformer"] = "transformer"
    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder, where it differs from `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder, where it differs from `layers`")

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers


class RecurrentConfig(EncoderDecoderTable, RecurrentStackConfig):
    """Recurrent encoder-decoder, with attention or without; deep ones as in Wu et al. (2016)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool | Literal["first"] = Field(
        True, description="read the source in both directions, in every layer or in the first alone"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentConfig:
        refuse_odd_width(self.bidirectional, self.width)
        return self


class ConvolutionalConfig(EncoderDecoderTable, ConvolutionalStackConfig):
    """Convolutional encoder-decoder: ConvS2S or ByteNet."""

    architecture: Literal["convolutional"] = "convolutional"
    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder, where it differs from `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder, where it differs from `layers`")

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> ConvolutionalConfig:
        if self.kernel % 2 == 0:
            raise ValueError(
                f"model.kernel {self.kernel} is even; the encoder's is centred on a word, so choose {self.kernel + 1}"
            )
        return self


class DecoderOnlyConfig(TiedTable, TransformerStackConfig):
    """One stack over source and target, in which the source is a prefix that is seen in both directions."""

    architecture: Literal["decoder-only"] = "decoder-only"
    layers: int = Field(6, ge=1, description="blocks in the stack")
    max_length: int = Field(
        512, ge=32, description="with learned positions: pieces of source and target together, ends counted"
    )

    @model_validator(mode="after")
    def _no_trees_here(self) -> DecoderOnlyConfig:
        if self.positions == "dependency":
            raise ValueError('model.positions is "dependency", which needs an encoder: take architecture "transformer"')
        return self

    @property
    def longest(self) -> int | None:
        limit = super().longest
        return None if limit is None else limit // 2


Architecture = TransformerConfig | RecurrentConfig | ConvolutionalConfig | DecoderOnlyConfig
ModelConfig = Annotated[Architecture, Field(discriminator="architecture")]


def longest_of(config: Architecture) -> int | None:
    """The most pieces a sentence may have on either side, its end counted; None where there is no limit."""
    sides = [config] if isinstance(config, DecoderOnlyConfig) or config.decoder is None else [config, config.decoder]
    known = [side.longest for side in sides if side.longest is not None]
    return min(known) if known else None


class TransformerEncoderConfig(TransformerBlocksConfig):
    """Blocks that see the whole sequence."""

    architecture: Literal["transformer"] = "transformer"
    start: str | None = Field(None, description=START)

    @model_validator(mode="after")
    def _no_trees_here(self) -> TransformerEncoderConfig:
        if self.positions == "dependency":
            raise ValueError('model.positions is "dependency", which only translation has trees for; choose another')
        return self


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
