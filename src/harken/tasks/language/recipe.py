"""Recipes for language models: their keys and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from harken.data.text.text_config import TextConfig, TextTokenizerConfig
from harken.errors import UserError
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.models.language.config import LanguageConfig
from harken.models.recurrent.config import RecurrentLanguageConfig
from harken.recipe import TEXT_LINES, Recipe

SMALL_TEXT = 3_000_000  # characters up to which a language model reads characters


class LanguageRecipe(Recipe):
    """Recipe for a language model."""

    input_column = TEXT_LINES
    cuts_at_end = True

    task: Literal["language"] = Field("language", description="the job")
    data: TextConfig = Field(description="where the text comes from, and how it is divided into chunks")
    tokenizer: TextTokenizerConfig = Field(TextTokenizerConfig.model_validate({}), description="how text is tokenized")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: LanguageConfig = Field(
        RecurrentLanguageConfig.model_validate({}), description="the network; architecture chooses it"
    )

    @model_validator(mode="after")
    def _chunks_fit(self) -> LanguageRecipe:
        if self.train.batch_tokens < self.data.chunk:
            raise ValueError(
                f"train.batch_tokens {self.train.batch_tokens} is less than one stream's data.chunk {self.data.chunk}; "
                "a batch has batch_tokens / chunk streams, so raise it"
            )
        limit = self.model.longest
        if limit is not None and self.data.chunk > limit:
            raise ValueError(
                f"data.chunk {self.data.chunk} is longer than the model.max_length {limit} that positions are learned "
                "for; make one of them fit"
            )
        return self

    @classmethod
    def default_tables(cls, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Characters of little text, subwords of much."""
        is_small = sum(map(len, texts)) < SMALL_TEXT
        return {"tokenizer": {"kind": "character"} if is_small else {"kind": "bpe", "size": 8000}}

    @property
    def streams(self) -> int:
        """B, the streams that a batch reads side by side."""
        return self.train.batch_tokens // self.data.chunk

    @property
    def carries(self) -> bool:
        """Whether states go from chunk to chunk."""
        return self.data.carry and self.model.architecture == "recurrent"

    def require_data(self, origin: str) -> None:
        """Recipes for real text leave its place to the user."""
        if not (self.data.corpus or self.data.dir or self.data.train):
            raise UserError(
                f"{origin} does not say where its text is: add --set data.dir=DIR (a folder with files whose names say "
                "train, valid and test) or --set data.train=FILE"
            )


RECIPE = LanguageRecipe
