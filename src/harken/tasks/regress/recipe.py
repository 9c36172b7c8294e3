"""What a recipe for regression may say: examples as a classifier's, with numbers for labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from harken.data.text.config import TokenizerConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.errors import UserError
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig
from harken.models.config_encoder import EncoderConfig
from harken.models.heads.pooling_config import PoolingConfig
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class RegressorConfig(PoolingConfig):
    """From the encoder states to a number."""

    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the pooled vector")
    loss: Literal["squared", "absolute"] = Field(
        "squared", description="loss: squared error (predicts the mean) or absolute error (predicts the median)"
    )


class RegressRecipe(Recipe):
    """Recipe for regression."""

    task: Literal["regress"] = Field("regress", description="the job")
    data: ExamplesConfig = Field(description="where the examples come from; their labels are numbers")
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig.model_validate({"kind": "word", "size": 20000}), description="text: how it is tokenized"
    )
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; requires architecture")
    regressor: RegressorConfig = Field(
        RegressorConfig.model_validate({}), description="from the encoder states to a number"
    )
    train: TrainConfig = Field(
        description="training settings; one of max_steps, max_epochs and max_minutes is required"
    )

    @model_validator(mode="after")
    def _words_are_there(self) -> RegressRecipe:
        text, words = self.data.kind == "text", self.tokenizer.kind == "word"
        if self.embeddings.words is not None and not text:
            raise ValueError("embeddings.words are vectors of words, and signals have none; leave them out")
        if self.embeddings.elmo is not None and not (text and words):
            raise ValueError('embeddings.elmo is of words: set data.kind = "text" and tokenizer.kind = "word"')
        return self

    def require_data(self, origin: str) -> None:
        """Files with numbers for labels."""
        if self.data.train is None:
            raise UserError(f"{origin} names no data: set data.train to files whose data.label is a number")


RECIPE = RegressRecipe
