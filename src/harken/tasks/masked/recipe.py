"""Recipes for masked pre-training: their keys and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.data.text.config import TokenizerConfig
from harken.data.text.text_config import LinesConfig
from harken.models.config import EncoderConfig, TransformerEncoderConfig
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.recipe import TEXT_LINES, Recipe, Section
from harken.tasks.folders import require_folder


class MaskingConfig(Section):
    """The words that are masked."""

    rate: float = Field(
        0.15, gt=0, lt=1, description="share of the words to predict: 80% of them masked, 10% replaced, 10% unchanged"
    )


class MaskedRecipe(Recipe):
    """Recipe for masked pre-training."""

    input_column = TEXT_LINES
    cuts_at_end = True

    task: Literal["masked"] = Field("masked", description="the job")
    data: LinesConfig = Field(description="where the text comes from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text is tokenized")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(
        TransformerEncoderConfig.model_validate({}), description="the encoder; architecture chooses it"
    )
    masking: MaskingConfig = Field(MaskingConfig.model_validate({}), description="which words are masked")

    def require_data(self, origin: str) -> None:
        """The recipes for real data leave the folder to the user, as `dir = ""`."""
        require_folder(self.data, origin, "data.train to your files")


RECIPE = MaskedRecipe
