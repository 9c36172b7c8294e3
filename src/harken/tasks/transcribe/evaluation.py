"""How good a transcriber is on a test set: mistakes per symbol and per word, with intervals over recordings."""

from __future__ import annotations

from collections.abc import Callable

from harken.data.audio.filterbank import frames_of
from harken.data.audio.utterances import Utterances
from harken.metrics.edits import edits
from harken.metrics.interval import bootstrap
from harken.tasks.scores import Metric, Scores
from harken.tasks.transcribe.transcriber import Transcriber

WORST = 10  # recordings with the most mistakes, kept for --json


def evaluate(
    model: Transcriber,
    utterances: Utterances,
    progress: Callable[[int], None] | None = None,
    *,
    beam: int | None = None,
    lm_weight: float | None = None,
) -> Scores:
    """Error rate per symbol (and per word where texts have spaces), and what the mistakes are."""
    count, features = len(utterances), model.recipe.features
    wanted = utterances.texts()
    heard = model.log_probs(frames_of([utterances.samples(0, row) for row in range(count)], features), progress)
    texts = [model.symbols.decode(model.search(chances, beam, lm_weight)[0]) for chances in heard]
    found = [
        edits(model.symbols.split(one), model.symbols.split(other)) for one, other in zip(wanted, texts, strict=True)
    ]
    lengths = [one.length for one in found]
    unit = "word" if model.symbols.kind == "word" else _unit(wanted)
    metrics = [Metric.of(f"{unit} error rate", bootstrap([one.total for one in found], lengths), "0 is perfect", 4)]
    for name in ("substitutions", "deletions", "insertions"):
        interval = bootstrap([getattr(one, name) for one in found], lengths)
        metrics.append(Metric.of(name, interval, f"per {unit}", 4))
    if model.symbols.kind == "character" and any(" " in text for text in wanted):
        words = [edits(one.split(), other.split()) for one, other in zip(wanted, texts, strict=True)]
        rate = bootstrap([one.total for one in words], [one.length for one in words])
        metrics.insert(1, Metric.of("word error rate", rate, "0 is perfect", 4))
    right = bootstrap([float(one == other) for one, other in zip(wanted, texts, strict=True)])
    metrics.append(Metric.of("texts without a mistake", right, "share", 4))
    worst = sorted(range(count), key=lambda row: (-found[row].total, row))[:WORST]
    details = [
        {"name": utterances.name(row), "text": wanted[row], "heard": texts[row]} for row in worst if found[row].total
    ]
    return Scores(count, "recordings", metrics, details={"worst": details})


def _unit(texts: list[str]) -> str:
    """Digits are called what they are."""
    return "digit" if all(set(text) <= set("0123456789 ") for text in texts) else "symbol"
