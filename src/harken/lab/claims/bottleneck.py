"""Seq2seq without attention has a bottleneck: quality falls with sentence length; with attention it falls far less.

without   P(y | x) = P(y | h_S)           the whole sentence in one vector, however long it is
with      P(y_t | y_<t, x) = P(.. | c_t)   a vector of its own for every word that is written

The language is made: words are drawn at random, so a sentence says as much as it has words and none can be guessed. The
translation is word by word, and an adjective goes behind its noun. Recipes, trainer, search and BLEU are harken's own;
both networks have the same updates, the same sentences and nearly the same number of parameters, which makes the one
without attention wider. Cho et al. (2014); Bahdanau et al. (2015), figure 2.

Both are tuned alike: every rate of RATES is tried with one seed, and the one with the highest BLEU on validation
sentences of the trained lengths is used for all seeds. A network that cannot translate even the shortest sentences is
under-trained, and its fall with length would say nothing: then the verdict is open.

Lengths that were trained and lengths beyond them are judged apart, for they ask two things: how much a vector holds,
and whether what was learned extrapolates.

>>> translation("ba ki".split()), translation("ki ba".split())  # ba is an adjective, ki a noun
(['ik', 'ab'], ['ik', 'ab'])
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Progress, Settings, grade
from harken.lab.helpers import mean, parameters
from harken.lab.pool import sweep

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

Pair = tuple[str, str]  # a sentence and its translation

ADJECTIVES = [consonant + vowel for consonant in "bd" for vowel in "aeiu"]
NOUNS = [consonant + vowel for consonant in "klmp" for vowel in "aeiu"]
SHORTEST, LONGEST = 3, 12  # words in a training sentence
LENGTHS = (4, 6, 8, 10, 12, 14, 16, 20, 24)  # tested; the last are beyond
WIDTHS = {"none": 84, "additive": 64}  # units, so that parameters are nearly equal
NAMES = {"none": "without attention", "additive": "with attention"}

RATES = (2e-3, 4e-3, 8e-3)  # tried for each network
TRAINED = 80.0  # BLEU on the shortest sentences, below which a network counts as under-trained
FALLS = 20.0  # BLEU points that are lost without attention from the shortest tested length to the longest trained
FAR_LESS = 0.5  # with attention the loss is at most this share of it


def translation(words: list[str]) -> list[str]:
    """Every word turned round, and an adjective behind the noun that follows it."""
    order = list(words)
    for index in range(len(words) - 1):
        if words[index] in ADJECTIVES and words[index + 1] in NOUNS:
            order[index], order[index + 1] = order[index + 1], order[index]
    return [word[::-1] for word in order]


def sentences(count: int, lengths: tuple[int, int], draw: random.Random) -> list[Pair]:
    """Pairs with a number of words between the two lengths."""
    drawn = ([draw.choice(ADJECTIVES + NOUNS) for _ in range(draw.randint(*lengths))] for _ in range(count))
    return [(" ".join(words), " ".join(translation(words))) for words in drawn]


def recipe(kind: str, rate: float, folder: Path, steps: int, seed: int) -> dict[str, Any]:
    """The recipe of one network."""
    files = {"source": str(folder / "train.source"), "target": str(folder / "train.target")}
    return {
        "task": "translate",
        "data": {**files, "valid_size": 50, "test_size": 0},
        "tokenizer": {"kind": "word", "size": 100, "joint": False},
        "model": {
            "architecture": "recurrent",
            "attention": kind,
            "embedding": 32,
            "width": WIDTHS[kind],
            "dropout": 0.0,
            "tied": "none",
        },
        "train": {
            "max_steps": steps,
            "batch_tokens": 64 * LONGEST,
            "learning_rate": rate,
            "schedule": "linear",
            "warmup_steps": 100,
            "label_smoothing": 0.0,
            "average": 0.0,
            "validate_every": steps,
            "checkpoint_every": steps,
            "seed": seed,
            "precision": "float32",
            "device": "cpu",
            "workers": 1,
            "threads": 1,
        },
    }


def train_translator(kind: str, rate: float, pairs: Sequence[Pair], steps: int, seed: int, **limits: Any) -> Translator:
    """A translator trained on these pairs; `limits` are further keys of `[train]`."""
    from harken.api import train as train_recipe
    from harken.tasks.translate.recipe import TranslateRecipe

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        values = recipe(kind, rate, folder, steps, seed)
        values["train"] |= limits
        return train_recipe(TranslateRecipe.model_validate(values), folder / "model", progress=False)


def translate(model: Translator, pairs: Sequence[Pair]) -> tuple[float, list[str]]:
    """BLEU of the translations by greedy search, and the translations."""
    from harken.metrics import corpus_bleu

    texts = [result.text for result in model.translate([source for source, _ in pairs], beam=1, attention=False)]
    return corpus_bleu(texts, [target for _, target in pairs]).value, texts


def train(kind: str, rate: float, pairs: int, steps: int, tests: int, seed: int) -> dict[str, Any]:
    """BLEU and share of right words by length, and BLEU on validation sentences, of a model trained from a recipe."""
    draw = random.Random(seed)
    model = train_translator(kind, rate, sentences(pairs, (SHORTEST, LONGEST), draw), steps, seed)
    validation, _ = translate(model, sentences(tests, (SHORTEST, LONGEST), random.Random(seed + 1000)))
    by_length: dict[str, list[float]] = {"bleu": [], "words": []}
    for length in LENGTHS:
        pairs_of_length = sentences(tests, (length, length), draw)
        bleu, texts = translate(model, pairs_of_length)
        by_length["bleu"].append(bleu)
        right = [
            word == reference
            for text, (_, target) in zip(texts, pairs_of_length, strict=True)
            for word, reference in zip([*text.split(), *[""] * length][:length], target.split(), strict=True)
        ]
        by_length["words"].append(mean(right))
    return {**by_length, "validation": validation, "parameters": parameters(model.model)}


def judge(bleu: dict[str, dict[int, float]]) -> tuple[bool | None, str]:
    """Kind -> length -> mean BLEU."""
    short, far = min(LENGTHS), max(LENGTHS)
    lost = {kind: {end: by[short] - by[end] for end in (LONGEST, far)} for kind, by in bleu.items()}
    falls = lost["none"][LONGEST] >= FALLS
    less = {end: lost["additive"][end] <= FAR_LESS * lost["none"][end] for end in (LONGEST, far)}

    def bleu_at(kind: str) -> str:
        return f"{bleu[kind][short]:.0f} → {bleu[kind][LONGEST]:.0f} → {bleu[kind][far]:.0f}"

    verdict = (
        f"BLEU at {short}, {LONGEST} (the longest trained) and {far} words: without attention {bleu_at('none')}, with "
        f"it {bleu_at('additive')}; within what was trained attention loses {lost['additive'][LONGEST]:.0f} points "
        f"where the bottleneck loses {lost['none'][LONGEST]:.0f}, beyond it {'far less' if less[far] else 'both fall'}"
    )
    untrained = [NAMES[kind] for kind in bleu if bleu[kind][short] < TRAINED]
    if untrained:
        return None, f"{verdict}; {' and '.join(untrained)} is under-trained (below {TRAINED:.0f} at {short} words)"
    return grade(falls and less[LONGEST] and less[far], falls and less[LONGEST]), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Both networks with several seeds."""
    pairs, steps, tests, seeds = (300, 3, 4, 1) if settings.quick else (40_000, 1000, 150, 3)
    rates = RATES[:1] if settings.quick else RATES

    def train_all(variants: list[tuple[str, float]], seeds: int, settings: Settings, span: tuple[float, float]) -> Any:
        return sweep(
            lambda kind, rate, seed: train(kind, rate, pairs, steps, tests, seed),
            variants,
            settings,
            progress,
            seeds,
            lambda kind, rate, seed: f"{NAMES[kind]}, rate {rate:g}, seed {seed}",
            span,
        )

    tuned = train_all(list(product(("additive", "none"), rates)), 1, settings, (0.0, 0.5))
    scores = {variant: result["validation"] for variant, (result,) in tuned.items()}
    best = {kind: max(rates, key=lambda rate: scores[kind, rate]) for kind in NAMES}
    chosen = [(kind, best[kind]) for kind in ("additive", "none")]
    others = train_all(chosen, seeds - 1, replace(settings, seed=settings.seed + 1), (0.5, 1.0)) if seeds > 1 else {}
    runs = {kind: [*others.get((kind, best[kind]), []), *tuned[kind, best[kind]]] for kind in NAMES}
    means = {
        what: {
            kind: dict(zip(LENGTHS, map(mean, zip(*(run[what] for run in runs[kind]), strict=True)), strict=True))
            for kind in NAMES
        }
        for what in ("bleu", "words")
    }
    holds, verdict = judge(means["bleu"])
    rows: list[list[Any]] = [
        [n, "trained" if n <= LONGEST else "beyond", *(f"{means['bleu'][kind][n]:.1f}" for kind in NAMES)]
        + [f"{means['words'][kind][n]:.1%}" for kind in NAMES]
        for n in LENGTHS
    ]
    columns = ["words", "length was", *(f"BLEU {NAMES[kind]}" for kind in NAMES)]
    columns += [f"right words {NAMES[kind]}" for kind in NAMES]

    def panel(title: str, what: str, scale: float, label: str) -> Lines:
        series = [
            Series.of_runs(NAMES[kind], LENGTHS, [[scale * y for y in run[what]] for run in runs[kind]], mean)
            for kind in NAMES
        ]
        marks = [Mark(LONGEST, "longest trained", axis="x")]
        return Lines(title, "words in the sentence", label, series, marks=marks, y_limits=(-2.0, 112.0))

    panels = [panel("BLEU", "bleu", 1.0, "BLEU"), panel("Words in their place", "words", 100.0, "% right")]
    sizes = " and ".join(f"{runs[kind][0]['parameters']:,}" for kind in NAMES)
    note = (
        f"LSTM seq2seq of {sizes} parameters, {steps} updates on {pairs:,} made sentences of {SHORTEST} to {LONGEST} "
        f"words, greedy search, {seeds} seeds (band: from least to best); learning rates, tuned alike: "
        f"{', '.join(f'{NAMES[kind]} {best[kind]:g}' for kind in NAMES)}."
    )
    figure = Figure("Translation against sentence length, through one vector and with attention", panels, note)
    return Findings(
        columns,
        rows,
        holds,
        verdict,
        figure,
        {
            "lengths": LENGTHS,
            "found": runs,
            "rates": best,
            "validation": {f"{k}, {r:g}": v for (k, r), v in scores.items()},
        },
    )


EXPERIMENT = Experiment(
    name="bottleneck",
    statement="Seq2seq without attention has a bottleneck: quality falls with sentence length; with attention it falls "
    "far less.",
    shows="BLEU against sentence length, with attention and with one vector for the whole sentence",
    run=run,
)
