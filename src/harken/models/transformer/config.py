"""`[model]` and `[model.decoder]` with architecture = "transformer": the defaults of its encoders and decoders."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from harken.models.config_table import ModelTable, PositionsName


class TransformerBlocksConfig(ModelTable):
    """Stacked Transformer blocks: the keys of an encoder."""

    no_dependency_trees: ClassVar[str | None] = None  # the error where `positions = "dependency"` has no trees to use

    layers: int = Field(3, ge=1, description="blocks in the encoder and in the decoder")
    width: int = Field(256, ge=2, description="width of embeddings and hidden states")
    heads: int = Field(4, ge=1, description="N, attention heads; must divide `width`, unless `head_width` is set")
    head_width: int | None = Field(None, ge=1, description="K, width of a head; default: `width` / `heads`")
    feedforward: int = Field(1024, ge=1, description="width inside the feed-forward layer")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout after each sub-layer and on embeddings")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on attention weights")
    feedforward_dropout: float = Field(0.0, ge=0, lt=1, description="dropout inside the feed-forward layer")
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer normalisation before each sub-layer (pre), or after it as in the paper (post)"
    )
    norm_kind: Literal["layer", "rms"] = Field(
        "layer", description="layer normalisation, or RMS norm without mean and bias (Zhang and Sennrich, 2019)"
    )
    norm_epsilon: float = Field(1e-5, gt=0, description="number added to the variance in every layer normalisation")
    scale_embeddings: bool = Field(
        True, description="embeddings times the root of `width`, as in the paper; BART and GPT-2 take them as they are"
    )
    embedding_norm: bool = Field(
        False, description="layer normalisation of the embeddings with their positions, as in BERT and BART"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"] = Field(
        "relu",
        description=(
            "activation of the feed-forward layer; gelu_tanh approximates gelu, as in GPT-2; swiglu (silu) and "
            "geglu (gelu_tanh) have a gate and 1.5 times as many weights"
        ),
    )
    attention: Literal["scaled", "dot", "cosine", "multiplicative", "additive"] = Field(
        "scaled",
        description=(
            "score function of every head; cosine learns a temperature, multiplicative a matrix, additive"
            " two matrices and a vector, at several times the cost"
        ),
    )
    positions: PositionsName = Field(
        "sinusoidal",
        description=(
            "positions: added to the embeddings (sinusoidal, learned) or inside self-attention (relative,"
            " rotary, alibi, buckets, dependency); buckets: a learned bias for every head and range of distances,"
            " shared by all layers (Raffel et al., 2020); dependency: distances in a dependency tree given with the"
            " data (data.source_heads); or a registered name"
        ),
    )
    max_length: int = Field(
        512, ge=16, description="learned positions: largest number of pieces in a sentence, including the end token"
    )
    max_distance: int = Field(
        16, ge=1, description="relative, bucket and dependency positions: largest distance; greater ones are clipped"
    )
    buckets: int = Field(32, ge=4, description="bucket positions: ranges of distances; half of them in each direction")
    bias: bool = Field(True, description="biases of the linear maps in the blocks")
    experts: int = Field(0, ge=0, description="experts per block of a mixture of experts; 0: one feed-forward layer")
    experts_active: int = Field(2, ge=1, description="experts that process each token")
    balance: float = Field(0.01, ge=0, description="weight of the load-balancing loss of the experts")

    @property
    def longest(self) -> int | None:
        return self.max_length if self.positions == "learned" else None

    @property
    def encoder_depth(self) -> int:
        """Blocks in the encoder."""
        return self.layers

    @property
    def stack_options(self) -> dict[str, Any]:
        """The arguments of `harken.nn.EncoderStack` and `harken.nn.DecoderStack` after `layers`."""
        names = (
            *("width", "heads", "feedforward", "dropout", "attention_dropout", "feedforward_dropout", "norm"),
            *("norm_epsilon", "embedding_norm", "scale_embeddings"),
            *("activation", "positions", "max_length", "max_distance", "experts", "experts_active"),
            *("norm_kind", "head_width", "bias", "buckets"),
        )
        return {name: getattr(self, name) for name in names} | {"score": self.attention}

    @model_validator(mode="after")
    def _blocks_fit(self) -> TransformerBlocksConfig:
        if self.positions == "dependency" and self.no_dependency_trees:
            raise ValueError(self.no_dependency_trees)
        if self.width % self.heads and self.head_width is None:
            raise ValueError(
                f"model.width {self.width} is not a multiple of model.heads {self.heads}; choose e.g. "
                f"width {self.width // self.heads * self.heads or self.heads}"
            )
        if self.width % 2 and self.positions in ("sinusoidal", "dependency"):
            raise ValueError(f"model.width {self.width} is odd; {self.positions} positions need an even width")
        head_width = self.head_width or self.width // self.heads
        if head_width % 2 and self.positions == "rotary":
            raise ValueError(
                f"model.width {self.width} over model.heads {self.heads} makes heads of odd width "
                f"{head_width}; rotary positions rotate pairs, so choose e.g. width {2 * self.width}"
            )
        if self.attention == "additive" and self.positions == "rotary":
            raise ValueError(
                'model.positions "rotary" rotates queries and keys that are multiplied with each other, but '
                'model.attention "additive" adds them; choose relative or alibi positions, or another score'
            )
        if self.positions == "buckets" and (self.buckets % 4 or self.max_distance <= self.buckets // 2):
            raise ValueError(
                f"model.buckets {self.buckets} and model.max_distance {self.max_distance} do not go together; choose a "
                "multiple of 4, and a largest distance above half of it, such as 32 and 128"
            )
        if self.experts and not self.bias:
            raise ValueError("model.bias is false, but experts have biases; set model.experts = 0")
        if self.experts and self.experts_active > self.experts:
            raise ValueError(
                f"model.experts_active is {self.experts_active}, but there are {self.experts} experts; choose 1 to "
                f"{self.experts}"
            )
        return self


class TransformerStackConfig(TransformerBlocksConfig):
    """Stacked Transformer blocks, and which heads give the alignment."""

    alignment_layer: int | None = Field(
        None, description="decoder layer whose attention is the alignment, from 0; negative counts from the top"
    )
    alignment_heads: list[int] | None = Field(None, description="heads of that layer to average; default: all")
    alignment_shift: bool = Field(
        False,
        description=(
            "take a word's alignment from the step that reads the word, not the step that predicts it "
            "(Chen et al., 2020)"
        ),
    )

    @property
    def decoder_depth(self) -> int:
        """Blocks in the decoder."""
        return self.layers

    @model_validator(mode="after")
    def _alignment_fits(self) -> TransformerStackConfig:
        layers = self.decoder_depth
        if self.alignment_layer is not None and not -layers <= self.alignment_layer < layers:
            raise ValueError(f"model.alignment_layer {self.alignment_layer} is outside the {layers} decoder layers")
        if self.alignment_heads is not None and any(not 0 <= head < self.heads for head in self.alignment_heads):
            raise ValueError(f"model.alignment_heads {self.alignment_heads} names a head outside 0 to {self.heads - 1}")
        return self


class TransformerMixerConfig(TransformerStackConfig):
    """The blocks of a decoder beside an encoder."""

    decoder_mixer: Literal["attention", "ssru"] = Field(
        "attention",
        description=(
            "how the decoder reads its own tokens: self-attention, or a simple recurrent unit (SSRU, Kim et al., 2019),"
            " which decodes faster"
        ),
    )
    output_bias: bool = Field(False, description="a bias of every word in the output layer")


class TransformerDecoderConfig(TransformerMixerConfig):
    """Transformer decoder for any encoder."""

    no_dependency_trees = (
        'model.decoder.positions is "dependency", but only the source has trees; choose another kind for the decoder'
    )
    architecture: Literal["transformer"] = "transformer"
