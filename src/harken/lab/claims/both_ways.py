"""Bidirectional beats unidirectional wherever the whole input is at hand ("the bank is robbed").

forward   h_t = f(x_1 .. x_t)              cannot know what comes after t
both      [h_t; g_t], g_t = f'(x_t .. x_T)  two layers with weights of their own

A word with two senses stands in a sentence, and one other word decides which: at most REACH places before it or after
it. Words that would decide for other ambiguous words stand around as well. Both layers have the same number of
parameters, so the unidirectional one is wider. Schuster and Paliwal (1997).

"Wherever" has two halves, and the rule asks both: the decision lies ahead (there the one way can only guess) or behind
(there it sees all there is, with the wider layer).

>>> words, place, sense, offset = sentences(1, torch.Generator().manual_seed(51))
>>> VOCABULARY[words[0, place[0]]], VOCABULARY[words[0, place[0] + offset[0]]], int(offset[0])
('bank', 'robbed', 2)
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import learn, mean, parameters
from harken.lab.pool import sweep
from harken.nn import LSTM

SENSES = {
    "bank": (("robbed", "loan"), ("flooded", "muddy")),
    "bat": (("swung", "wooden"), ("flew", "hung")),
    "seal": (("signed", "wax"), ("swam", "barked")),
    "spring": (("coiled", "rusty"), ("bloomed", "april")),
}
FILLERS = "the a is was it he she they in on at of and then there very old new big small near far".split()  # noqa: SIM905
DECIDERS = [word for senses in SENSES.values() for words in senses for word in words]  # four a word: 2 senses x 2
VOCABULARY = [*FILLERS, *SENSES, *DECIDERS]
LENGTH, REACH = 25, 8  # words in a sentence; how far off the deciding word may be
OFFSETS = [*range(-REACH, 0), *range(1, REACH + 1)]
DIRECTIONS = {"one way": False, "both ways": True}

AHEAD = 0.10  # both ways must be better by this share at every distance ahead, in every seed
BEHIND = 0.02  # and worse by no more than this where the decision lies behind, on average over distances and seeds
SIZES: Sizes = {"hidden": (24, 8), "updates": (800, 10), "tests": (8000, 400), "seeds": (4, 2)}


def sentences(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Words (B, T), where the ambiguous one stands (B,), its sense (B,), and how far off what decides is (B,)."""

    def draw(*shape: int, below: int) -> Tensor:
        return torch.randint(below, shape, generator=generator)

    ambiguous, first = len(FILLERS), len(FILLERS) + len(SENSES)  # numbers of the first ambiguous and deciding words
    words, row = draw(rows, LENGTH, below=len(FILLERS)), torch.arange(rows)
    which, sense, index = draw(rows, below=4), draw(rows, below=2), REACH + draw(rows, below=LENGTH - 2 * REACH)
    offset = torch.tensor(OFFSETS)[draw(rows, below=len(OFFSETS))]
    for _ in range(3):  # words that decide for others
        other = (which + 1 + draw(rows, below=3)) % 4
        words[row, draw(rows, below=LENGTH)] = first + 4 * other + draw(rows, below=4)
    words[row, index] = ambiguous + which
    words[row, index + offset] = first + 4 * which + 2 * sense + draw(rows, below=2)
    return words, index, sense, offset


class Tagger(nn.Module):
    """Embedding, LSTM, and the sense of the word at a place."""

    def __init__(self, hidden: int, both: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 32)
        self.layer = LSTM(32, hidden, bidirectional=both, batch_first=True, orthogonal=True)
        self.sense = nn.Linear(hidden * (2 if both else 1), 2)

    def forward(self, words: Tensor, index: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, 2)."""
        states, _ = self.layer(self.embedding(words))
        return self.sense(states[torch.arange(len(words)), index])


def widths(hidden: int) -> dict[str, int]:
    """Units a direction: for both ways `hidden`, for one way as many as make the parameters equal, or nearly so."""
    size = parameters(Tagger(hidden, True))
    return {
        "one way": min(range(1, 4 * hidden), key=lambda n: abs(parameters(Tagger(n, False)) - size)),
        "both ways": hidden,
    }


def train(kind: str, hidden: int, steps: int, tests: int, seed: int) -> dict[str, Any]:
    """Share of right senses for each offset, on sentences not trained on."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)  # the same sentences for both
    model = Tagger(hidden, DIRECTIONS[kind])

    def loss(step: int) -> Tensor:
        words, index, sense, _ = sentences(64, generator)
        return F.cross_entropy(model(words, index), sense)

    learn(model, loss, steps, 4e-3)
    with torch.no_grad():
        words, index, sense, offset = sentences(tests, torch.Generator().manual_seed(1_000_003 + seed))
        right = (model(words, index).argmax(-1) == sense).float()
    return {"right": [right[offset == at].mean().item() for at in OFFSETS], "parameters": parameters(model)}


