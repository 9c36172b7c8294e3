"""What can be said of a recipe for ELMo before anything is read whole or trained."""

from __future__ import annotations

from itertools import islice

from harken.data.io.files import COMPRESSIONS, read_lines
from harken.models.size import Size
from harken.models.size_side import linear
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.masked.text import files_of
from harken.tasks.registry import Estimate

LINES_TO_READ = 1000
WORDS_IN_A_PHRASE = 9  # of the built-in corpus
CHARACTERS = 120  # a typical number, where only the whole text would tell
LETTERS = 5  # of a word
PACKED = 3  # how many times text shrinks when it is packed


def estimate(recipe: ElmoRecipe) -> Estimate:
    """Files that are there, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data, size = recipe.data, size_of(recipe, recipe.words.size)
    notes = [f"the text is not read whole here: sizes are for words.size {recipe.words.size:,} words"]
    if data.corpus:
        terms = 2 * data.size * (WORDS_IN_A_PHRASE + 1)
        return Estimate(f"{data.corpus}, {data.size:,} sentences made by harken", terms, size, notes)
    paths = [path for split in (data.train, data.valid, data.test) for path in files_of(data, split)]
    sample = list(islice(read_lines(paths[0]), LINES_TO_READ))
    words = sum(len(line.split()) for line in sample)
    if len(sample) == LINES_TO_READ:
        plain_size = paths[0].stat().st_size * (PACKED if paths[0].suffix in COMPRESSIONS else 1)
        words = int(words * plain_size / max(1, sum(len(line.encode()) + 1 for line in sample)))
    return Estimate(f"{paths[0]}, about {words:,} words", 2 * words, size, notes)


def size_of(recipe: ElmoRecipe, words: int, characters: int = CHARACTERS) -> Size:
    """Count what `build_elmo` would build; a term of the loss is one word in one direction."""
    model = recipe.model
    inner, outer, width = model.character_embedding, model.character_width, model.width
    half = outer // 2
    reading = 2 * 4 * (inner * half + half * half + 2 * half) if model.spelling == "lstm" else linear(3 * inner, outer)
    layers = model.layers * 4 * (2 * width * width + 2 * width)  # of one direction
    spelling = LETTERS * reading + linear(outer, width)
    return Size(
        parameters={
            "embeddings": characters * inner,
            "characters": reading + linear(outer, width),
            "layers": 2 * layers,
            "output": linear(width, words),
        },
        source_matrices=0,
        target_matrices=layers + words * width + spelling // 2,
        activations=model.layers * 7 * width + LETTERS * outer + 2 * words,
    )
