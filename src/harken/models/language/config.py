"""What `[model]` of a recipe for a language model may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harken.models.recurrent.config import RecurrentCellsConfig
from harken.models.transformer.config import TransformerBlocksConfig

TIED = "embedding and output layer share one matrix (Press and Wolf, 2017)"


class RecurrentLanguageConfig(RecurrentCellsConfig):
    """Recurrent layers that read from left to right, with the regularisation of Merity et al. (2018)."""

    architecture: Literal["recurrent"] = "recurrent"
    bidirectional: bool = Field(False, description="always false: the second direction would see what is predicted")
    top: Literal["width", "embedding"] = Field(
        "width", description="how wide the last layer is: as the others, or as the embedding it may be tied to"
    )
    dropout_between: float | None = Field(
        None, ge=0, lt=1, description="share zeroed between layers, where it differs from `dropout`"
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of the words whose embedding is zeroed in a batch")
    weight_drop: float = Field(
        0.0, ge=0, lt=1, description="share of the recurrent weights zeroed in a batch (Merity et al., 2018)"
    )
    activation_penalty: float = Field(
        0.0, ge=0, description="weight in the loss of the mean square of the top layer's states"
    )
    temporal_penalty: float = Field(
        0.0, ge=0, description="weight in the loss of how much those states change from step to step"
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
    """Blocks that see what came before, no more than data.chunk tokens of it."""

    no_dependency_trees = 'model.positions is "dependency", which only translation has trees for; choose another'
    architecture: Literal["transformer"] = "transformer"
    tied: bool = Field(True, description=TIED)


AnyLanguageConfig = RecurrentLanguageConfig | TransformerLanguageConfig
LanguageConfig = Annotated[AnyLanguageConfig, Field(discriminator="architecture")]
