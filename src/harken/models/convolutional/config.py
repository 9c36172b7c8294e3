"""`[model]` and `[model.decoder]` with architecture = "convolutional", and `[front]`: the defaults of both."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.models.config_table import ModelTable


class ConvolutionalBlocksConfig(ModelTable):
    """Stacked convolution blocks: the keys of an encoder."""

    style: Literal["convs2s", "bytenet"] = Field(
        "convs2s",
        description="gated convolutions with attention in every layer (Gehring et al., 2017), or residual blocks with "
        "dilations of 1, 2, 4, 8, 16 (Kalchbrenner et al., 2016)",
    )
    layers: int = Field(4, ge=1, description="blocks in the encoder and in the decoder")
    embedding: int = Field(256, ge=2, description="width of embeddings, memory and attention")
    width: int = Field(256, ge=2, description="width of the blocks; inside, ByteNet's are half as wide")
    kernel: int = Field(3, ge=1, description="kernel width; odd in an encoder, where it is centred")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on embeddings, in every block and before the output")
    positions: Literal["learned", "sinusoidal", "none"] = Field(
        "learned", description="positions added to the embeddings; the ByteNet paper has none"
    )
    max_length: int = Field(
        512, ge=16, description="learned positions: largest number of pieces in a sentence, including the end token"
    )

    @property
    def longest(self) -> int | None:
        return self.max_length if self.positions == "learned" else None

    @property
    def encoder_depth(self) -> int:
        """Blocks in the encoder."""
        return self.layers

    @model_validator(mode="after")
    def _positions_fit(self) -> ConvolutionalBlocksConfig:
        if self.positions == "sinusoidal" and self.embedding % 2:
            raise ValueError(f"model.embedding {self.embedding} is odd; sinusoidal positions need an even width")
        return self


def refuse_even_kernel(kernel: int) -> None:
    """A kernel that sees both sides is centred on a word.

    Raises:
        ValueError: it has no centre.
    """
    if kernel % 2 == 0:
        raise ValueError(f"model.kernel {kernel} is even; the encoder's is centred on a word, so choose {kernel + 1}")


class ConvolutionalStackConfig(ConvolutionalBlocksConfig):
    """Stacked convolution blocks, and how the decoder reads the source."""

    attention: Literal["style", "dot", "none"] = Field(
        "style",
        description=(
            "how the decoder reads the source: attention in every layer, or (ByteNet only) the aligned "
            "position; style: as in the paper"
        ),
    )
    alignment_layer: int | None = Field(
        None, description="decoder layer whose attention is the alignment, from 0; default: the mean over layers"
    )
    alignment_shift: bool = Field(
        False,
        description=(
            "take a word's alignment from the step that reads the word, not the step that predicts it "
            "(Chen et al., 2020)"
        ),
    )

    @property
    def attends(self) -> bool:
        """Whether the decoder attends to the source."""
        return self.attention == "dot" or (self.attention == "style" and self.style == "convs2s")

    @property
    def decoder_depth(self) -> int:
        """Blocks in the decoder."""
        return self.layers

    @model_validator(mode="after")
    def _options_fit(self) -> ConvolutionalStackConfig:
        if self.style == "convs2s" and not self.attends:
            raise ValueError(
                'model.attention is "none", but the convs2s style reads the source by attention; set it to "dot", or '
                'model.style = "bytenet"'
            )
        layers = self.decoder_depth
        if self.alignment_layer is not None and not -layers <= self.alignment_layer < layers:
            raise ValueError(f"model.alignment_layer {self.alignment_layer} is outside the {layers} decoder layers")
        return self


class ConvolutionalDecoderConfig(ConvolutionalStackConfig):
    """Convolutional decoder for any encoder."""

    architecture: Literal["convolutional"] = "convolutional"


class FrontConfig(BaseModel):
    """Convolutions over time that shorten what the encoder reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: int = Field(0, ge=0, description="convolutions before the encoder; 0: none")
    kernel: int = Field(5, ge=1, description="kernel width in steps; odd")
    stride: int = Field(2, ge=1, description="stride: each layer shortens the sequence by this factor")

    @model_validator(mode="after")
    def _kernel_has_a_centre(self) -> FrontConfig:
        if self.kernel % 2 == 0:
            raise ValueError(
                f"front.kernel {self.kernel} is even; it is centred on a step, so choose {self.kernel + 1}"
            )
        return self

    def shortened(self, steps: int) -> int:
        """The length of so many steps after subsampling."""
        for _ in range(self.layers):
            steps = -(-steps // self.stride)
        return steps
