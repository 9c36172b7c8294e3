"""What can be said of a recipe for a language model before anything is read whole or trained."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from harken.data.io.files import COMPRESSIONS, read_lines
from harken.data.text.texts import LONGEST_LINE, files_of
from harken.models.language.size import language_size
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.registry import Estimate

PIECES_PER_WORD = {"bpe": 1.3, "unigram": 1.3, "word": 1.0, "character": 5.6}
LINES_TO_READ = 1000
WORDS_IN_A_PHRASE = 8.0  # of the built-in corpus
PACKED = 3  # how many times text shrinks when it is packed


def estimate(recipe: LanguageRecipe) -> Estimate:
    """Files that are there and readable, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data, tokenizer = recipe.data, recipe.tokenizer
    pieces = PIECES_PER_WORD[tokenizer.kind]
    if data.corpus:
        corpus, words = f"{data.corpus}, {data.size:,} lines made by harken", data.size * WORDS_IN_A_PHRASE
        words += data.size / pieces if data.lines else 0
    else:
        paths = files_of(data)["train"]
        words = sum(words_in(path) for path in paths)
        corpus = f"{paths[0]}, about {words:,.0f} words" + (f", and {len(paths) - 1} more" if len(paths) > 1 else "")
    notes = [f"{recipe.streams} streams of {data.chunk} tokens in a batch"]
    if tokenizer.kind in ("word", "character"):
        notes.append(f"the vocabulary may end before tokenizer.size {tokenizer.size:,}: sizes are upper bounds")
    return Estimate(corpus, int(words * pieces), language_size(recipe.model, tokenizer.size), notes)


def words_in(path: Path) -> float:
    """Words and ends of lines, by the file's size and its first lines."""
    sample = list(islice(read_lines(path, LONGEST_LINE), LINES_TO_READ))
    words = sum(len(line.split()) + 1 for line in sample)
    if len(sample) < LINES_TO_READ:
        return float(words)
    size = path.stat().st_size * (PACKED if path.suffix in COMPRESSIONS else 1)
    return words * max(1.0, size / sum(len(line.encode()) + 1 for line in sample))
