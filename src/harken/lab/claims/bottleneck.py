"""Seq2seq without attention has a bottleneck: quality falls with sentence length; with attention it falls far less.

without   P(y | x) = P(y | h_S)           the whole sentence in one vector, however long it is
with      P(y_t | y_<t, x) = P(.. | c_t)   a vector of its own for every word that is written

The language is made: words are drawn at random, so a sentence says as much as it has words and none can be guessed. The
translation is word by word, and an adjective goes behind its noun. Recipes, trainer, search and BLEU are harken's own;
both networks have the same sentences and nearly the same number of parameters, which makes the one without attention
wider. Cho et al. (2014); Bahdanau et al. (2015), figure 2.

A fall with length may come of a vector that is too small, or of training that ended too early. To tell capacity from
optimisation, every network is trained until BLEU on validation sentences stops rising, and twice as wide as well: what
is lost at a plateau and not lost by the wider network is capacity. All are tuned alike: every rate of RATES is tried
with one seed, and the one with the highest BLEU on validation sentences of the trained lengths is used for all seeds. A
network that was still rising at its last update, or cannot translate even the shortest sentences, is under-trained, and
its fall would say nothing: then the verdict is open.

Lengths that were trained and lengths beyond them are judged apart, for they ask two things: how much a vector holds,
and whether what was learned extrapolates.

>>> translation("ba ki".split()), translation("ki ba".split())  # ba is an adjective, ki a noun
(['ik', 'ab'], ['ik', 'ab'])
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
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

FACTORS = (1, 2)  # of the widths: capacity
RATES = (2e-3, 6e-3)  # tried for each network
PATIENCE = 3  # validations without a better BLEU end a run: a plateau
TRAINED = 80.0  # BLEU on the shortest sentences, below which a network counts as under-trained
FALLS = 20.0  # BLEU points that are lost without attention from the shortest tested length to the longest trained
FAR_LESS = 0.5  # with attention the loss is at most this share of it
SIZES: Sizes = {"pairs": (40_000, 300), "updates": (5000, 4), "tests": (150, 4), "seeds": (3, 1)}


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


def recipe(kind: str, width: int, rate: float, folder: Path, steps: int, seed: int) -> dict[str, Any]:
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
            "width": width,
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


def train_translator(
    kind: str, width: int, rate: float, pairs: Sequence[Pair], steps: int, seed: int, **limits: Any
) -> tuple[Translator, int]:
    """A translator trained on these pairs, and its updates; `limits` are further keys of `[train]`."""
    from harken.api import train as train_recipe
    from harken.tasks.translate.recipe import TranslateRecipe

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        values = recipe(kind, width, rate, folder, steps, seed)
        values["train"] |= limits
        model = train_recipe(TranslateRecipe.model_validate(values), folder / "model", progress=False)
        log = (folder / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return model, max(json.loads(line)["step"] for line in log)


def translate(model: Translator, pairs: Sequence[Pair]) -> tuple[float, list[str]]:
    """BLEU of the translations by greedy search, and the translations."""
    from harken.metrics import corpus_bleu

    texts = [result.text for result in model.translate([source for source, _ in pairs], beam=1, attention=False)]
    return corpus_bleu(texts, [target for _, target in pairs]).value, texts


def train(kind: str, factor: int, rate: float, pairs: int, steps: int, tests: int, seed: int) -> dict[str, Any]:
    """BLEU and share of right words by length, validation BLEU and updates, of a network at its plateau."""
    draw = random.Random(seed)
    drawn = sentences(pairs, (SHORTEST, LONGEST), draw)
    limits = {"schedule": "plateau", "plateau_patience": 1, "patience": PATIENCE, "validate_every": max(steps // 20, 1)}
    model, updates = train_translator(kind, factor * WIDTHS[kind], rate, drawn, steps, seed, **limits)
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
    return {**by_length, "validation": validation, "updates": updates, "parameters": parameters(model.model)}


def judge(bleu: dict[str, dict[int, float]], wide: dict[str, dict[int, float]], rising: int) -> tuple[bool | None, str]:
    """Kind -> length -> mean BLEU, at the given and at twice the width; runs that ended before a plateau."""
    short, far = min(LENGTHS), max(LENGTHS)
    lost = {kind: {end: by[short] - by[end] for end in (LONGEST, far)} for kind, by in bleu.items()}
    falls = lost["none"][LONGEST] >= FALLS
    less = {end: lost["additive"][end] <= FAR_LESS * lost["none"][end] for end in (LONGEST, far)}

    def bleu_at(kind: str) -> str:
        return f"{bleu[kind][short]:.0f} → {bleu[kind][LONGEST]:.0f} → {bleu[kind][far]:.0f}"

    verdict = (
        f"BLEU at {short}, {LONGEST} (the longest trained) and {far} words: without attention {bleu_at('none')}, with "
        f"it {bleu_at('additive')}; within what was trained attention loses {lost['additive'][LONGEST]:.0f} points "
        f"where the bottleneck loses {lost['none'][LONGEST]:.0f} (twice as wide: "
        f"{wide['none'][short] - wide['none'][LONGEST]:.0f}), beyond it {'far less' if less[far] else 'both fall'}"
    )
    if rising:
        return None, f"{verdict}; {rising} runs ended before a plateau"
    untrained = [NAMES[kind] for kind in bleu if bleu[kind][short] < TRAINED]
    if untrained:
        return None, f"{verdict}; {' and '.join(untrained)} is under-trained (below {TRAINED:.0f} at {short} words)"
    return grade(falls and less[LONGEST] and less[far], falls and less[LONGEST]), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Both networks in both widths: every rate with one seed, the best rate with all."""
    pairs, steps, tests, seeds = settings.resolve(SIZES)
    rates = RATES[:1] if settings.quick else RATES
    networks = list(product(("additive", "none"), reversed(FACTORS)))

    def train_all(variants: list[tuple[Any, ...]], seeds: int, settings: Settings, span: tuple[float, float]) -> Any:
        return sweep(
            lambda kind, factor, rate, seed: train(kind, factor, rate, pairs, steps, tests, seed),
            variants,
            settings,
            progress,
            seeds,
            lambda kind, factor, rate, seed: (
                f"{NAMES[kind]}, width {factor * WIDTHS[kind]}, rate {rate:g}, seed {seed}"
            ),
            span,
        )

    tuned = train_all([(*network, rate) for network in networks for rate in rates], 1, settings, (0.0, 0.5))
    scores = {variant: result["validation"] for variant, (result,) in tuned.items()}
    best = {network: max(rates, key=lambda rate: scores[*network, rate]) for network in networks}
    chosen = [(*network, best[network]) for network in networks]
    others = train_all(chosen, seeds - 1, replace(settings, seed=settings.seed + 1), (0.5, 1.0)) if seeds > 1 else {}
    runs = {variant[:2]: [*tuned[variant], *others.get(variant, [])] for variant in chosen}
    means = {
        what: {
            network: dict(zip(LENGTHS, map(mean, zip(*(run[what] for run in by_seed), strict=True)), strict=True))
            for network, by_seed in runs.items()
        }
        for what in ("bleu", "words")
    }
    rising = sum(run["updates"] >= steps for by_seed in runs.values() for run in by_seed)
    given, wide = ({kind: means["bleu"][kind, factor] for kind in NAMES} for factor in FACTORS)
    holds, verdict = judge(given, wide, rising)
    columns_of = [(kind, factor) for factor in FACTORS for kind in NAMES]
    names = {(kind, factor): f"{NAMES[kind]}, width {factor * WIDTHS[kind]}" for kind, factor in columns_of}
    rows: list[list[Any]] = [
        [n, "trained" if n <= LONGEST else "beyond", *(f"{means['bleu'][network][n]:.1f}" for network in columns_of)]
        + [f"{means['words'][network][n]:.1%}" for network in columns_of[: len(NAMES)]]
        for n in LENGTHS
    ]
    columns = ["words", "length was", *(f"BLEU {names[network]}" for network in columns_of)]
    columns += [f"right words {names[network]}" for network in columns_of[: len(NAMES)]]

    def panel(title: str, what: str, scale: float, label: str) -> Lines:
        series = [
            Series.of_runs(
                names[kind, factor],
                LENGTHS,
                [[scale * y for y in run[what]] for run in runs[kind, factor]],
                mean,
                dashed=factor > 1,
                colour=list(NAMES).index(kind),
            )
            for kind, factor in columns_of
        ]
        marks = [Mark(LONGEST, "longest trained", axis="x")]
        return Lines(title, "words in the sentence", label, series, marks=marks, y_limits=(-2.0, 112.0))

    panels = [panel("BLEU", "bleu", 1.0, "BLEU"), panel("Words in their place", "words", 100.0, "% right")]
    spent = sorted(run["updates"] for by_seed in runs.values() for run in by_seed)
    note = (
        f"LSTM seq2seq, trained to a plateau or the limit ({spent[0]:,} to {spent[-1]:,} updates) on {pairs:,} made "
        f"sentences of {SHORTEST} to {LONGEST} words, greedy search, {seeds} seeds (mean, range); learning rates, "
        f"tuned alike: {', '.join(f'{names[network]} {best[network]:g}' for network in columns_of)}."
    )
    figure = Figure("Translation against sentence length, through one vector and with attention", panels, note)
    measured = {
        "lengths": LENGTHS,
        "runs": {names[network]: by_seed for network, by_seed in runs.items()},
        "rates": {names[network]: rate for network, rate in best.items()},
        "validation": {f"{k}, {factor}, {r:g}": v for (k, factor, r), v in scores.items()},
    }
    return Findings(columns, rows, holds, verdict, figure, measured)


EXPERIMENT = Experiment(
    name="bottleneck",
    statement="Seq2seq without attention has a bottleneck: quality falls with sentence length; with attention it falls "
    "far less.",
    shows="BLEU against sentence length, with attention and with one vector for the whole sentence",
    run=run,
    parts=(
        Part("empirical", "without attention BLEU falls with sentence length"),
        Part("empirical", "with attention it falls far less, at trained lengths and beyond them"),
    ),
    sizes=SIZES,
    changes=(
        "2026-11-19: trained to a plateau or 5,000 updates, two widths, two rates; before, 1,000 updates, three rates",
    ),
)
