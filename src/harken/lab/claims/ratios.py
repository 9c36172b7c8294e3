"""P(k|ice) / P(k|steam) is large for solid, small for gas, and near 1 for water and fashion.

P(k|w) = X_wk / X_w      X_wk: how often k stands within WINDOW words of w, X_w: all words that stand there

The paper counted six billion words and found 8.9, 0.085, 1.36 and 0.96; Pennington et al. (2014), table 1. With
`--data FILE ...` the counts are those of your text; a ratio with fewer than ENOUGH counts above or below the line says
next to nothing, and is left out of the verdict by name. Without `--data` the text is drawn here from the paper's own
ratios, so that the table shows how counting finds them again, and nothing about English.

>>> neighbour_counts(np.array([0, 1, 2, -1, 1, 0]), 0, window=1, size=3).tolist()  # what stands next to word 0
[0, 2, 0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harken.inspection.figure import Bars, Figure, Group, Mark
from harken.lab.experiment import Cell, Experiment, Findings, Part, Progress, Settings, Sizes

ICE, STEAM = "ice", "steam"
PAPER = {"solid": 8.9, "gas": 0.085, "water": 1.36, "fashion": 0.96}  # Pennington et al. (2014), table 1
WINDOW = 10
ENOUGH = 5  # counts in each of the two cells of a ratio
SIZES: Sizes = {"sentences": (20_000, 400)}
LARGE, SMALL = 2.0, 0.5  # solid must lie above the one, gas below the other, water and fashion between them
MADE_WORDS = 400  # other words of the text that is made


def neighbour_counts(stream: np.ndarray, word: int, window: int, size: int) -> np.ndarray:
    """(V,): how often each word stands within `window` places of `word` in the same sentence (-1 ends one)."""
    counts = np.zeros(size, dtype=np.int64)
    for position in np.flatnonzero(stream == word):
        for step in (-1, 1):
            for distance in range(1, window + 1):
                at = position + step * distance
                if not 0 <= at < len(stream) or stream[at] < 0:
                    break
                counts[stream[at]] += 1
    return counts


def judge(counts: dict[str, tuple[int, int]], totals: tuple[int, int], generated: bool) -> tuple[bool | None, str]:
    """From X_ice,k and X_steam,k of every k, and X_ice and X_steam."""
    ratios = {k: ratio(pair, totals) for k, pair in counts.items()}
    known = {k: value for k, value in ratios.items() if min(counts[k]) >= ENOUGH}
    right = {k: is_right(k, value) for k, value in known.items()}
    listed = ", ".join(f"{k} {value:.2g}" for k, value in known.items()) or "none"
    lacking = [f"{k} ({counts[k][0]} with {ICE}, {counts[k][1]} with {STEAM})" for k in counts if k not in known]
    verdict = f"ratios with at least {ENOUGH} counts in both cells: {listed}"
    if lacking:
        verdict += f"; too few counts for {', '.join(lacking)}"
    if generated:
        return None, f"{verdict}; the text was made with the paper's ratios: give --data to ask English"
    if not all(right.values()):
        return False, verdict
    return (None if lacking else True), verdict


def ratio(pair: tuple[int, int], totals: tuple[int, int]) -> float:
    """P(k|ice) / P(k|steam); nan where nothing was counted."""
    first, second = (pair[side] / totals[side] if totals[side] else math.nan for side in (0, 1))
    return first / second if second else math.inf if first else math.nan


def is_right(k: str, value: float) -> bool:
    """Whether a ratio is on the side the paper found."""
    if k == "solid":
        return value > LARGE
    return value < SMALL if k == "gas" else SMALL <= value <= LARGE


def made_text(sentences: int, seed: int) -> list[list[str]]:
    """Sentences about ice or steam whose other words are drawn with the paper's ratios."""
    random = np.random.default_rng(seed)
    words = [*PAPER, *(f"w{number}" for number in range(MADE_WORDS))]
    base = np.array([*[0.01] * len(PAPER), *[1 / MADE_WORDS] * MADE_WORDS])
    tilt = np.array([*(math.sqrt(value) for value in PAPER.values()), *[1.0] * MADE_WORDS])
    text = []
    for number in range(sentences):
        subject, chance = (ICE, base * tilt) if number % 2 else (STEAM, base / tilt)
        others = [words[at] for at in random.choice(len(words), 2 * WINDOW, p=chance / chance.sum())]
        text.append([*others[:WINDOW], subject, *others[WINDOW:]])
    return text


