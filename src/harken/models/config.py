"""What the `[model]` section of a recipe may say, one class for each architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TransformerConfig(_Model):
    """The encoder-decoder of "Attention Is All You Need" (S27)."""

    architecture: Literal["transformer"] = "transformer"
    layers: int = Field(3, ge=1, description="blocks in the encoder and in the decoder")
    encoder_layers: int | None = Field(None, ge=1, description="blocks in the encoder, where it differs from `layers`")
    decoder_layers: int | None = Field(None, ge=1, description="blocks in the decoder, where it differs from `layers`")
    width: int = Field(256, ge=2, description="D, the width of embeddings and states")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`")
    feedforward: int = Field(1024, ge=1, description="width inside the feed-forward layer (E13)")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of values zeroed after each sub-layer and embedding")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="share of attention weights zeroed in training")
    feedforward_dropout: float = Field(0.0, ge=0, lt=1, description="share zeroed inside the feed-forward layer")
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer, or after it as in the paper"
    )
    activation: Literal["relu", "gelu", "swiglu"] = Field(
        "relu", description="inside the feed-forward layer; swiglu has a gate there, and half as many weights again"
    )
    attention: Literal["scaled", "dot", "cosine", "multiplicative", "additive"] = Field(
        "scaled",
        description="score of every head (E9, E12); cosine learns a temperature for each, multiplicative a matrix, "
        "additive two matrices and a vector, at several times the cost",
    )
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = Field(
        "sinusoidal",
        description="how order is known (S24): added to the embeddings (sinusoidal, learned), or in self-attention",
    )
    max_length: int = Field(
        512, ge=16, description="with learned positions: the most pieces a sentence may have, its end counted"
    )
    max_distance: int = Field(
        16, ge=1, description="with relative positions: words further apart than this count as this far"
    )
    tied: Literal["all", "output", "none"] = Field(
        "all",
        description="all: source, target and output share one matrix (joint vocabulary); output: target and output",
    )
    alignment_layer: int | None = Field(
        None, description="decoder layer whose attention is read as alignment, from 0; negative counts from the top"
    )
    alignment_heads: list[int] | None = Field(None, description="heads of that layer to average; all where not given")
    alignment_shift: bool = Field(
        False, description="read a word's alignment where the decoder reads the word, not where it predicts it"
    )

    @model_validator(mode="after")
    def _heads_divide_width(self) -> TransformerConfig:
        if self.width % self.heads:
            raise ValueError(
                f"model.width {self.width} is not a multiple of model.heads {self.heads}; choose e.g. "
                f"width {self.width // self.heads * self.heads or self.heads}"
            )
        if self.width % 2 and self.positions == "sinusoidal":
            raise ValueError(f"model.width {self.width} is odd; sinusoidal positions need an even width")
        if self.width // self.heads % 2 and self.positions == "rotary":
            raise ValueError(
                f"model.width {self.width} over model.heads {self.heads} makes heads of odd width "
                f"{self.width // self.heads}; rotary positions turn pairs, so choose e.g. width {2 * self.width}"
            )
        if self.attention == "additive" and self.positions == "rotary":
            raise ValueError(
                'model.positions "rotary" turns queries and keys that are multiplied with each other, but '
                'model.attention "additive" adds them; choose relative or alibi positions, or another score'
            )
        decoder_layers = self.decoder_layers or self.layers
        if self.alignment_layer is not None and not -decoder_layers <= self.alignment_layer < decoder_layers:
            raise ValueError(
                f"model.alignment_layer {self.alignment_layer} is outside the {decoder_layers} decoder layers"
            )
        if self.alignment_heads is not None and any(not 0 <= head < self.heads for head in self.alignment_heads):
            raise ValueError(f"model.alignment_heads {self.alignment_heads} names a head outside 0 to {self.heads - 1}")
        return self


class RecurrentConfig(_Model):
    """Recurrent encoder-decoder (S17), with attention (S19) or without."""

    architecture: Literal["recurrent"] = "recurrent"
    cell: Literal["lstm", "gru"] = Field("lstm", description="recurrent cell of encoder and decoder (E2, E6)")
    attention: Literal["none", "dot", "scaled", "multiplicative", "additive", "cosine"] = Field(
        "additive", description="score of the decoder's attention (E9); none: the last state is all the decoder gets"
    )
    attend: Literal["after", "before"] = Field(
        "after",
        description="look with the new state (Luong et al., 2015), or with the last one before the step, which then "
        "gets the context in place of input feeding (Bahdanau et al., 2015)",
    )
    coverage: bool = Field(
        False, description="let the additive score see where it has looked so far (Tu et al., 2016; See et al., 2017)"
    )
    hard_attention: bool = Field(
        False, description="trained soft, but outside training look at the best source position alone"
    )
    layers: int = Field(1, ge=1, description="stacked layers in the encoder and in the decoder")
    embedding: int = Field(256, ge=1, description="width of word embeddings")
    width: int = Field(
        512, ge=2, description="H, state of the decoder; a bidirectional encoder has half of it each way"
    )
    bidirectional: bool = Field(True, description="read the source in both directions")
    input_feeding: bool = Field(
        True, description="feed the last attentional state to the next step (Luong et al., 2015)"
    )
    dropout: float = Field(
        0.2, ge=0, lt=1, description="share zeroed on embeddings, between layers and before the output"
    )
    variational: bool = Field(
        True, description="one dropout mask for all steps of a sentence (Gal and Ghahramani, 2016)"
    )
    tied: Literal["all", "output", "none"] = Field(
        "all", description="all: one embedding for source, target and output; output: target and output; none"
    )

    @model_validator(mode="after")
    def _width_splits(self) -> RecurrentConfig:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"model.width {self.width} is odd; a bidirectional encoder gives each direction half of it"
            )
        if self.coverage and self.attention != "additive":
            raise ValueError(
                f'model.coverage is an input of the additive score, but model.attention is "{self.attention}"; '
                'set model.attention = "additive", or coverage = false'
            )
        if self.attention == "none" and (self.attend == "before" or self.hard_attention):
            key = "attend" if self.attend == "before" else "hard_attention"
            raise ValueError(f'model.{key} says how to look at the source, but model.attention is "none"; name a score')
        return self


ModelConfig = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="architecture")]