def judge(right: dict[str, list[list[float]]]) -> tuple[bool | None, str]:
    """Kind -> seed -> share right for each of OFFSETS."""
    forward, both = right["one way"], right["both ways"]
    gains = [[b - o for o, b in zip(*pair, strict=True)] for pair in zip(forward, both, strict=True)]  # seed, offset
    least = min(gain for row in gains for gain, at in zip(row, OFFSETS, strict=True) if at > 0)
    behind = mean([gain for row in gains for gain, at in zip(row, OFFSETS, strict=True) if at < 0])
    ahead = {
        kind: mean([v for row in rows for v, at in zip(row, OFFSETS, strict=True) if at > 0])
        for kind, rows in right.items()
    }
    verdict = (
        f"where the deciding word lies ahead, both ways get {ahead['both ways']:.1%} right and one way "
        f"{ahead['one way']:.1%} (the least gain of any distance and seed is {100 * least:.0f} points); where it "
        f"lies behind, both ways are {abs(100 * behind):.1f} points {'better' if behind >= 0 else 'worse'}"
    )
    return grade(least >= AHEAD and behind >= -BEHIND, least >= AHEAD), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Both kinds with several seeds."""
    hidden, steps, tests, seeds = settings.resolve(SIZES)
    units = widths(hidden)
    runs = sweep(lambda kind, seed: train(kind, units[kind], steps, tests, seed), DIRECTIONS, settings, progress, seeds)
    right = {kind: [result["right"] for result in runs[kind]] for kind in DIRECTIONS}
    holds, verdict = judge(right)
    means = {kind: [mean(shares) for shares in zip(*right[kind], strict=True)] for kind in DIRECTIONS}  # by offset
    rows: list[list[Any]] = []
    for at, *shares in zip(OFFSETS, *means.values(), strict=True):
        where = f"{abs(at)} {'before' if at < 0 else 'after'}"
        rows.append([where, *(f"{share:.1%}" for share in shares), f"{100 * (shares[1] - shares[0]):+.1f}"])
    series = [
        Series.of_runs(
            f"{kind}, {'2 × ' if both else ''}{units[kind]} units",
            [*OFFSETS[:REACH], 0, *OFFSETS[REACH:]],
            [[*shares[:REACH], math.nan, *shares[REACH:]] for shares in right[kind]],  # the ambiguous word itself
            mean,
        )
        for kind, both in DIRECTIONS.items()
    ]
    sizes = " and ".join(f"{runs[kind][0]['parameters']:,}" for kind in DIRECTIONS)
    label = "places from the ambiguous word to the deciding one"
    marks = [Mark(0.5, "guessing"), Mark(0.0, "the word", axis="x")]
    panel = Lines("", label, "senses told right", series, marks=marks, y_limits=(0.3, 1.08))
    note = (
        f"LSTM taggers ({sizes} parameters), {steps} updates of 64 sentences, {seeds} seeds (band: from least to best)."
    )
    figure = Figure("The sense of a word, by where the word that decides it stands", [panel], note)
    columns = ["deciding word", *DIRECTIONS, "gain in points"]
    return Findings(columns, rows, holds, verdict, figure, {"offsets": OFFSETS, "right": right, "units": units})


EXPERIMENT = Experiment(
    name="both-ways",
    statement="A bidirectional layer beats a unidirectional one wherever the whole input is at hand.",
    shows="senses of words like `bank` that a word before or after decides, one way and both ways",
    run=run,
    parts=(
        Part("arithmetic", "one direction cannot know a word that is still to come: it is right half of the time"),
        Part("empirical", "both directions learn it, and lose little where the deciding word lies behind"),
    ),
    sizes=SIZES,
)
