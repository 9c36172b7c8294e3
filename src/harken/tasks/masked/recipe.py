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
    """Where the text comes from: a built-in corpus, or files, a sentence or a paragraph a line."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["phrasebook"] | None = Field(None, description='a built-in corpus: English of the "phrasebook"')
    size: int = Field(20000, ge=1, description="training sentences of the built-in corpus")
    dir: str | None = Field(None, description="folder that the names of the files below are relative to")
    train: Files | None = Field(None, description="text file or list of files to train on, plain, .gz or .xz")
    valid: Files | None = Field(None, description="files to validate on; the last lines of training where absent")
    test: Files | None = Field(None, description="files that `harken evaluate` scores where nothing else is said")
    valid_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.02, description="share of the lines, at the end, to validate on where no files are given"
    )
    lowercase: bool = Field(False, description="whether to lower-case the text")
    min_words: int = Field(3, ge=1, description="shorter lines (headings, blank ones) are left out")
    max_tokens: int = Field(128, ge=2, description="longer lines are cut into pieces of this many tokens")
    name: str | None = Field(None, description="what to call the corpus in reports; by default from its files")
    seed: int = Field(1, ge=0, description="the built-in corpus is made from it")

    @model_validator(mode="after")
    def _one_origin(self) -> MaskedDataConfig:
        if self.corpus and self.train:
            raise ValueError("data.corpus and data.train are both given; keep one of them")
        return self


class MaskingConfig(BaseModel):
    """What is hidden."""

    model_config = ConfigDict(extra="forbid")

    rate: float = Field(
        0.15, gt=0, lt=1, description="share of the words to guess: 80% of them masked, 10% replaced, 10% as they are"
    )


class MaskedRecipe(Recipe):
    """All the sections of a recipe for masked pre-training."""

    task: Literal["masked"] = Field("masked", description="the job the model learns")
    data: MaskedDataConfig = Field(description="where the text comes from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text becomes ids")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; begin with architecture")
    masking: MaskingConfig = Field(MaskingConfig.model_validate({}), description="what is hidden")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")

    def require_data(self, origin: str) -> None:
        """The recipes for real data leave the folder to the user, as `dir = ""`."""
        require_folder(self.data, origin, "data.train to your files")


RECIPE = MaskedRecipe
