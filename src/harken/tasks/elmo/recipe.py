"""Recipes for ELMo: their keys and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.data.text.text_config import LinesConfig
from harken.errors import UserError
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.models.language.config import ElmoConfig
from harken.recipe import TEXT_LINES, Recipe, Section


class ElmoWordsConfig(Section):
    """The output vocabulary; inputs are read as characters and need none."""

    size: int = Field(5000, ge=5, description="size of the output vocabulary, including special words")
    min_count: int = Field(2, ge=1, description="words with a lower training count are unknown in the output")


class ElmoRecipe(Recipe):
    """Recipe for ELMo."""

    input_column = TEXT_LINES
    cuts_at_end = True

    task: Literal["elmo"] = Field("elmo", description="the job")
    data: LinesConfig = Field(description="where the text comes from: one sentence or paragraph per line")
    words: ElmoWordsConfig = Field(ElmoWordsConfig.model_validate({}), description="the output vocabulary")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=f"{SECTION}; of what it predicts")
    model: ElmoConfig = Field(ElmoConfig.model_validate({}), description="the network")

    def require_data(self, origin: str) -> None:
        """The recipe for real text leaves the file to the user."""
        if not self.data.corpus and not self.data.train:
            raise UserError(
                f"{origin} does not say where its text is: add --set data.train=FILE (a sentence or a paragraph a "
                'line), or set data.corpus to "phrasebook"'
            )


RECIPE = ElmoRecipe
