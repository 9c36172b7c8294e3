"""What can be said of a recipe for tagging before anything is read whole or trained."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from harken.data.io.files import read_lines
from harken.models.size import ENCODERS, Size
from harken.models.size_side import linear
from harken.tasks.context_shape import parameters_beside
from harken.tasks.registry import Estimate
from harken.tasks.tag.corpus import check_files, is_frames
from harken.tasks.tag.recipe import TagRecipe, WordsConfig

LINES_TO_READ = 5000
WORDS_IN_A_PHRASE = 9  # of the built-in corpus
CHARACTERS, TAGS, WORDS = 120, 17, 10_000  # typical numbers, where only the whole text would tell
LETTERS = 5  # of a word


def estimate(recipe: TagRecipe) -> Estimate:
    """Files that are there, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    paths = check_files(recipe.data)
    size = size_of(recipe, words=WORDS)
    notes = [f"the vocabulary is not read here: sizes are for {WORDS:,} words, {CHARACTERS} characters, {TAGS} tags"]
    if recipe.data.corpus:
        corpus = f"{recipe.data.corpus}, {recipe.data.size:,} sentences made by harken"
        return Estimate(corpus, recipe.data.size * WORDS_IN_A_PHRASE, size, notes)
    first = paths[0]
    words = None if is_frames(recipe.data, first) else word_lines(first)
    about = "" if words is None else f"; about {words:,} words in the first"
    return Estimate(f"{first} and {len(paths) - 1} more files{about}", words, size, notes)


def word_lines(path: Path) -> int:
    """Lines with words, by the size of the file where it is large."""
    sample = list(islice(read_lines(path), LINES_TO_READ))
    words = sum(bool(line.strip()) and not line.startswith("#") for line in sample)
    if len(sample) < LINES_TO_READ:
        return words
    plain_size = path.stat().st_size * {".gz": 5, ".xz": 10}.get(path.suffix, 1)  # as such columns are packed
    return int(words * plain_size / max(1, sum(len(line.encode()) + 1 for line in sample)))


def size_of(recipe: TagRecipe, words: int, characters: int = CHARACTERS, tags: int = TAGS) -> Size:
    """Count what `build_tagging_model` would build for a vocabulary of words (special ids included)."""
    encoder = ENCODERS[recipe.model.architecture](recipe.model)
    table, matrices, projection = speller(recipe.words, characters, encoder.embedding)
    crf = tags * tags + 2 * tags if recipe.tags.crf else 0
    return Size(
        parameters={
            "embeddings": words * encoder.embedding + table,
            "characters": matrices + projection,
            "encoder": encoder.parameters + parameters_beside(recipe.embeddings.elmo, encoder.embedding),
            "output": linear(encoder.width, tags) + crf,
        },
        source_matrices=encoder.matrices + (LETTERS * matrices + projection if projection else 0),
        target_matrices=encoder.width * tags,
        activations=encoder.activations + LETTERS * 8 * recipe.words.character_width + 2 * tags,
    )


def speller(settings: WordsConfig, characters: int, width: int) -> tuple[int, int, int]:
    """Parameters of the characters' matrix, of what reads them, and of the map to the words' width."""
    inner, outer = settings.character_embedding, settings.character_width
    if settings.characters == "none":
        return 0, 0, 0
    if settings.characters == "lstm":
        half = outer // 2
        reading = 2 * 4 * (inner * half + half * half + 2 * half)
    else:
        reading = 3 * inner * outer + outer
    return characters * inner, reading, linear(outer, width)
