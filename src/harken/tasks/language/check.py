"""`harken check` of a language model's recipe."""

from __future__ import annotations

from harken.data.text.texts import LONGEST_LINE, files_of
from harken.models.build import build_language
from harken.models.sizing import measure, uninitialised
from harken.tasks.estimates import PHRASE, TOKENS_PER_WORD, first_and_more, text_size, vocabulary_notes
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.registry import Estimate


def estimate(recipe: LanguageRecipe) -> Estimate:
    """Check the files, and measure the network for a full vocabulary at the length of a chunk.

    Raises:
        UserError: the error that training would raise.
    """
    data, tokenizer = recipe.data, recipe.tokenizer
    if data.corpus:
        corpus, lines, words = f"{data.corpus}, {data.size:,} lines made by harken", data.size, data.size * PHRASE
        lines = lines if data.lines else 0
    else:
        paths = files_of(data)["train"]
        sizes = [text_size(path, LONGEST_LINE) for path in paths]
        lines, words = sum(size.lines for size in sizes), sum(size.words for size in sizes)
        corpus = f"{first_and_more(paths)}, about {words:,} words"
    tokens = int(words * TOKENS_PER_WORD[tokenizer.kind] + lines)
    model = uninitialised(lambda: build_language(recipe.model, tokenizer.size))
    notes = [f"{recipe.streams} streams of {data.chunk} tokens in a batch", *vocabulary_notes(tokenizer)]
    return Estimate(corpus, tokens, measure(model, data.chunk), notes)
