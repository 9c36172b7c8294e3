"""`harken check` of a recipe for masked language modelling."""

from __future__ import annotations

from harken.data.text.lines import files_of
from harken.models.heads.masked import MaskedModel
from harken.models.sizing import Size, measure, uninitialised
from harken.tasks.estimates import PHRASE, TOKENS_PER_WORD, text_size
from harken.tasks.masked.masked_reader import build_masked_model
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.registry import Estimate

LENGTH = 20  # tokens of a row


def estimate(recipe: MaskedRecipe) -> Estimate:
    """Check the files, and measure the network for a full vocabulary.

    Raises:
        UserError: the error that training would raise.
    """
    data, per_word = recipe.data, TOKENS_PER_WORD[recipe.tokenizer.kind]
    model = uninitialised(lambda: build_masked_model(recipe, recipe.tokenizer.size))
    size = size_of(model, recipe)
    if data.corpus:
        tokens = int(data.size * (PHRASE + 1) * per_word)
        return Estimate(f"{data.corpus}, {data.size:,} sentences made by harken", tokens, size)
    paths = [path for split in (data.train, data.valid, data.test) for path in files_of(data, split)]
    words = text_size(paths[0]).words
    return Estimate(f"{paths[0]} and {len(paths) - 1} more files", int(words * per_word), size)


def size_of(model: MaskedModel, recipe: MaskedRecipe) -> Size:
    """The size of a network whose output layer reads the masked share of the tokens."""
    length = min(LENGTH, recipe.model.longest or LENGTH)
    return measure(model, length, run=lambda count: model.dry_run(count, recipe.masking.rate), lengths=(length,))
