"""What a recipe for classification may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from harken.data.text.config import TokenizerConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.errors import UserError
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig, in_one_table
from harken.models.heads.config import PoolingConfig
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class ClassifierConfig(PoolingConfig):
    """From what was read to a label."""

    members: int = Field(
        1, ge=1, description="networks that are trained at once on the same embeddings; their mean chance is the answer"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="share of that vector zeroed before the output layer")
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="text: chance that training sees the unknown word in place of a word"
    )
    noise: float = Field(
        0.0, ge=0, description="signals: deviation of the noise added in training, as a share of each channel's own"
    )
    fine: bool = Field(
        False,
        description="learn the labels as the files have them, before data.label_until and data.names merge them, and "
        "add the chances of those that are merged",
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: every class counts alike in the loss, however many examples it has"
    )
    choose_by: Literal["accuracy", "macro_f1", "loss"] = Field(
        "accuracy", description="which validation score says that weights are the best; loss where few are held out"
    )


class ClassifyRecipe(Recipe):
    """All the sections of a recipe for classification."""

    task: Literal["classify"] = Field("classify", description="the job the model learns")
    data: ExamplesConfig = Field(description="where the labelled examples come from")
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig.model_validate({"kind": "word", "size": 20000}), description="text: how it becomes ids"
    )
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; begin with architecture")
    classifier: ClassifierConfig = Field(
        ClassifierConfig.model_validate({}), description="from what the encoder reads to a label"
    )
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")

    @model_validator(mode="before")
    @classmethod
    def _older_keys(cls, values: Any) -> Any:
        return in_one_table(values, "classifier")

    @model_validator(mode="after")
    def _one_beginning(self) -> ClassifyRecipe:
        words, elmo = self.embeddings.words, self.embeddings.elmo
        if self.model.start is not None and words is not None:
            raise ValueError("model.start and embeddings.words both say how the embeddings begin; keep one of them")
        if self.model.start is not None and self.data.kind != "text":
            raise ValueError("model.start is for texts: a masked model reads no signals; leave it out")
        if elmo is not None and (self.data.kind != "text" or self.tokenizer.kind != "word"):
            raise ValueError('embeddings.elmo is of words: set data.kind = "text" and tokenizer.kind = "word"')
        if words is not None and self.data.kind != "text":
            raise ValueError("embeddings.words are vectors of words, and signals have none; leave them out")
        if self.classifier.members > 1 and self.model.start is not None:
            raise ValueError("model.start is for one encoder, but classifier.members asks for more; keep one of them")
        if elmo is not None and self.model.start is not None:
            raise ValueError(
                "model.start and embeddings.elmo are both given, but the encoder of a masked model reads "
                "words alone; keep one of them"
            )
        return self

    def require_data(self, origin: str) -> None:
        """Recipes for data that does not ship name its files and leave the folder to the user."""
        data = self.data
        if data.corpus or data.dir:
            return
        if data.train is None:
            raise UserError(f"{origin} names no data: set data.train to files, or data.corpus to opinions or gestures")
        first = data.train if isinstance(data.train, str) else data.train[0]
        if origin == f"recipe {self.data.name}-classify" and not Path(first).exists():
            raise UserError(f"{origin} does not say where its data is: add --set data.dir=DIR, where {first} is")


RECIPE = ClassifyRecipe
