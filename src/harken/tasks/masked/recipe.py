"""What a recipe for masked pre-training may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.text.config import Files, TokenizerConfig
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.recipe import Recipe
from harken.tasks.folders import require_folder
from harken.training.config import TrainConfig


class MaskedDataConfig(BaseModel):
    """Where the text comes from: a generated corpus, or files with one sentence or paragraph per line."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["phrasebook"] | None = Field(
        None, description='a generated corpus: the English side of the "phrasebook"'
    )
    size: int = Field(20000, ge=1, description="training sentences of the generated corpus")
    dir: str | None = Field(None, description="folder that the file names below are relative to")
    train: Files | None = Field(None, description="text file or list of files to train on, plain, .gz or .xz")
    valid: Files | None = Field(None, description="files to validate on; default: the last lines of the training text")
    test: Files | None = Field(None, description="files that `harken evaluate` scores by default")
    valid_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.02, description="share of the lines, at the end, for validation if no files are given"
    )
    lowercase: bool = Field(False, description="whether to lower-case the text")
    min_words: int = Field(3, ge=1, description="skip shorter lines, such as headings and empty lines")
    max_tokens: int = Field(128, ge=2, description="divide longer lines into pieces of this many tokens")
    name: str | None = Field(None, description="name of the corpus in reports; default: from its files")
    seed: int = Field(1, ge=0, description="seed of the generated corpus")

    @model_validator(mode="after")
    def _one_origin(self) -> MaskedDataConfig:
        if self.corpus and self.train:
            raise ValueError("data.corpus and data.train are both given; keep one of them")
        return self


class MaskingConfig(BaseModel):
    """Which words are masked."""

    model_config = ConfigDict(extra="forbid")

    rate: float = Field(
        0.15, gt=0, lt=1, description="share of the words to predict: 80% of them masked, 10% replaced, 10% unchanged"
    )


class MaskedRecipe(Recipe):
    """Recipe for masked pre-training."""

    task: Literal["masked"] = Field("masked", description="the job")
    data: MaskedDataConfig = Field(description="where the text comes from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text is tokenized")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; requires architecture")
    masking: MaskingConfig = Field(MaskingConfig.model_validate({}), description="which words are masked")
    train: TrainConfig = Field(
        description="training settings; one of max_steps, max_epochs and max_minutes is required"
    )

    def require_data(self, origin: str) -> None:
        """The recipes for real data leave the folder to the user, as `dir = ""`."""
        require_folder(self.data, origin, "data.train to your files")


RECIPE = MaskedRecipe
