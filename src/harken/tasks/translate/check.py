"""What can be said of a recipe for translation before anything is read whole or trained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

from harken.data.io.files import read_lines
from harken.data.synthetic.seq2seq import MADE
from harken.data.synthetic.seq2seq.splits import SIZE, maker_of
from harken.data.text.parallel import check_files
from harken.data.tokenizers.word import WordTokenizer
from harken.models.size import size_of
from harken.tasks.registry import Estimate
from harken.tasks.translate.recipe import TranslateRecipe

PIECES_PER_WORD = {"bpe": 1.4, "unigram": 1.4, "word": 1.0, "character": 6.0}
MADE_TO_DRAW = 200  # pairs of a made corpus, for the length of a target
LINES_TO_READ = 1000  # for the length of a sentence
WORDS_IN_A_PHRASE = 8.0  # of the built-in corpus


def estimate(recipe: TranslateRecipe) -> Estimate:
    """Files that are there and readable, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    corpus, tokens = describe_corpus(recipe, check_files(recipe.data))
    notes = []
    if recipe.tokenizer.kind in ("word", "character"):
        notes.append(f"the vocabulary may end before tokenizer.size {recipe.tokenizer.size:,}: sizes are upper bounds")
    return Estimate(corpus, tokens, size_of(recipe.model, recipe.tokenizer.size, recipe.tokenizer.size), notes)


def describe_corpus(recipe: TranslateRecipe, paths: Sequence[Path]) -> tuple[str, int | None]:
    """The training text in words, and its target pieces."""
    data = recipe.data
    pieces = PIECES_PER_WORD[recipe.tokenizer.kind]
    if data.corpus in MADE:
        made = f"{data.size:,} pairs" if data.size else "pairs"
        return f"{data.corpus}, {made} made by harken", int((data.size or SIZE) * pieces_of_made(recipe))
    if data.corpus:
        if data.size is None:
            return f"{data.corpus} ({data.direction}), made by harken", None
        return f"{data.corpus} ({data.direction}), {data.size:,} pairs made by harken", int(
            data.size * WORDS_IN_A_PHRASE * pieces
        )
    first = paths[0]
    lines, words = lines_and_words(first)
    return f"{first} and {len(paths) - 1} more files; about {lines:,} lines in the first", int(lines * words * pieces)


def pieces_of_made(recipe: TranslateRecipe) -> float:
    """Mean pieces of a target of a made corpus, its end counted."""
    maker, random = maker_of(recipe.data.corpus or ""), Random(0)
    targets = [maker.draw(random).target for _ in range(MADE_TO_DRAW)]
    if recipe.tokenizer.kind == "character":
        return 1 + sum(map(len, targets)) / len(targets)
    words = sum(len(WordTokenizer.split(target)) for target in targets) / len(targets)
    return 1 + words * PIECES_PER_WORD[recipe.tokenizer.kind]


def lines_and_words(path: Path) -> tuple[int, float]:
    """Lines of a file (by its size where it is large) and the mean words of its first lines."""
    sample = list(islice(read_lines(path), LINES_TO_READ))
    words = sum(len(line.split()) for line in sample) / max(1, len(sample))
    if len(sample) < LINES_TO_READ:
        return len(sample), words
    plain_size = path.stat().st_size * (3 if path.suffix in (".gz", ".xz") else 1)  # text packs to about a third
    return int(plain_size / max(1.0, sum(len(line.encode()) + 1 for line in sample) / len(sample))), words
