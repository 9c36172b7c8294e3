"""`[model]` of language models, in one direction or in both (ELMo)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.models.config_table import TIED_OUTPUT
from harken.models.recurrent.config import RecurrentLanguageConfig
from harken.models.transformer.config import TransformerBlocksConfig


class TransformerLanguageConfig(TransformerBlocksConfig):
    """Causal Transformer language model with a context of data.chunk tokens."""

    architecture: Literal["transformer"] = "transformer"
    tied: bool = Field(True, description=TIED_OUTPUT)

    @model_validator(mode="after")
    def _no_trees_here(self) -> TransformerLanguageConfig:
        if self.positions == "dependency":
            raise ValueError('model.positions is "dependency", which only translation has trees for; choose another')
        return self


AnyLanguageConfig = RecurrentLanguageConfig | TransformerLanguageConfig
LanguageConfig = Annotated[AnyLanguageConfig, Field(discriminator="architecture")]


class ElmoConfig(BaseModel):
    """Words by their characters, LSTM layers in each direction, one output layer (Peters et al., 2018)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: int = Field(128, ge=1, description="width of word representations and of every layer, per direction")
    layers: int = Field(2, ge=1, description="LSTM layers per direction")
    spelling: Literal["convolutional", "lstm"] = Field("convolutional", description="character encoder")
    character_embedding: int = Field(32, ge=1, description="width of character embeddings")
    character_width: int = Field(128, ge=2, description="width of the character encoder")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout before every layer and before the output")

    @model_validator(mode="after")
    def _width_splits(self) -> ElmoConfig:
        if self.spelling == "lstm" and self.character_width % 2:
            raise ValueError(
                f"model.character_width {self.character_width} is odd; each direction of the LSTM has half of it"
            )
        return self

    @property
    def title(self) -> str:
        """For reports."""
        return f"ELMo, {self.layers} LSTM layers of {self.width} each way"
