"""`harken check` of a handwriting recipe."""

from __future__ import annotations

from harken.data.io.files import require_file
from harken.data.strokes.config import StrokeConfig
from harken.models.heads.handwriting import HandwritingModel
from harken.models.sizing import measure, uninitialised
from harken.tasks.handwriting.recipe import HandwritingRecipe
from harken.tasks.registry import Estimate

POINTS_OF_A_LINE = 86  # of the built-in corpus
ALPHABET = 41  # of the built-in corpus, with the four special ids


def estimate(recipe: HandwritingRecipe) -> Estimate:
    """Check the files, and measure the network; a term of the loss is a point.

    Raises:
        UserError: the error that training would raise.
    """
    model = uninitialised(lambda: HandwritingModel(recipe.model, ALPHABET if recipe.model.window else 0))
    size = measure(model, POINTS_OF_A_LINE)
    points = recipe.data.size * POINTS_OF_A_LINE if recipe.data.corpus else None
    notes = ["a term of the loss is a point of the pen"]
    return Estimate(describe(recipe.data), points, size, notes)


def describe(data: StrokeConfig) -> str:
    """A description of the drawings; the files have to exist."""
    if data.corpus:
        return f"penfont, {data.size:,} lines made by harken"
    paths = [require_file(name) for name in (data.file, data.train, data.valid, data.test) if name]
    return ", ".join(str(path) for path in paths)
