"""The `[data]` and `[tokenizer]` tables of a recipe for running text, in one language.

>>> TextConfig(train="input.txt", test_share=0.1).lines
True
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Files = str | list[str]
Share = Annotated[float, Field(ge=0, lt=1)]


class TextConfig(BaseModel):
    """Where the text comes from: a built-in corpus, files, or a folder; exactly one of the three."""

    model_config = ConfigDict(extra="forbid")

    corpus: Literal["phrasebook"] | None = Field(
        None, description='a built-in corpus: the English side of the "phrasebook"'
    )
    size: int = Field(20000, gt=0, description="training lines of the built-in corpus")
    dir: str | None = Field(
        None, description="folder with files whose names say train, valid and test (ptb.train.txt.gz), or with one file"
    )
    train: Files | None = Field(None, description="file or list of files to train on, plain, .gz or .xz")
    valid: Files | None = Field(None, description="files to validate on; where absent, a share of the training text")
    test: Files | None = Field(None, description="files to test on; where absent, a share of the training text")
    valid_share: Share = Field(0.05, description="share of the text, before the test's, to validate on")
    test_share: Share = Field(0.05, description="share at the end of the text to test on")
    lines: bool = Field(True, description="whether the end of a line is a token; false: the lines are one running text")
    chunk: int = Field(
        64, ge=2, description="tokens of a stream in a batch: how far gradients go back, what a Transformer sees"
    )
    vary: float = Field(
        0.0, ge=0, description="recurrent: standard deviation of a chunk's length, drawn anew for every batch; 0: none"
    )
    carry: bool = Field(True, description="recurrent: hand the state from chunk to chunk (truncated back-propagation)")
    ngram: int = Field(
        5, ge=0, description="order of the n-gram model that harken evaluate sets beside the network; 0: none"
    )
    name: str | None = Field(None, description="what to call the corpus in reports; by default from its files")
    seed: int = Field(1, ge=0, description="the built-in corpus is made from it")

    @model_validator(mode="after")
    def _something_is_left(self) -> TextConfig:
        if self.valid_share + self.test_share >= 1:
            raise ValueError(
                f"data.valid_share {self.valid_share:g} and data.test_share {self.test_share:g} leave nothing to train "
                "on; make them smaller"
            )
        return self


class TextTokenizerConfig(BaseModel):
    """How running text becomes ids."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["word", "bpe", "unigram", "character"] = Field(
        "word", description="whitespace words as the text has them, subwords (sentencepiece), or characters"
    )
    size: int = Field(50000, gt=4, description="largest vocabulary, the four special ids included")
    min_count: int = Field(1, ge=1, description="words and characters seen fewer times in training are unknown")
