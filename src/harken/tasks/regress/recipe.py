"""What a recipe for regression may say: examples as a classifier's, with numbers for labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from harken.data.text.config import TokenizerConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.errors import UserError
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig
from harken.models.heads.config import PoolingConfig
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class RegressorConfig(PoolingConfig):
    """From what was read to a number."""

    dropout: float = Field(0.1, ge=0, lt=1, description="share of that vector zeroed before the output layer")
    loss: Literal["squared", "absolute"] = Field(
        "squared", description="what is made small: the mean's or the median's"
    )


class RegressRecipe(Recipe):
    """All the sections of a recipe for regression."""

    task: Literal["regress"] = Field("regress", description="the job the model learns")
    data: ExamplesConfig = Field(description="where the examples come from; their labels are numbers")
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig.model_validate({"kind": "word", "size": 20000}), description="text: how it becomes ids"
    )
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; begin with architecture")
    regressor: RegressorConfig = Field(
        RegressorConfig.model_validate({}), description="from what the encoder reads to a number"
    )
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")

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
