"""What can be said of a recipe for classification before anything is read whole or trained."""

from __future__ import annotations

from itertools import islice

from harken.data.io.files import read_lines
from harken.data.io.folders import matching
from harken.data.text.examples_config import ExamplesConfig
from harken.models.size import ENCODERS, Size
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context_shape import parameters_beside
from harken.tasks.registry import Estimate

LINES_TO_READ = 1000
PIECES_PER_WORD = {"bpe": 1.4, "unigram": 1.4, "word": 1.1, "character": 6.0}
MADE = {"opinions": (6000, 12, 2), "gestures": (1200, 36, 6)}  # examples, steps of each, classes
USUAL_CLASSES, USUAL_CHANNELS = 10, 8  # where files would have to be read to know


def estimate(recipe: ClassifyRecipe) -> Estimate:
    """Files that are there, and the size of it all; terms are tokens or frames, which is what training takes time for.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data, notes = recipe.data, []
    terms: int | None
    classes = len(set(data.names.values())) if data.names else USUAL_CLASSES
    if data.corpus:
        usual, steps, classes = MADE[data.corpus]
        corpus, terms = f"{data.corpus}, made by harken", (data.size or usual) * steps
        channels = 2
    else:
        corpus, terms = _of_files(data, PIECES_PER_WORD[recipe.tokenizer.kind])
        channels = len(data.channels) if data.channels else data.frame if data.frame > 1 else USUAL_CHANNELS
    if data.kind == "text":
        notes.append(f"the vocabulary may end before tokenizer.size {recipe.tokenizer.size:,}: sizes are upper bounds")
        rows = recipe.tokenizer.size
    else:
        rows = channels + 1  # of the linear map in place of an embedding
    return Estimate(corpus, terms, size_of(recipe, rows, classes), notes)


def _of_files(data: ExamplesConfig, pieces: float) -> tuple[str, int | None]:
    paths = matching(data.dir, data.train)
    for split in ("valid", "test"):
        if getattr(data, split):
            matching(data.dir, data.split(split).train)
    what = f"{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    if data.kind == "signal" or not paths[0].is_file() or data.encoding != "utf-8":
        return what, None
    sample = list(islice(read_lines(paths[0]), LINES_TO_READ))
    words = sum(len(line.split()) for line in sample)
    if len(sample) < LINES_TO_READ:
        return f"{what}; {len(sample):,} lines", int(words * pieces)
    size = paths[0].stat().st_size * (3 if paths[0].suffix in (".gz", ".xz") else 1)
    lines = int(size / max(1.0, sum(len(line.encode()) + 1 for line in sample) / len(sample)))
    return f"{what}; about {lines:,} lines", int(words / len(sample) * lines * pieces)


def size_of(recipe: ClassifyRecipe, rows: int, classes: int) -> Size:
    """Count what `build_classifier` would build: `rows` of the embedding, or channels and a bias."""
    side, chosen = ENCODERS[recipe.model.architecture](recipe.model), recipe.classifier
    width = side.width
    score = {"additive": 2 * width**2 + 2 * width, "multiplicative": width**2, "cosine": 1}.get(chosen.score, 0)
    pooling = width + score if chosen.pooling == "attention" else 0
    constants = 2 * (rows - 1) if recipe.data.kind == "signal" else 0  # mean and deviation of every channel
    products = rows * side.embedding if recipe.data.kind == "signal" else 0
    return Size(
        parameters={
            "embeddings": rows * side.embedding + constants,
            "encoder": chosen.members * side.parameters + parameters_beside(recipe.embeddings.elmo, side.embedding),
            "pooling": chosen.members * pooling,
            "output": chosen.members * classes * (width + 1),
        },
        source_matrices=chosen.members * side.matrices + products,
        target_matrices=chosen.members * width**2 if chosen.pooling == "attention" and score > width else 0,
        activations=chosen.members * side.activations,
    )
