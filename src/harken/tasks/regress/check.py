"""What can be said of a recipe for regression before anything is trained."""

from __future__ import annotations

from harken.data.io.folders import matching
from harken.models.size import ENCODERS, Size
from harken.tasks.context_shape import parameters_beside
from harken.tasks.registry import Estimate
from harken.tasks.regress.recipe import RegressRecipe

USUAL_CHANNELS = 8  # where files would have to be read to know


def estimate(recipe: RegressRecipe) -> Estimate:
    """Files that are there, and the size of the network.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    paths = matching(recipe.data.dir, recipe.data.train)
    rows = recipe.tokenizer.size if recipe.data.kind == "text" else len(recipe.data.channels or []) or USUAL_CHANNELS
    return Estimate(
        f"{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""), None, size_of(recipe, rows)
    )


def size_of(recipe: RegressRecipe, inputs: int) -> Size:
    """Count what is built for `inputs` ids or channels."""
    side, chosen = ENCODERS[recipe.model.architecture](recipe.model), recipe.regressor
    width, signal = side.width, recipe.data.kind == "signal"
    score = {"additive": 2 * width**2 + 2 * width, "multiplicative": width**2, "cosine": 1}.get(chosen.score, 0)
    return Size(
        parameters={
            "embeddings": (inputs + signal) * side.embedding + 2 * inputs * signal,
            "encoder": side.parameters + parameters_beside(recipe.embeddings.elmo, side.embedding),
            "pooling": width + score if chosen.pooling == "attention" else 0,
            "output": width + 1 + 2,
        },
        source_matrices=side.matrices,
        target_matrices=width,
        activations=side.activations,
    )
