"""What a recipe for handwriting may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harken.data.strokes.config import StrokeConfig
from harken.errors import UserError
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class PenConfig(BaseModel):
    """Stacked LSTMs with a mixture density output and a soft window over the text (Graves, 2013)."""

    model_config = ConfigDict(extra="forbid")

    width: int = Field(160, ge=1, description="hidden width of each LSTM layer")
    layers: int = Field(2, ge=1, description="LSTM layers")
    mixtures: int = Field(10, ge=1, description="mixture components for the next point")
    window: int = Field(6, ge=0, description="mixture components of the window over the text; 0: unconditional")
    pace: float = Field(14.0, gt=0, description="initial number of points per character, for the window's speed")
    embedding: int = Field(32, ge=1, description="width of character embeddings")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the outputs of the layers")

    @property
    def title(self) -> str:
        """For the card."""
        kind = f", a window of {self.window} Gaussians" if self.window else ""
        return f"{self.layers} LSTM layers of {self.width}, {self.mixtures} Gaussians{kind}"


class SamplingConfig(BaseModel):
    """Sampling of strokes."""

    model_config = ConfigDict(extra="forbid")

    bias: float = Field(
        0.5, ge=0, description="sampling bias; 0 samples from the density, larger values are neater and less varied"
    )
    max_points: int = Field(600, ge=1, description="longest drawing in points")


class HandwritingRecipe(Recipe):
    """Recipe for handwriting."""

    task: Literal["handwriting"] = Field("handwriting", description="the job")
    data: StrokeConfig = Field(description="where the drawings come from")
    model: PenConfig = Field(PenConfig.model_validate({}), description="the network")
    train: TrainConfig = Field(
        description="training settings; one of max_steps, max_epochs and max_minutes is required"
    )
    sampling: SamplingConfig = Field(SamplingConfig.model_validate({}), description="how strokes are sampled")

    def require_data(self, origin: str) -> None:
        """The recipes for real drawings leave the file to the user."""
        if not self.data.sources:
            raise UserError(
                f"{origin} does not say where its drawings are: add --set data.file=FILE (.npz, all splits), "
                '--set data.train=FILE (.jsonl, .tra), or --set data.corpus="penfont"'
            )


RECIPE = HandwritingRecipe
