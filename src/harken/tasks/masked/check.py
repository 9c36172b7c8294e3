"""What can be said of a recipe for masked pre-training before anything is read whole or trained."""

from __future__ import annotations

from itertools import islice

from harken.data.io.files import read_lines
from harken.models.size import ENCODERS, Size
from harken.models.size_side import linear
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.masked.text import files_of
from harken.tasks.registry import Estimate

PIECES_PER_WORD = {"bpe": 1.4, "unigram": 1.4, "word": 1.1, "character": 6.0}
LINES_TO_READ = 1000
WORDS_IN_A_PHRASE = 9  # of the built-in corpus


def estimate(recipe: MaskedRecipe) -> Estimate:
    """Files that are there, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data, size = recipe.data, size_of(recipe, recipe.tokenizer.size)
    pieces = PIECES_PER_WORD[recipe.tokenizer.kind]
    if data.corpus:
        tokens = int(data.size * WORDS_IN_A_PHRASE * pieces)
        return Estimate(f"{data.corpus}, {data.size:,} sentences made by harken", tokens, size)
    paths = [path for split in (data.train, data.valid, data.test) for path in files_of(data, split)]
    sample = list(islice(read_lines(paths[0]), LINES_TO_READ))
    words = sum(len(line.split()) for line in sample)
    if len(sample) == LINES_TO_READ:
        plain_size = paths[0].stat().st_size * (3 if paths[0].suffix in (".gz", ".xz") else 1)
        words = int(words * plain_size / max(1, sum(len(line.encode()) + 1 for line in sample)))
    return Estimate(f"{paths[0]} and {len(paths) - 1} more files", int(words * pieces), size)


def size_of(recipe: MaskedRecipe, tokens: int) -> Size:
    """Count what `build_masked_model` would build."""
    encoder = ENCODERS[recipe.model.architecture](recipe.model)
    head = linear(encoder.width, encoder.embedding) + 2 * encoder.embedding + tokens
    shown = recipe.masking.rate * (encoder.width + tokens) * encoder.embedding  # the output is asked of some tokens
    return Size(
        parameters={"embeddings": tokens * encoder.embedding, "encoder": encoder.parameters, "output": head},
        source_matrices=encoder.matrices,
        target_matrices=int(shown),
        activations=encoder.activations + int(recipe.masking.rate * 2 * tokens),
    )
