"""`harken check` of a recipe for question answering."""

from __future__ import annotations

from pathlib import Path

from harken.data.io.files import require_file
from harken.errors import UserError
from harken.models.answering.model import Answerer
from harken.models.sizing import measure, uninitialised
from harken.tasks.answer.recipe import AnswerDataConfig, AnswerRecipe
from harken.tasks.registry import Estimate

WORDS = 10_000  # the largest vocabulary
KNOWN_WORDS, KNOWN_ANSWERS, FACTS = 200, 40, 10  # typical numbers, where the stories would have to be read


def estimate(recipe: AnswerRecipe) -> Estimate:
    """Check the files, and measure the network for a small vocabulary; a term of the loss is a question.

    Raises:
        UserError: the error that training would raise.
    """
    data = recipe.data
    for path in files_of(data):
        require_file(path)
    if data.dir and not Path(data.dir).exists():
        raise UserError(f"data.dir {data.dir} was not found; give the archive of the bAbI tasks, or their folder")
    size = measure(uninitialised(lambda: Answerer(recipe.model, KNOWN_WORDS, KNOWN_ANSWERS)), FACTS, terms=1)
    notes = [f"sizes are for {KNOWN_WORDS} words and {KNOWN_ANSWERS} answers; the data may have more"]
    if data.corpus:
        return Estimate(
            f"{data.corpus}, {data.size or 4000:,} questions made by harken", data.size or 4000, size, notes
        )
    return Estimate(f"questions of {data.dir or files_of(data)[0]}", None, size, notes)


def files_of(data: AnswerDataConfig) -> list[str]:
    """Every file that is named."""
    named = [files for files in (data.train, data.valid, data.test) if files]
    return [path for files in named for path in ([files] if isinstance(files, str) else files)]
