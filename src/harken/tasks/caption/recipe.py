"""What a recipe for captioning may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.text.config import Share
from harken.errors import UserError
from harken.models.captioning.config import ImageConfig
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.recipe import Recipe
from harken.search.config import SearchConfig
from harken.training.config import TrainConfig


class CaptionDataConfig(BaseModel):
    """Where the pictures come from: scenes that harken draws, Flickr8k's folder, or a table of files."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["scenes", "flickr8k"] | None = Field(
        None, description="scenes: drawn by harken; flickr8k: in `dir`"
    )
    dir: str | None = Field(
        None, description="flickr8k: the folder with Flickr8k.token.txt, the splits and the pictures"
    )
    table: str | None = Field(
        None, description="your own: CSV, TSV or JSONL with a picture's file and a caption a line"
    )
    valid: str | None = Field(None, description="another table to validate on; not given: split off from `table`")
    test: str | None = Field(None, description="another table to test on")
    images: str | None = Field(
        None, description="the folder the table's names are relative to; default: the table's own"
    )
    image_column: str = Field("image", description="the table's column with the picture's file")
    caption_column: str = Field("caption", description="the table's column with the caption")
    valid_size: Share | None = Field(None, description="pictures (or share) of `table` to validate on; default 5%")
    test_size: Share = Field(0, description="pictures (or share) of `table` to test on")
    scenes: int = Field(12000, ge=1, description="scenes to train on; with 500 to validate and 1,000 to test on")
    things: int = Field(3, ge=1, le=3, description="scenes: the most things in one")
    image_size: int = Field(64, ge=8, description="pixels along a side; others are cropped to the middle and scaled")
    flips: bool = Field(False, description="mirror half of the training pictures; not where captions say left or right")
    shift: int = Field(0, ge=0, description="move training pictures by up to this many pixels, edges repeated")
    seed: int = Field(1, ge=0, description="chooses the scenes, or the pictures that are split off")

    @model_validator(mode="after")
    def _one_place(self) -> CaptionDataConfig:
        if self.corpus and self.table:
            raise ValueError("data.corpus and data.table are both given; keep one of them")
        return self


class CaptionTokenizerConfig(BaseModel):
    """How captions become ids."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["word", "bpe", "unigram", "character"] = Field(
        "word", description="words, so that there is one map for each; or subwords, whose maps are averaged"
    )
    size: int = Field(8000, gt=4, description="largest vocabulary, the four special ids included")
    min_count: int = Field(1, ge=1, description="words seen fewer times in training are unknown")


class CaptionSearchConfig(SearchConfig):
    """How a caption is looked for."""

    max_length_factor: float = Field(0.0, ge=0, description="a picture has no pieces to multiply: leave it at 0")
    max_length_extra: int = Field(40, ge=1, description="the most pieces of a caption")
    beam: int = Field(3, ge=1, description="live hypotheses per picture; 1 is greedy search")


class CaptionRecipe(Recipe):
    """All the sections of a recipe for captioning."""

    task: Literal["caption"] = Field("caption", description="the job the model learns")
    data: CaptionDataConfig = Field(description="where the pictures and captions come from")
    tokenizer: CaptionTokenizerConfig = Field(
        CaptionTokenizerConfig.model_validate({}), description="how captions become ids"
    )
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: ImageConfig = Field(description="the network; begin with architecture, and a table [model.decoder]")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")
    search: CaptionSearchConfig = Field(
        CaptionSearchConfig.model_validate({}), description="how a caption is looked for"
    )

    @model_validator(mode="after")
    def _pictures_are_cut(self) -> CaptionRecipe:
        self.model.side(self.data.image_size)
        return self

    def require_data(self, origin: str) -> None:
        """Flickr8k's recipe leaves the folder to the user."""
        data = self.data
        if data.corpus == "flickr8k" and data.dir is None:
            raise UserError(
                f"{origin} does not say where its data is: add --set data.dir=DIR (a folder with Flickr8k.token.txt, "
                "the lists of its splits and images.tar.xz)"
            )
        if data.corpus is None and data.table is None:
            raise UserError(
                f"{origin} names no pictures: set data.table to a table of files and captions, or data.corpus"
            )


RECIPE = CaptionRecipe
