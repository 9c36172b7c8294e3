"""What a recipe for handwriting may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harken.data.strokes.config import StrokeConfig
from harken.errors import UserError
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class PenConfig(BaseModel):
    """Stacked LSTMs with a mixture density, and a soft window over the text."""

    model_config = ConfigDict(extra="forbid")

    width: int = Field(160, ge=1, description="units of each LSTM layer")
    layers: int = Field(2, ge=1, description="LSTM layers")
    mixtures: int = Field(10, ge=1, description="Gaussians for the next point")
    window: int = Field(6, ge=0, description="Gaussians of the window over the text; 0: the text is not read")
    pace: float = Field(14.0, gt=0, description="points of a character at first; the window learns its own pace")
    embedding: int = Field(32, ge=1, description="width of a character")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of the layers' outputs that is dropped in training")

    @property
    def title(self) -> str:
        """For the card."""
        kind = f", a window of {self.window} Gaussians" if self.window else ""
        return f"{self.layers} LSTM layers of {self.width}, {self.mixtures} Gaussians{kind}"


class SamplingConfig(BaseModel):
    """How strokes are drawn from the density."""

    model_config = ConfigDict(extra="forbid")

    bias: float = Field(0.5, ge=0, description="0 draws from the density itself; more is neater and less varied")
    max_points: int = Field(600, ge=1, description="a drawing that has not ended by then is cut off")


class HandwritingRecipe(Recipe):
    """All the sections of a recipe for handwriting."""

    task: Literal["handwriting"] = Field("handwriting", description="the job the model learns")
    data: StrokeConfig = Field(description="where the drawings come from")
    model: PenConfig = Field(PenConfig.model_validate({}), description="the network")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")
    sampling: SamplingConfig = Field(SamplingConfig.model_validate({}), description="how strokes are drawn")

    def require_data(self, origin: str) -> None:
        """The recipes for real drawings leave the file to the user."""
        if not self.data.sources:
            raise UserError(
                f"{origin} does not say where its drawings are: add --set data.file=FILE (.npz, all splits), "
                '--set data.train=FILE (.jsonl, .tra), or --set data.corpus="penfont"'
            )


RECIPE = HandwritingRecipe
