"""The `[data]` and `[tokenizer]` tables of a recipe for text in one language: running text, or lines by themselves.

>>> TextConfig(train="input.txt", test_size=0.1).lines
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.io.keys import CorpusName, DataTable, PreparedDir, Seed
from harken.paths import BaseDir, Files, FilesInDir, PathStr

Share = Annotated[float, Field(ge=0, lt=1)]


class TextConfig(DataTable):
    """The source of the text: a generated corpus, files, or a folder; exactly one of the three."""

    older: ClassVar[Mapping[str, str]] = {"valid_share": "valid_size", "test_share": "test_size"}

    corpus: Literal["phrasebook"] | None = Field(
        None, description='a generated corpus: the English side of the "phrasebook"'
    )
    size: int = Field(20000, gt=0, description="training lines of the generated corpus")
    dir: PathStr | None = Field(
        None,
        description=(
            "folder with files whose names contain train, valid and test (ptb.train.txt.gz), or with one file"
        ),
    )
    train: Files | None = Field(None, description="file or list of files to train on, plain, .gz or .xz")
    valid: Files | None = Field(None, description="files to validate on; default: a share of the training text")
    test: Files | None = Field(None, description="files to test on; default: a share of the training text")
    valid_size: Share = Field(0.05, description="share of the text for validation, before the test part")
    test_size: Share = Field(0.05, description="share at the end of the text for testing")
    lines: bool = Field(True, description="whether the end of a line is a token; false: the lines are one running text")
    chunk: int = Field(
        64,
        ge=2,
        description=(
            "tokens per stream in a batch: the span of truncated back-propagation, and the context of a Transformer"
        ),
    )
    vary: float = Field(
        0.0, ge=0, description="recurrent: standard deviation of the chunk length, drawn for every batch; 0: constant"
    )
    carry: bool = Field(
        True, description="recurrent: carry the state from chunk to chunk (truncated back-propagation through time)"
    )
    ngram: int = Field(5, ge=0, description="order of the n-gram baseline of harken evaluate; 0: none")
    prepared: PreparedDir = None
    name: CorpusName = None
    seed: Seed = 1

    @model_validator(mode="after")
    def _something_is_left(self) -> TextConfig:
        if self.valid_size + self.test_size >= 1:
            raise ValueError(
                f"data.valid_size {self.valid_size:g} and data.test_size {self.test_size:g} leave nothing to train "
                "on; make them smaller"
            )
        return self


class TextTokenizerConfig(BaseModel):
    """The tokenizer of running text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["word", "bpe", "unigram", "character"] = Field(
        "word", description="words separated by white space, subwords (sentencepiece), or characters"
    )
    size: int = Field(50000, gt=4, description="vocabulary size, including the four special ids")
    min_count: int = Field(1, ge=1, description="words and characters with a lower training count are unknown")


class LinesConfig(DataTable):
    """The source of the text: a generated corpus, or files with one sentence or paragraph per line."""

    older: ClassVar[Mapping[str, str]] = {"valid_share": "valid_size"}

    origins = ("corpus", "train")

    corpus: Literal["phrasebook"] | None = Field(
        None, description='a generated corpus: the English side of the "phrasebook"'
    )
    size: int = Field(20000, ge=1, description="training sentences of the generated corpus")
    dir: BaseDir | None = Field(None, description="folder that the file names below are relative to")
    train: FilesInDir | None = Field(None, description="text file or list of files to train on, plain, .gz or .xz")
    valid: FilesInDir | None = Field(
        None, description="files to validate on; default: the last lines of the training text"
    )
    test: FilesInDir | None = Field(None, description="files that `harken evaluate` scores by default")
    valid_size: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.02, description="share of the lines, at the end, for validation if no files are given"
    )
    lowercase: bool = Field(False, description="whether to lower-case the text")
    min_words: int = Field(3, ge=1, description="skip shorter lines, such as headings and empty lines")
    max_tokens: int = Field(128, ge=2, description="divide longer lines into pieces of this many tokens")
    prepared: PreparedDir = None
    name: CorpusName = None
    seed: Seed = 1
