"""`harken check` of a tagging recipe."""

from __future__ import annotations

from harken.models.sizing import measure, uninitialised
from harken.tasks.context_shape import ContextShape
from harken.tasks.estimates import PHRASE, text_size
from harken.tasks.registry import Estimate
from harken.tasks.tag.building import build_tagging_model
from harken.tasks.tag.corpus import check_files, is_frames
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.words import Vocabulary

CHARACTERS, TAGS, WORDS = 120, 17, 10_000  # typical numbers, where the whole text would have to be read


def estimate(recipe: TagRecipe) -> Estimate:
    """Check the files, and measure the network for a typical vocabulary.

    Raises:
        UserError: the error that training would raise.
    """
    paths, context = check_files(recipe.data), ContextShape.of(recipe.embeddings.elmo)
    vocabulary = Vocabulary(
        ["O", *(f"B-{number}" for number in range(TAGS - 1))],
        words=[str(number) for number in range(WORDS)],
        characters=[str(number) for number in range(CHARACTERS)],
    )
    size = measure(uninitialised(lambda: build_tagging_model(recipe, vocabulary, context)))
    notes = [f"the vocabulary is not read here: sizes are for {WORDS:,} words, {CHARACTERS} characters, {TAGS} tags"]
    if recipe.data.corpus:
        corpus = f"{recipe.data.corpus}, {recipe.data.size:,} sentences made by harken"
        return Estimate(corpus, int(recipe.data.size * (PHRASE + 1)), size, notes)
    words, about = None, ""
    if not is_frames(recipe.data, paths[0]):
        words = text_size(paths[0], is_counted=lambda line: bool(line.strip()) and not line.startswith("#")).lines
        about = f"; about {words:,} words in the first"
    return Estimate(f"{paths[0]} and {len(paths) - 1} more files{about}", words, size, notes)
