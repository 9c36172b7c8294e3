"""Recipes for captioning: their keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from harken.data.io.keys import DataTable, Share
from harken.errors import UserError
from harken.models.captioning.config import ImageConfig, RegionsConfig
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.paths import PathStr
from harken.recipe import Recipe, Section, TableColumn
from harken.search.config import SearchConfig


class CaptionDataConfig(DataTable):
    """The source of the images: generated scenes, a Flickr8k folder, or a table of files."""

    older: ClassVar[Mapping[str, str]] = {"table": "train"}

    origins = ("corpus", "train")

    corpus: Literal["scenes", "flickr8k"] | None = Field(None, description="scenes: generated; flickr8k: in `dir`")
    dir: PathStr | None = Field(
        None, description="flickr8k: folder with Flickr8k.token.txt, the split lists and the images"
    )
    train: PathStr | None = Field(
        None, description="your own data: CSV, TSV or JSONL with an image file and a caption per row"
    )
    valid: PathStr | None = Field(None, description="another table for validation; default: held out from `train`")
    test: PathStr | None = Field(None, description="another table for testing")
    images: PathStr | None = Field(
        None, description="folder that the table's file names are relative to; default: the table's folder"
    )
    image_column: str = Field("image", description="column of the image file")
    caption_column: str = Field("caption", description="column of the caption")
    valid_size: Share | None = Field(
        None, description="images (or share) of `train` held out for validation; default 5%"
    )
    test_size: Share = Field(0, description="images (or share) of `train` held out for testing")
    scenes: int = Field(12000, ge=1, description="training scenes; there are 500 validation and 1,000 test scenes")
    things: int = Field(3, ge=1, le=3, description="scenes: largest number of objects")
    image_size: int = Field(
        64, ge=8, description="side of an image in pixels; other images are cropped to the centre square and scaled"
    )
    flips: bool = Field(
        False, description="mirror half of the training images; do not use it if captions contain left or right"
    )
    shift: int = Field(0, ge=0, description="shift training images by up to this many pixels")
    seed: int = Field(1, ge=0, description="seed of the generated scenes and of the held-out split")


class CaptionTokenizerConfig(Section):
    """The tokenizer of captions."""

    kind: Literal["word", "bpe", "unigram", "character"] = Field(
        "word", description="words, with one attention map each, or subwords, whose maps are averaged"
    )
    size: int = Field(8000, gt=4, description="vocabulary size, including the four special ids")
    min_count: int = Field(1, ge=1, description="words with a lower training count are unknown")


class CaptionSearchConfig(SearchConfig):
    """Beam search for captions."""

    max_length_factor: float = Field(0.0, ge=0, description="unused for images: keep it at 0")
    max_length_extra: int = Field(40, ge=1, description="largest number of pieces in a caption")
    beam: int = Field(3, ge=1, description="beam width; 1 is greedy search")


class CaptionRecipe(Recipe):
    """Recipe for image captioning."""

    input_column = TableColumn("image_column", ("image",), "picture", ("image", "path", "file"))
    target_column = TableColumn("caption_column", ("text", "label"), "caption", ("caption",))

    task: Literal["caption"] = Field("caption", description="the job")
    data: CaptionDataConfig = Field(description="where the images and captions come from")
    tokenizer: CaptionTokenizerConfig = Field(
        CaptionTokenizerConfig.model_validate({}), description="how captions are tokenized"
    )
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: ImageConfig = Field(
        RegionsConfig.model_validate({"decoder": {"architecture": "recurrent", "attention": "additive"}}),
        description="the network; architecture and a table [model.decoder] choose it",
    )
    search: CaptionSearchConfig = Field(CaptionSearchConfig.model_validate({}), description="beam search")

    @classmethod
    def recognise(cls, path: Path) -> tuple[str, dict[str, Any]] | None:
        if not any(path.glob("Flickr8k.token.txt*")):
            return None
        return "the files of Flickr8k", {"corpus": "flickr8k", "dir": str(path)}

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
        if data.corpus is None and data.train is None:
            raise UserError(
                f"{origin} names no pictures: set data.train to a table of files and captions, or data.corpus"
            )


RECIPE = CaptionRecipe
