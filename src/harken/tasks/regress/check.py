"""`harken check` of a regression recipe."""

from __future__ import annotations

from harken.data.io.folders import matching
from harken.models.sizing import measure, uninitialised
from harken.tasks.context_shape import ContextShape
from harken.tasks.estimates import first_and_more
from harken.tasks.registry import Estimate
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.regress.regressor import build_regressor

CHANNELS = 8  # a typical number, where the files would have to be read


def estimate(recipe: RegressRecipe) -> Estimate:
    """Check the files, and measure the network; the cost is that of one token or frame.

    Raises:
        UserError: the error that training would raise.
    """
    paths = matching(recipe.data.dir, recipe.data.train)
    inputs = recipe.tokenizer.size if recipe.data.kind == "text" else len(recipe.data.channels or []) or CHANNELS
    context = ContextShape.of(recipe.embeddings.elmo)
    model = uninitialised(lambda: build_regressor(recipe, inputs, context))
    return Estimate(first_and_more(paths), None, measure(model))