def read(files: Sequence[Path], progress: Progress) -> tuple[np.ndarray, dict[str, int]]:
    """The stream of a user's text, and the ids of the words."""
    from harken.embeddings.corpus import read_corpus

    words = 0

    def tick(more: int) -> None:
        nonlocal words
        words += more
        progress(0.5, f"{words:,} words read")

    corpus = read_corpus(files, min_count=1, progress=tick)
    return np.array(corpus.stream), {word: number for number, word in enumerate(corpus.vocabulary.words)}


def run(settings: Settings, progress: Progress) -> Findings:
    """Count, and divide."""
    if settings.files:
        stream, ids = read(settings.files, progress)
        where = ", ".join(path.name for path in settings.files)
    else:
        (sentences,) = settings.resolve(SIZES)
        text = made_text(sentences, settings.seed)
        ids = {word: number for number, word in enumerate(dict.fromkeys(word for line in text for word in line))}
        stream = np.array([number for line in text for number in (*(ids[word] for word in line), -1)])
        where = "text made here"
    progress(0.7, "counting")
    missing = [word for word in (ICE, STEAM) if word not in ids]
    near = {word: neighbour_counts(stream, ids.get(word, -2), WINDOW, len(ids)) for word in (ICE, STEAM)}
    totals = int(near[ICE].sum()), int(near[STEAM].sum())
    counts = {k: tuple(int(near[word][ids[k]]) if k in ids else 0 for word in (ICE, STEAM)) for k in PAPER}
    pairs: dict[str, tuple[int, int]] = {k: (pair[0], pair[1]) for k, pair in counts.items()}
    holds, verdict = judge(pairs, totals, not settings.files)
    if missing:
        verdict = f"the text has no {' and no '.join(missing)}; {verdict}"
    rows: list[list[Cell]] = [
        [k, *_row(pairs[k], totals), PAPER[k], "enough" if min(pairs[k]) >= ENOUGH else "too few"] for k in PAPER
    ]
    columns = ["k", f"with {ICE}", f"with {STEAM}", f"P(k|{ICE})", f"P(k|{STEAM})", "ratio", "paper", "counts"]
    groups = [
        Group("counted", [ratio(pairs[k], totals) if min(pairs[k]) > 0 else math.nan for k in PAPER]),
        Group("paper", list(PAPER.values())),
    ]
    marks = [Mark(1.0, "no preference")]
    panel = Bars("", "k", f"P(k|{ICE}) / P(k|{STEAM})", list(PAPER), groups, log_y=True, marks=marks)
    note = f"{where}: {len(stream):,} words, {totals[0]:,} of them near {ICE} and {totals[1]:,} near {STEAM}."
    figure = Figure(f"Words that go with {ICE} and words that go with {STEAM}", [panel], note)
    measured: dict[str, Any] = {"counts": pairs, "totals": totals, "words": len(stream), "text": where}
    return Findings(columns, rows, holds, verdict, figure, measured)


def _row(pair: tuple[int, int], totals: tuple[int, int]) -> list[Cell]:
    shares = [f"{count / total:.2g}" if total else "-" for count, total in zip(pair, totals, strict=True)]
    value = ratio(pair, totals)
    return [*pair, *shares, f"{value:.3g}" if math.isfinite(value) else "-"]


EXPERIMENT = Experiment(
    name="ratios",
    statement="P(k|ice) / P(k|steam) is large for solid, small for gas, and near 1 for water and fashion.",
    shows="how often words stand near `ice` and near `steam`, counted in your text (--data FILE ...)",
    run=run,
    parts=(
        Part("arithmetic", "of text made here, which is drawn with the ratios of the paper: 8.9, 0.085, 1.36, 0.96"),
        Part("empirical", "of English text (--data)"),
    ),
    sizes=SIZES,
    takes_files=True,
)
