"""What can be said of a recipe for handwriting before anything is read whole or trained."""

from __future__ import annotations

from harken.data.io.files import require_file
from harken.data.strokes.config import StrokeConfig
from harken.models.size import Size
from harken.tasks.handwriting.recipe import HandwritingRecipe, PenConfig
from harken.tasks.registry import Estimate

POINTS_OF_A_LINE = 86  # of the built-in corpus
ALPHABET = 41  # of the built-in corpus, with the four special ids
POINT, MARKS = 3, 2


def estimate(recipe: HandwritingRecipe) -> Estimate:
    """Files that are there, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    size = size_of_pen(recipe.model, ALPHABET if recipe.model.window else 0)
    points = recipe.data.size * POINTS_OF_A_LINE if recipe.data.corpus else None
    notes = ["a term of the loss is a point of the pen"]
    return Estimate(describe(recipe.data), points, size, notes)


def describe(data: StrokeConfig) -> str:
    """The drawings in words; files have to be there."""
    if data.corpus:
        return f"penfont, {data.size:,} lines made by harken"
    paths = [require_file(name) for name in (data.file, data.train, data.valid, data.test) if name]
    return ", ".join(str(path) for path in paths)


def size_of_pen(config: PenConfig, characters: int) -> Size:
    """Count what `HandwritingModel` has, by arithmetic alone."""
    width, seen = config.width, config.embedding if characters else 0
    inputs = [POINT + seen + (width if number else 0) for number in range(config.layers)]
    matrices = sum(4 * width * (size + width) for size in inputs)
    biases = config.layers * 8 * width
    window = 3 * config.window * (width + 1) if characters else 0
    written = 6 * config.mixtures + MARKS
    output = written * config.layers * width
    return Size(
        parameters={
            "embeddings": characters * seen,
            "encoder": window,
            "decoder": matrices + biases,
            "output": output + written + 1,  # and the deviation of the data
        },
        source_matrices=0,
        target_matrices=matrices + output + (3 * config.window * width if characters else 0),
        activations=config.layers * 7 * width + 2 * written,
    )
