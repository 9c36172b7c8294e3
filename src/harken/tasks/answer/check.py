"""What can be said of a recipe for question answering before anything is read whole or trained."""

from __future__ import annotations

from pathlib import Path

from harken.data.io.files import require_file
from harken.errors import UserError
from harken.models.answering.config import AnswererConfig
from harken.models.size import Size
from harken.tasks.answer.recipe import AnswerDataConfig, AnswerRecipe
from harken.tasks.registry import Estimate

WORDS = 10_000  # the largest vocabulary
KNOWN_WORDS, KNOWN_ANSWERS = 200, 40  # of stories, before they are read
FACTS = 10  # of a question, likewise


def estimate(recipe: AnswerRecipe) -> Estimate:
    """Files that are there, and the size of the network for a small vocabulary.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data = recipe.data
    for path in files_of(data):
        require_file(path)
    if data.dir and not Path(data.dir).exists():
        raise UserError(f"data.dir {data.dir} was not found; give the archive of the bAbI tasks, or their folder")
    size = size_of_answerer(recipe.model, KNOWN_WORDS, KNOWN_ANSWERS)
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


def size_of_answerer(config: AnswererConfig, words: int, answers: int) -> Size:
    """Count what `harken.models.answering.model.Answerer(config, words, answers)` builds."""
    width, hops = config.width, config.hops
    half = width // 2
    layer = {"gru": 3, "lstm": 4}.get(config.reader, 0) * 2 * (width * half + half * half + 2 * half)
    score = {"multiplicative": width**2, "additive": 2 * width**2 + 2 * width, "cosine": 1}.get(config.score, 0)
    adjacent = config.tied == "adjacent"
    if config.attention == "softmax":
        tables, scored = (hops + 1, hops) if adjacent else (2, 1)
        inside = tables * (layer + config.max_facts * width) + scored * (score + width)
        inside += hops * (width**2 + width) * config.gate + (0 if adjacent else width**2)
        met = tables * layer + hops * (score + width**2 * (config.gate + (not adjacent)))
    else:
        tables = 1
        inside = layer + hops * (score + width + 1 + 2 * width**2 + width + (width + 1) * config.gate)
        met = layer + hops * FACTS * (score + 2 * width**2)
    out = width if config.output == "pointer" else answers
    return Size(
        parameters={"embeddings": tables * words * width, "hops": inside, "output": width * out + out},
        source_matrices=met,
        target_matrices=width * out,
        activations=FACTS * width * (tables + 4 * hops),
    )
