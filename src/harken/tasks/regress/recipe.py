"""What a recipe for regression may say: examples as a classifier's, with numbers for labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.errors import UserError
from harken.models.heads.pooling_config import PoolingConfig
from harken.tasks.labelled.recipe import LabelledRecipe


class RegressorConfig(PoolingConfig):
    """From what was read to a number."""

    dropout: float = Field(0.1, ge=0, lt=1, description="share of that vector zeroed before the output layer")
    loss: Literal["squared", "absolute"] = Field(
        "squared", description="the error that is minimised: squared predicts the mean, absolute the median"
    )


class RegressRecipe(LabelledRecipe):
    """All the sections of a recipe for regression."""

    task: Literal["regress"] = Field("regress", description="the job the model learns")
    regressor: RegressorConfig = Field(
        RegressorConfig.model_validate({}), description="from what the encoder reads to a number"
    )

    @property
    def head(self) -> RegressorConfig:
        return self.regressor

    def require_data(self, origin: str) -> None:
        """Files with numbers for labels."""
        if self.data.train is None:
            raise UserError(f"{origin} names no data: set data.train to files whose data.label is a number")


RECIPE = RegressRecipe
