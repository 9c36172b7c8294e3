"""Recipes for handwriting: their keys and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.data.strokes.config import StrokeConfig
from harken.errors import UserError
from harken.models.heads.config import PenConfig
from harken.recipe import Recipe, Section


class SamplingConfig(Section):
    """Sampling of strokes."""

    bias: float = Field(
        0.5,
        ge=0,
        le=1000,
        description="sampling bias; 0 samples from the density, larger values are neater and less varied",
    )
    max_points: int = Field(600, ge=1, description="longest drawing in points")


class HandwritingRecipe(Recipe):
    """Recipe for handwriting."""

    task: Literal["handwriting"] = Field("handwriting", description="the job")
    data: StrokeConfig = Field(description="where the drawings come from")
    model: PenConfig = Field(PenConfig.model_validate({}), description="the network")
    sampling: SamplingConfig = Field(SamplingConfig.model_validate({}), description="how strokes are sampled")

    def require_data(self, origin: str) -> None:
        """The recipes for real drawings leave the file to the user."""
        if not self.data.sources:
            raise UserError(
                f"{origin} does not say where its drawings are: add --set data.file=FILE (.npz, all splits), "
                '--set data.train=FILE (.jsonl, .tra), or --set data.corpus="penfont"'
            )


RECIPE = HandwritingRecipe
