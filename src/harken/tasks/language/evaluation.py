"""How well a language model predicts a text: perplexity, nats and bits, beside an n-gram model of the same text.

perplexity = exp(nats per token),   bits = nats / log 2;   per character: the same sum over all characters, ends of
lines counted, so that models with other tokens can be compared. Intervals: 95% by drawing blocks of the text anew
(`harken.metrics.interval`); tokens of one block depend on each other, so they are drawn together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harken.data.rows import rows_of
from harken.data.tokenizers.tokens import UNK
from harken.metrics.interval import Interval, bootstrap
from harken.tasks.language.streams import corpus_ids
from harken.tasks.scores import Metric, Scores

if TYPE_CHECKING:
    from harken.tasks.language.language_model import LanguageModel

BLOCK = 100  # tokens drawn together


def evaluate(
    model: LanguageModel, lines: Sequence[str], train: Sequence[str] | None, progress: Callable[[int], None]
) -> Scores:
    """Scores of a text; `train` is what the n-gram model learns from, where there is to be one."""
    data, kind = model.recipe.data, model.recipe.tokenizer.kind
    ids = corpus_ids(model.tokenizer, lines, data.lines).astype(np.int64, copy=False)
    characters = sum(len(line) + 1 for line in lines)
    surprise = -model.log_probabilities(ids, progress)
    rows = metrics_of(surprise, characters, kind, "")
    unknown = int((ids == UNK).sum())
    details = {"characters": characters, "unknown_tokens": unknown, "scored": how_scored(model)}
    if train is not None and data.ngram and rows_of(train).is_in_memory:  # so is the table of the n-gram model
        from harken.models.language.ngram import NGram

        table = NGram.train(corpus_ids(model.tokenizer, train, data.lines), model.tokenizer.size, data.ngram)
        name = f"{data.ngram}-gram "
        rows += metrics_of(-table.log_probabilities(ids), characters, kind, name)[:1]
    return Scores(len(surprise), "tokens", rows, details=details)


def metrics_of(surprise: np.ndarray, characters: int, kind: str, name: str) -> list[Metric]:
    """From - log p of every token (N,); the most usual first."""
    blocks = np.arange(0, len(surprise), BLOCK)
    sums = np.add.reduceat(surprise, blocks)
    counts = np.diff([*blocks, len(surprise)])
    nats = bootstrap(sums, counts)
    note = "interpolated Kneser-Ney on the same training text; lower is better" if name else "lower is better"
    perplexity = Metric.of(f"{name}perplexity", changed(nats, math.exp), f"of a token; {note}", 2)
    token = "character" if kind == "character" else "token"
    per_token = Metric.of(f"{name}nats per {token}", nats, note)
    bits = Metric.of(f"{name}bits per {token}", changed(nats, lambda value: value / math.log(2)))
    if kind == "character":
        return [per_token, bits, perplexity]
    share = len(surprise) / max(characters, 1) / math.log(2)
    per_character = Metric.of(f"{name}bits per character", changed(nats, lambda value: value * share))
    return [perplexity, per_token, bits, per_character]


def changed(interval: Interval, change: Callable[[float], float]) -> Interval:
    """The interval of an increasing function of what it is of."""
    return Interval(change(interval.value), change(interval.low), change(interval.high))


def how_scored(model: LanguageModel) -> str:
    """Which context a token had."""
    if model.recipe.model.architecture == "recurrent":
        return "one row, the state carried from the first token to the last"
    window = model.recipe.data.chunk
    return f"windows of {window} tokens, every token after at least {window // 2}"
