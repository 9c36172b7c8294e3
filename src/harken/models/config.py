"""`[model]` tables: encoder-decoders of every architecture, and single encoders for jobs that write no sequence.

Any encoder goes with any decoder: `[model]` names one architecture for both, and a table `[model.decoder]` another for
the decoder.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import DECODER, START, EncoderName, ModelTable, TiedTable
from harken.models.convolutional.config import (
    ConvolutionalBlocksConfig,
    ConvolutionalDecoderConfig,
    ConvolutionalStackConfig,
    refuse_even_kernel,
)
from harken.models.recurrent.config import (
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentStackConfig,
    refuse_odd_width,
)
from harken.models.transformer.config import (
    TransformerBlocksConfig,
    TransformerDecoderConfig,
    TransformerMixerConfig,
    TransformerStackConfig,
)
from harken.paths import PathStr

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
        if self.tied in ("all", "embeddings") and own != other:
            raise ValueError(
                f'model.tied is "{self.tied}", but the encoder reads embeddings of width {own} and the decoder of '
                f'{other}: make them equal, or set model.tied = "output"'
            )
        return self


class SidedTable(EncoderDecoderTable):
    """`[model]` whose two sides may have different depths."""

    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder; default: `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder; default: `layers`")

    @property
    def encoder_depth(self) -> int:
        return self.encoder_layers or self.layers  # type: ignore[attr-defined]

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers  # type: ignore[attr-defined]


class TransformerConfig(SidedTable, TransformerMixerConfig):
    """Transformer encoder-decoder (Vaswani et al., 2017)."""

    architecture: Literal["transformer"] = "transformer"
    frozen: list[Literal["positions", "output_bias"]] = Field(
        default_factory=list,
        description=(
            "parts that training leaves as they are: positions, output_bias; of an adopted model those that its own "
            "format has no weights for"
        ),
    )


class RecurrentConfig(EncoderDecoderTable, RecurrentStackConfig):
    """Recurrent encoder-decoder, with or without attention (Sutskever et al., 2014; Bahdanau et al., 2015)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool | Literal["first"] = Field(
        True, description="bidirectional encoder: in every layer, or only in the first"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentConfig:
        refuse_odd_width(self.bidirectional, self.width)
        return self


class ConvolutionalConfig(SidedTable, ConvolutionalStackConfig):
    """Convolutional encoder-decoder: ConvS2S or ByteNet."""

    architecture: Literal["convolutional"] = "convolutional"

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> ConvolutionalConfig:
        refuse_even_kernel(self.kernel)
        return self


class DecoderOnlyConfig(TiedTable, TransformerStackConfig):
    """One stack over source and target; the source is a prefix with bidirectional attention."""

    no_dependency_trees = 'model.positions is "dependency", which needs an encoder: take architecture "transformer"'
    architecture: Literal["decoder-only"] = "decoder-only"
    layers: int = Field(6, ge=1, description="blocks in the stack")
    max_length: int = Field(
        512,
        ge=32,
        description="learned positions: largest number of pieces of source and target together, including end tokens",
    )

    @property
    def longest(self) -> int | None:
        limit = super().longest
        return None if limit is None else limit // 2


class OwnEncoderConfig(ModelTable):
    """An encoder of another package: a class derived from `harken.models.base.Encoder`."""

    architecture: Literal["own"] = "own"
    encoder: EncoderName = Field(description='registered name of the encoder, or "module:Name"')
    embedding: int = Field(128, ge=1, description="width of word embeddings, the first argument of the encoder")
    options: dict[str, Any] = Field({}, description="further arguments of the encoder, by name")
    start: PathStr | None = Field(None, description=START)

    @property
    def title(self) -> str:
        return self.encoder


class OwnConfig(EncoderDecoderTable, OwnEncoderConfig):
    """An encoder of another package, with any decoder in `[model.decoder]`."""

    architecture: Literal["own"] = "own"

    @model_validator(mode="after")
    def _has_a_decoder(self) -> OwnConfig:
        if self.decoder is None:
            raise ValueError('model.architecture is "own", which is an encoder: add a table [model.decoder]')
        return self


Architecture = TransformerConfig | RecurrentConfig | ConvolutionalConfig | DecoderOnlyConfig | OwnConfig
ModelConfig = Annotated[Architecture, Field(discriminator="architecture")]


def longest_of(config: Architecture) -> int | None:
    """The most pieces a sentence may have on either side, its end counted; None where there is no limit."""
    sides = [config] if isinstance(config, DecoderOnlyConfig) or config.decoder is None else [config, config.decoder]
    known = [side.longest for side in sides if side.longest is not None]
    return min(known) if known else None


class TransformerEncoderConfig(TransformerBlocksConfig):
    """Transformer encoder."""

    no_dependency_trees = 'model.positions is "dependency", which only translation has trees for; choose another'
    architecture: Literal["transformer"] = "transformer"
    start: PathStr | None = Field(None, description=START)


class ConvolutionalEncoderConfig(ConvolutionalBlocksConfig):
    """Convolutional encoder with centred kernels."""

    architecture: Literal["convolutional"] = "convolutional"
    start: PathStr | None = Field(None, description=START)

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> ConvolutionalEncoderConfig:
        refuse_even_kernel(self.kernel)
        return self


class FiltersEncoderConfig(ModelTable):
    """One layer of convolution filters of several widths (Kim, 2014)."""

    architecture: Literal["filters"] = "filters"
    start: PathStr | None = Field(None, description=START)
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


AnyEncoderConfig = (
    RecurrentEncoderConfig
    | TransformerEncoderConfig
    | ConvolutionalEncoderConfig
    | FiltersEncoderConfig
    | OwnEncoderConfig
)
EncoderConfig = Annotated[AnyEncoderConfig, Field(discriminator="architecture")]
