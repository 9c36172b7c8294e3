"""Recipes for regression, their keys and defaults: examples as a classifier's, with numbers for labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.errors import UserError
from harken.models.heads.config import PoolingConfig
from harken.recipe import TableColumn
from harken.tasks.labelled.recipe import LABEL_NAMES, LabelledRecipe


class RegressorConfig(PoolingConfig):
    """From the encoder states to a number."""

    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the pooled vector")
    loss: Literal["squared", "absolute"] = Field(
        "squared", description="loss: squared error (predicts the mean) or absolute error (predicts the median)"
    )


class RegressRecipe(LabelledRecipe):
    """Recipe for regression."""

    target_column = TableColumn("label_column", ("number",), "number", LABEL_NAMES)

    task: Literal["regress"] = Field("regress", description="the job")
    regressor: RegressorConfig = Field(
        RegressorConfig.model_validate({}), description="from the encoder states to a number"
    )

    @property
    def head(self) -> RegressorConfig:
        return self.regressor

    def require_data(self, origin: str) -> None:
        """Files with numbers for labels."""
        if self.data.train is None:
            raise UserError(f"{origin} names no data: set data.train to files whose data.label_column is a number")


RECIPE = RegressRecipe
