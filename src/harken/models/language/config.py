"""What `[model]` of a recipe for a language model may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.recurrent.config import RecurrentCellsConfig
from harken.models.transformer.config import TransformerBlocksConfig

TIED = "tie the embedding and the output layer (Press and Wolf, 2017)"


class RecurrentLanguageConfig(RecurrentCellsConfig):
    """Recurrent language model with the regularisation of Merity et al. (2018)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool = Field(False, description="always false: a second direction would see the tokens to predict")
    top: Literal["width", "embedding"] = Field(
        "width", description="width of the last layer: as the others, or as the embedding, which it may be tied to"
    )
    dropout_between: float | None = Field(None, ge=0, lt=1, description="dropout between layers; default: `dropout`")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of word types whose embedding is zeroed in a batch")
    weight_drop: float = Field(
        0.0, ge=0, lt=1, description="dropout on the recurrent weights, one mask per batch (Merity et al., 2018)"
    )
    activation_penalty: float = Field(
        0.0,
        ge=0,
        description="weight in the loss of the mean square of the top layer's states (activation regularisation)",
    )
    temporal_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "weight in the loss of the mean square of their differences over time (temporal activation regularisation)"
        ),
    )
    tied: bool = Field(True, description=TIED)

    @model_validator(mode="after")
    def _reads_one_way(self) -> RecurrentLanguageConfig:
        if self.bidirectional:
            raise ValueError(
                "model.bidirectional is true, but a bidirectional layer in a language model would see the words it "
                "has to predict: leave it out"
            )
        if self.top == "embedding" and self.connections != "none":
            raise ValueError(
                f'model.top is "embedding", but model.connections "{self.connections}" join layers of one width: set '
                'one of them to "width" or "none"'
            )
        return self


class TransformerLanguageConfig(TransformerBlocksConfig):
    """Causal Transformer language model with a context of data.chunk tokens."""

    no_dependency_trees = 'model.positions is "dependency", which only translation has trees for; choose another'
    architecture: Literal["transformer"] = "transformer"
    tied: bool = Field(True, description=TIED)


AnyLanguageConfig = RecurrentLanguageConfig | TransformerLanguageConfig
LanguageConfig = Annotated[AnyLanguageConfig, Field(discriminator="architecture")]
