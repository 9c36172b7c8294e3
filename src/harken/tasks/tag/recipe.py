"""What a recipe for tagging may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.text.config import Files, Share
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig, in_one_table
from harken.recipe import Recipe
from harken.tasks.folders import require_folder
from harken.training.config import TrainConfig

Column = Annotated[int, Field(ge=0)] | str


class TagDataConfig(BaseModel):
    """Where the tagged sentences come from: a built-in corpus, or files."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["phrasebook"] | None = Field(None, description='a built-in corpus: "phrasebook"')
    size: int = Field(6000, ge=1, description="training sentences of the built-in corpus")
    dir: str | None = Field(None, description="folder that the names of the files below are relative to")
    train: Files | None = Field(None, description="file or list of files to train on (.conllu, columns, .jsonl, .npz)")
    valid: Files | None = Field(None, description="files to validate on; split off from training where absent")
    test: Files | None = Field(None, description="files that `harken evaluate` scores where nothing else is said")
    format: Literal["auto", "conllu", "conll", "jsonl", "frames"] = Field(
        "auto", description="of the files; auto goes by the name under .gz or .xz"
    )
    word_column: Column | None = Field(
        None,
        description="column of the words: CoNLL-U a name (form), columns a number from 0 (0), JSONL a key (tokens)",
    )
    tag_column: Column | None = Field(
        None, description="column of the tags: CoNLL-U a name (upos), columns a number (the last), JSONL a key (tags)"
    )
    valid_size: Share | None = Field(
        None, description="sentences (or fraction) split off to validate on; by default 1000 or 5%, the smaller"
    )
    name: str | None = Field(None, description="what to call the corpus in reports; by default from its files")
    seed: int = Field(1, ge=0, description="chooses what is split off; the built-in corpus is made from it")

    @model_validator(mode="after")
    def _one_origin(self) -> TagDataConfig:
        if self.corpus and self.train:
            raise ValueError("data.corpus and data.train are both given; keep one of them")
        return self


class WordsConfig(BaseModel):
    """How words become vectors: a vector each, plus one made of their characters."""

    model_config = ConfigDict(extra="forbid")

    lowercase: bool = Field(True, description="one vector for The and the; the characters keep their case")
    min_count: int = Field(2, ge=1, description="words seen fewer times in training are unknown")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of words read as unknown in training")
    characters: Literal["lstm", "convolutional", "none"] = Field("lstm", description="what reads a word's characters")
    character_embedding: int = Field(32, ge=1, description="width of a character's vector")
    character_width: int = Field(100, ge=2, description="width of what is read from the characters")
    character_dropout: float = Field(0.2, ge=0, lt=1, description="share zeroed before and after reading characters")

    @model_validator(mode="after")
    def _width_splits(self) -> WordsConfig:
        if self.characters == "lstm" and self.character_width % 2:
            raise ValueError(
                f"words.character_width {self.character_width} is odd; each direction of the LSTM has half of it"
            )
        return self


class TagsConfig(BaseModel):
    """How tags are chosen."""

    model_config = ConfigDict(extra="forbid")

    crf: bool = Field(False, description="choose the tags of a sentence together, by a CRF; else each for itself")
    bio: bool = Field(
        False, description="with a CRF: I-x is chosen only after B-x or I-x, whatever the training data have"
    )

    @model_validator(mode="after")
    def _rules_need_neighbours(self) -> TagsConfig:
        if self.bio and not self.crf:
            raise ValueError("tags.bio is a rule about neighbours, which a CRF alone sees; set tags.crf = true too")
        return self


class TagRecipe(Recipe):
    """All the sections of a recipe for tagging."""

    task: Literal["tag"] = Field("tag", description="the job the model learns")
    data: TagDataConfig = Field(description="where the tagged sentences come from")
    words: WordsConfig = Field(WordsConfig.model_validate({}), description="how words become vectors")
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(description="the encoder; begin with architecture")
    tags: TagsConfig = Field(TagsConfig.model_validate({}), description="how tags are chosen")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")

    @model_validator(mode="before")
    @classmethod
    def _older_keys(cls, values: Any) -> Any:
        return in_one_table(values, "words")

    @model_validator(mode="after")
    def _one_beginning(self) -> TagRecipe:
        if self.model.start is not None and (self.embeddings.words is not None or self.embeddings.elmo is not None):
            key = "words" if self.embeddings.words is not None else "elmo"
            raise ValueError(f"model.start and embeddings.{key} both say how words begin; keep one of them")
        return self

    def require_data(self, origin: str) -> None:
        """The recipes for real data leave the folder to the user, as `dir = ""`."""
        require_folder(self.data, origin, "data.train and data.valid to your files")


RECIPE = TagRecipe
