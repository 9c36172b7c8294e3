"""Recipes for tagging: their keys and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harken.data.io.keys import CorpusName, DataTable, PreparedDir, Seed, Share
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig, in_one_table
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.paths import BaseDir, FilesInDir
from harken.recipe import Recipe, Section, TableColumn
from harken.tasks.folders import require_folder

Column = Annotated[int, Field(ge=0)] | str


class TagDataConfig(DataTable):
    """The source of the tagged sentences: a generated corpus, or files."""

    origins = ("corpus", "train")

    corpus: Literal["phrasebook"] | None = Field(None, description='a generated corpus: "phrasebook"')
    size: int = Field(6000, ge=1, description="training sentences of the generated corpus")
    dir: BaseDir | None = Field(None, description="folder that the file names below are relative to")
    train: FilesInDir | None = Field(
        None, description="file or list of files to train on (.conllu, columns, .jsonl, .npz)"
    )
    valid: FilesInDir | None = Field(None, description="files to validate on; default: held out from training")
    test: FilesInDir | None = Field(None, description="files that `harken evaluate` scores by default")
    format: Literal["auto", "conllu", "conll", "jsonl", "frames"] = Field(
        "auto", description="format of the files; auto uses the file name without .gz or .xz"
    )
    word_column: Column | None = Field(
        None,
        description=(
            "column of the words: a name in CoNLL-U (default form), a number from 0 in columns (default "
            "0), a key in JSONL (default tokens)"
        ),
    )
    tag_column: Column | None = Field(
        None,
        description=(
            "column of the tags: a name in CoNLL-U (default upos), a number in columns (default the "
            "last), a key in JSONL (default tags)"
        ),
    )
    valid_size: Share | None = Field(
        None, description="sentences (or fraction) held out for validation; default: 1000 or 5%, the smaller"
    )
    test_size: Share = Field(0, description="sentences (or fraction) held out for testing if no test files are given")
    prepared: PreparedDir = None
    name: CorpusName = None
    seed: Seed = 1


class WordsConfig(Section):
    """Input features: word embeddings plus character features."""

    lowercase: bool = Field(True, description="lower-case words; characters keep their case")
    min_count: int = Field(2, ge=1, description="words with a lower training count are unknown")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="probability of replacing a word by the unknown word in training"
    )
    characters: Literal["lstm", "convolutional", "none"] = Field("lstm", description="character encoder")
    character_embedding: int = Field(32, ge=1, description="width of character embeddings")
    character_width: int = Field(100, ge=2, description="width of the character encoder")
    character_dropout: float = Field(0.2, ge=0, lt=1, description="dropout before and after the character encoder")

    @model_validator(mode="after")
    def _width_splits(self) -> WordsConfig:
        if self.characters == "lstm" and self.character_width % 2:
            raise ValueError(
                f"words.character_width {self.character_width} is odd; each direction of the LSTM has half of it"
            )
        return self


class TagsConfig(Section):
    """The output layer."""

    crf: bool = Field(False, description="linear-chain CRF over the tags of a sentence; otherwise a softmax per word")
    bio: bool = Field(False, description="with a CRF: forbid I-x that does not follow B-x or I-x")

    @model_validator(mode="after")
    def _rules_need_neighbours(self) -> TagsConfig:
        if self.bio and not self.crf:
            raise ValueError("tags.bio is a rule about neighbours, which a CRF alone sees; set tags.crf = true too")
        return self


class TagRecipe(Recipe):
    """Recipe for tagging."""

    input_column = TableColumn("word_column", ("list",), "list of words", ("tokens", "words"))
    target_column = TableColumn("tag_column", ("list",), "list of tags", ("tags", "labels", "ner_tags"))

    task: Literal["tag"] = Field("tag", description="the job")
    data: TagDataConfig = Field(description="where the tagged sentences come from")
    words: WordsConfig = Field(WordsConfig.model_validate({}), description="input features")
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(
        RecurrentEncoderConfig.model_validate({}), description="the encoder; architecture chooses it"
    )
    tags: TagsConfig = Field(TagsConfig.model_validate({}), description="the output layer")

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
