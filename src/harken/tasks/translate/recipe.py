"""Recipes for translation: their keys and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from harken.data.text.config import DataConfig, TokenizerConfig
from harken.errors import UserError
from harken.models.config import ModelConfig, TransformerConfig
from harken.models.config_embeddings import SECTION, SidedEmbeddings, SidedEmbeddingsConfig
from harken.recipe import Recipe
from harken.search.config import TranslationSearchConfig


class TranslateRecipe(Recipe):
    """Recipe for translation."""

    task: Literal["translate"] = Field("translate", description="the job")
    data: DataConfig = Field(description="where the sentence pairs come from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text is tokenized")
    embeddings: SidedEmbeddings = Field(SidedEmbeddingsConfig.model_validate({}), description=SECTION)
    model: ModelConfig = Field(TransformerConfig.model_validate({}), description="the network; architecture chooses it")
    search: TranslationSearchConfig = Field(TranslationSearchConfig.model_validate({}), description="beam search")

    @model_validator(mode="after")
    def _tied_needs_joint(self) -> TranslateRecipe:
        if self.model.tied in ("all", "embeddings") and not self.tokenizer.joint:
            raise ValueError(
                f'model.tied is "{self.model.tied}", which needs one vocabulary for both sides: set tokenizer.joint = true, '
                'or model.tied = "output"'
            )
        return self

    @model_validator(mode="after")
    def _one_table_has_one_beginning(self) -> TranslateRecipe:
        sides = [side for side in ("source", "target") if getattr(self.embeddings, side) is not None]
        if self.model.tied in ("all", "embeddings") and sides:
            raise ValueError(
                f'embeddings.{sides[0]} is of one side, but model.tied = "{self.model.tied}" gives both sides one table: set '
                'embeddings.words, or model.tied = "output"'
            )
        return self

    @model_validator(mode="after")
    def _markup_needs_subwords(self) -> TranslateRecipe:
        if self.data.markup != "auto" and self.data.markup and self.tokenizer.kind not in ("bpe", "unigram"):
            raise ValueError(
                f"data.markup names kinds of markup, which are symbols among subwords, but tokenizer.kind is "
                f'"{self.tokenizer.kind}": set tokenizer.kind = "bpe", or data.markup = []'
            )
        return self

    @model_validator(mode="after")
    def _trees_are_there(self) -> TranslateRecipe:
        if self.reads_trees and not self.data.source_heads:
            raise ValueError(
                'model.positions is "dependency", which reads trees: write the head of every source word into the '
                "data (the|2 cat|3 sleeps|0) and set data.source_heads = true"
            )
        return self

    @property
    def reads_trees(self) -> bool:
        """Whether the model is given the trees of the source, and not its words alone."""
        return getattr(self.model, "positions", None) == "dependency"

    def require_data(self, origin: str) -> None:
        """Multi30k's recipes leave the folder and the languages to the user."""
        data = self.data
        if data.corpus or data.source or data.target:
            return
        required = (("--set data.dir=DIR", data.dir), ("--set data.pair=en-de", data.pair))
        missing = [what for what, value in required if not value]
        if missing:
            raise UserError(
                f"{origin} does not say where its data is: add {' '.join(missing)} (DIR is a folder with train.en.gz, "
                "train.de.gz, val.en.gz, val.de.gz and test files), or set data.source and data.target to your files"
            )


RECIPE = TranslateRecipe
