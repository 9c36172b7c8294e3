"""`harken check` of a translation recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from harken.data.synthetic.seq2seq import MADE
from harken.data.synthetic.seq2seq.splits import SIZE, maker_of
from harken.data.text.parallel import check_files
from harken.data.tokenizers.word import WordTokenizer
from harken.models.build import build_model
from harken.models.sizing import measure, uninitialised
from harken.tasks.estimates import PHRASE, TOKENS_PER_WORD, text_size, vocabulary_notes
from harken.tasks.registry import Estimate
from harken.tasks.translate.recipe import TranslateRecipe

DRAWN = 200  # pairs of a generated corpus, for the mean length of a target


def estimate(recipe: TranslateRecipe) -> Estimate:
    """Check the files, and measure the network for a full vocabulary.

    Raises:
        UserError: the error that training would raise.
    """
    corpus, tokens = describe_corpus(recipe, check_files(recipe.data))
    size = recipe.tokenizer.size
    model = uninitialised(lambda: build_model(recipe.model, size, size))
    return Estimate(corpus, tokens, measure(model), vocabulary_notes(recipe.tokenizer))


def describe_corpus(recipe: TranslateRecipe, paths: Sequence[Path]) -> tuple[str, int | None]:
    """A description of the training text, and its target tokens."""
    data, per_word = recipe.data, TOKENS_PER_WORD[recipe.tokenizer.kind]
    if data.corpus in MADE:
        pairs = f"{data.size:,} pairs" if data.size else "pairs"
        return f"{data.corpus}, {pairs} made by harken", int((data.size or SIZE) * _tokens_of_generated(recipe))
    if data.corpus and data.size is None:
        return f"{data.corpus} ({data.direction}), made by harken", None
    if data.corpus:
        pairs = f"{data.corpus} ({data.direction}), {data.size:,} pairs made by harken"
        return pairs, int((data.size or 0) * PHRASE * per_word)
    found = text_size(paths[0])
    files = f"{paths[0]} and {len(paths) - 1} more files; about {found.lines:,} lines in the first"
    return files, int(found.words * per_word)


def _tokens_of_generated(recipe: TranslateRecipe) -> float:
    """Mean tokens of a target of a generated corpus, with EOS."""
    maker, random = maker_of(recipe.data.corpus or ""), Random(0)
    targets = [maker.draw(random).target for _ in range(DRAWN)]
    if recipe.tokenizer.kind == "character":
        return 1 + sum(map(len, targets)) / len(targets)
    words = sum(len(WordTokenizer.split(target)) for target in targets) / len(targets)
    return 1 + words * TOKENS_PER_WORD[recipe.tokenizer.kind]
