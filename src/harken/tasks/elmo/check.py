"""`harken check` of a recipe for ELMo."""

from __future__ import annotations

from harken.data.text.lines import files_of
from harken.models.language.elmo import ElmoNetwork
from harken.models.sizing import SENTENCE, measure, uninitialised
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.estimates import PHRASE, text_size
from harken.tasks.registry import Estimate

CHARACTERS = 120  # a typical number


def estimate(recipe: ElmoRecipe) -> Estimate:
    """Check the files, and measure the network for a full vocabulary; a term of the loss is a word in one direction.

    Raises:
        UserError: the error that training would raise.
    """
    data, words = recipe.data, recipe.words.size
    model = uninitialised(lambda: ElmoNetwork(recipe.model, words, CHARACTERS))
    size = measure(model, SENTENCE, terms=2 * (SENTENCE - 1))
    notes = [f"the text is not read whole here: sizes are for words.size {words:,} words"]
    if data.corpus:
        terms = int(2 * data.size * (PHRASE + 2))
        return Estimate(f"{data.corpus}, {data.size:,} sentences made by harken", terms, size, notes)
    paths = [path for split in (data.train, data.valid, data.test) for path in files_of(data, split)]
    found = text_size(paths[0]).words
    return Estimate(f"{paths[0]}, about {found:,} words", 2 * found, size, notes)
