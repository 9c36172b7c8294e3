"""What the `[model]` section of a recipe may say, one class for each architecture.

Any encoder goes with any decoder: `[model]` names one architecture for both, and a table `[model.decoder]` another for
the decoder.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harken.models.config_table import DECODER, TiedTable
from harken.models.convolutional.config import ConvolutionalDecoderConfig, ConvolutionalStackConfig
from harken.models.recurrent.config import RecurrentDecoderConfig, RecurrentStackConfig
from harken.models.transformer.config import TransformerDecoderConfig, TransformerStackConfig

DecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig, Field(discriminator="architecture")
]


class EncoderDecoderTable(TiedTable):
    """`[model]` of an encoder-decoder; `[model.decoder]` may replace the decoder."""

    decoder: DecoderConfig | None = Field(None, description=DECODER)

    @property
    def title(self) -> str:
        return f"{self.architecture} with {self.decoder.architecture} decoder" if self.decoder else self.architecture

    @model_validator(mode="after")
    def _widths_can_be_tied(self) -> EncoderDecoderTable:
        if self.tied == "all" and self.decoder is not None and _reads(self) != _reads(self.decoder):
            raise ValueError(
                f'model.tied is "all", but the encoder reads embeddings of width {_reads(self)} and the decoder of '
                f'{_reads(self.decoder)}: make them equal, or set model.tied = "output"'
            )
        return self


def _reads(table: Any) -> int:
    """The width of the embeddings a side reads."""
    width: int = getattr(table, "embedding", table.width)
    return width


class TransformerConfig(EncoderDecoderTable, TransformerStackConfig):
    """Transformer encoder-decoder (Vaswani et al., 2017)."""

    architecture: Literal["transformer"] = "transformer"
    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder; default: `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder; default: `layers`")

    @property
    def encoder_depth(self) -> int:
        return self.encoder_layers or self.layers

    @property
    def decoder_depth(self) -> int:
        return self.decoder_layers or self.layers


class RecurrentConfig(EncoderDecoderTable, RecurrentStackConfig):
    """Recurrent encoder-decoder, with or without attention (Sutskever et al., 2014; Bahdanau et al., 2015)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool | Literal["first"] = Field(
        True, description="bidirectional encoder: in every layer, or only in the first"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentConfig:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"model.width {self.width} is odd; a bidirectional encoder gives each direction half of it"
            )
        return self


class ConvolutionalConfig(EncoderDecoderTable, ConvolutionalStackConfig):
    """Convolutional encoder-decoder: ConvS2S or ByteNet."""

    architecture: Literal["convolutional"] = "convolutional"
    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder; default: `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder; default: `layers`")

    @property
    def encoder_depth(self) -> int:
        return self.encoder_layers or self.layers

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


Architecture = TransformerConfig | RecurrentConfig | ConvolutionalConfig | DecoderOnlyConfig
ModelConfig = Annotated[Architecture, Field(discriminator="architecture")]


def longest_of(config: Architecture) -> int | None:
    """The most pieces a sentence may have on either side, its end counted; None where there is no limit."""
    sides = [config] if isinstance(config, DecoderOnlyConfig) or config.decoder is None else [config, config.decoder]
    known = [side.longest for side in sides if side.longest is not None]
    return min(known) if known else None
