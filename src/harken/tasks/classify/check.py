"""`harken check` of a classification recipe."""

from __future__ import annotations

from harken.data.io.folders import matching
from harken.data.text.examples_config import ExamplesConfig
from harken.models.sizing import SENTENCE, measure, uninitialised
from harken.tasks.classify.classifier import build_classifier
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context_shape import ContextShape
from harken.tasks.estimates import TOKENS_PER_WORD, first_and_more, text_size, vocabulary_notes
from harken.tasks.registry import Estimate

GENERATED = {"opinions": (6000, 12, 2), "gestures": (1200, 36, 6)}  # examples, steps of each, classes
CLASSES, CHANNELS = 10, 8  # typical numbers, where the files would have to be read


def estimate(recipe: ClassifyRecipe) -> Estimate:
    """Check the files, and measure the network; the cost is that of one token or frame.

    Raises:
        UserError: the error that training would raise.
    """
    data, steps = recipe.data, SENTENCE
    terms: int | None
    classes = len(set(data.names.values())) if data.names else CLASSES
    if data.corpus:
        examples, steps, classes = GENERATED[data.corpus]
        corpus, terms, channels = f"{data.corpus}, made by harken", (data.size or examples) * steps, 2
    else:
        corpus, terms = _describe_files(data, TOKENS_PER_WORD[recipe.tokenizer.kind])
        channels = len(data.channels) if data.channels else data.frame if data.frame > 1 else CHANNELS
    inputs = recipe.tokenizer.size if data.kind == "text" else channels
    context = ContextShape.of(recipe.embeddings.elmo)
    model = uninitialised(lambda: build_classifier(recipe, inputs, classes, context))
    notes = vocabulary_notes(recipe.tokenizer) if data.kind == "text" else []
    return Estimate(corpus, terms, measure(model, steps), notes)


def _describe_files(data: ExamplesConfig, per_word: float) -> tuple[str, int | None]:
    paths = matching(data.dir, data.train)
    for split in ("valid", "test"):
        if getattr(data, split):
            matching(data.dir, data.split(split).train)
    if data.kind == "signal" or not paths[0].is_file() or data.encoding != "utf-8":
        return first_and_more(paths), None
    found = text_size(paths[0])
    return f"{first_and_more(paths)}; about {found.lines:,} lines", int(found.words * per_word)
