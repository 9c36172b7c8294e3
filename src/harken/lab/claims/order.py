"""Self-attention without positions ignores order; sinusoids do not extrapolate well in practice; learned positions
cannot at all.

without positions   f(P x) = P f(x) for every reordering P: each token gets the same wherever it stands
sinusoidal          defined for every length (Vaswani et al., 2017); learned: a table that ends

Three measurements. `reordering`: how much outputs change when tokens are reordered and the outputs put back. Then a
network of two blocks learns to say, at every place, the word before it, in sequences of SHORTEST to LONGEST words, and
is asked at these lengths (`train`) and beyond. What can be said without order is known: the word that is most frequent
among the others (`blind_guess`). Vaswani et al. (2017) hoped that sinusoids extrapolate; Press et al. (2022) measured.

ALiBi looks to both sides by the same rule in an encoder, so it cannot tell the word before from the word after.

>>> blind_guess(torch.tensor([[1, 1, 1, 2]]))  # "1" for all: the word before the 2nd, 3rd and 4th
1.0
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.inspection.figure import Bars, Figure, Group, Lines, Mark, Panel, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import learn, mean
from harken.lab.pool import sweep
from harken.nn import EncoderBlock
from harken.nn.positions.kinds import added_positions, attention_positions

WORDS, WIDTH, HEADS, BLOCKS, CLIP = 12, 64, 4, 2, 8
SHORTEST, LONGEST = 8, 24  # trained
LENGTHS = (8, 16, 24, 32, 48, 72, 96)  # asked
# The word in a recipe, and how many places a learned table has; the longer table is trained in its first part only.
KINDS = {
    "none": ("none", 0),
    "sinusoidal": ("sinusoidal", 0),
    "learned": ("learned", LONGEST),
    "learned, longer table": ("learned", max(LENGTHS)),
    "relative": ("relative", 0),
    "rotary": ("rotary", 0),
    "ALiBi": ("alibi", 0),
}
HIDDEN = ("learned, longer table", "rotary")  # lines that lie on others are dashed

BLIND = 1e-12  # relative change of outputs in float64 that is rounding and no more
GUESSING = 0.03  # without positions the share right is above the blind guess by no more than this, at any length
LEARNED = 0.95  # sinusoidal and learned positions get at least this right at the longest trained length
FALLS = 0.10  # sinusoidal positions lose at least this at twice that length
SIZES: Sizes = {"updates": (700, 4), "rows": (48, 8), "tests": (300, 16), "seeds": (2, 1)}


class Reader(nn.Module):
    """Words in, for every place a word out: embedding, positions, encoder blocks."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        word, positions = KINDS[kind]
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.positions = added_positions(word, WIDTH, positions)
        self.blocks = nn.ModuleList(
            EncoderBlock(WIDTH, HEADS, 2 * WIDTH, positions=attention_positions(word, WIDTH // HEADS, HEADS, CLIP))
            for _ in range(BLOCKS)
        )
        self.norm, self.answer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T) -> (B, T, words)."""
        values = self.embedding(words)
        if self.positions is not None:
            values = values + self.positions(words.shape[1])
        for block in self.blocks:
            values = block(values, None)
        return self.answer(self.norm(values))


@torch.no_grad()
def reordering(kind: str, seed: int) -> float:
    """The largest change of an output when the words are reordered and the outputs put back, of the largest output."""
    torch.manual_seed(seed)
    model = Reader(kind).double()
    words, order = torch.randint(WORDS, (4, LONGEST)), torch.randperm(LONGEST)
    plain, mixed = model(words), model(words[:, order])
    return ((mixed - plain[:, order]).abs().max() / plain.abs().max()).item()


def blind_guess(words: Tensor) -> float:
    """How often the word before is the most frequent of the other words (B, T): all that can be known without order."""
    counts = F.one_hot(words).sum(1, keepdim=True) - F.one_hot(words)  # (B, T, words): the others of each place
    guess = counts.argmax(-1)
    return (guess[:, 1:] == words[:, :-1]).float().mean().item()


def train(kind: str, steps: int, rows: int, tests: int, seed: int) -> dict[str, Any]:
    """Share right at each of LENGTHS; where a sequence is refused, NaN and what was said."""
    torch.manual_seed(seed)
    model, draw = Reader(kind), torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        length = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=draw))
        words = torch.randint(WORDS, (rows, length), generator=draw)
        return F.cross_entropy(model(words)[:, 1:].flatten(0, 1), words[:, :-1].flatten())

    learn(model, loss, steps, 2e-3, warmup=100)
    right, blind, refused = [], [], ""
    test = torch.Generator().manual_seed(1_000_003 + seed)
    with torch.no_grad():
        for length in LENGTHS:
            words = torch.randint(WORDS, (tests, length), generator=test)
            blind.append(blind_guess(words))
            try:
                right.append((model(words)[:, 1:].argmax(-1) == words[:, :-1]).float().mean().item())
            except ValueError as error:
                right.append(math.nan)
                refused = refused or str(error)
    return {"right": right, "blind": blind, "refused": refused}


def judge(
    moved: dict[str, float], right: dict[str, dict[int, float]], blind: dict[int, float], refused: str
) -> tuple[bool | None, str]:
    """Kind -> change by reordering; kind -> length -> share right; length -> blind guess; what a table says."""
    above = max(right["none"][n] - blind[n] for n in blind)
    ignores = moved["none"] < BLIND and above <= GUESSING
    far = 2 * LONGEST
    lost = right["sinusoidal"][LONGEST] - right["sinusoidal"][far]
    falls = right["sinusoidal"][LONGEST] >= LEARNED and lost >= FALLS
    ends = right["learned"][LONGEST] >= LEARNED and all(math.isnan(right["learned"][n]) for n in blind if n > LONGEST)
    others = ", ".join(f"{kind} {right[kind][far]:.0%}" for kind in ("relative", "rotary"))
    verdict = (
        f"without positions reordering changes outputs by {moved['none']:.0e} and the share right is at most "
        f"{100 * above:+.1f} points from the blind guess; sinusoidal {right['sinusoidal'][LONGEST]:.0%} at {LONGEST} "
        f"words and {right['sinusoidal'][far]:.0%} at {far} ({others}); learned {right['learned'][LONGEST]:.0%}, then "
        f"{'refused: ' + refused if refused else 'not refused'}; with a table that goes on, "
        f"{right['learned, longer table'][far]:.0%}"
    )
    parts = (ignores, falls, ends)
    return grade(all(parts), any(parts)), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Every kind of positions with several seeds."""
    steps, rows, tests, seeds = settings.resolve(SIZES)
    seeds_used = range(settings.seed, settings.seed + seeds)
    moved = {kind: max(reordering(kind, seed) for seed in seeds_used) for kind in KINDS}
    runs = sweep(lambda kind, seed: train(kind, steps, rows, tests, seed), KINDS, settings, progress, seeds)

    def means(kind: str, key: str) -> dict[int, float]:
        return dict(zip(LENGTHS, map(mean, zip(*(run[key] for run in runs[kind]), strict=True)), strict=True))

    right, blind = {kind: means(kind, "right") for kind in KINDS}, means("none", "blind")
    refused = runs["learned"][0]["refused"]
    holds, verdict = judge(moved, right, blind, refused)
    rows_of_table: list[list[Any]] = [
        [kind, moved[kind], *("refused" if math.isnan(by[n]) else f"{by[n]:.1%}" for n in LENGTHS)]
        for kind, by in right.items()
    ]
    rows_of_table.append(["blind guess", "", *(f"{blind[n]:.1%}" for n in LENGTHS)])
    columns = ["positions", "change by reordering", *(f"{n} words" for n in LENGTHS)]
    series = [
        Series.of_runs(kind, LENGTHS, [run["right"] for run in runs[kind]], mean, dashed=kind in HIDDEN)
        for kind in KINDS
    ]
    series.append(Series("blind guess", LENGTHS, list(blind.values()), dashed=True, colour=7))
    untrained = [kind for kind in KINDS if "," not in kind]  # before training both tables are one
    panels: list[Panel] = [
        Lines(
            "Saying the word before",
            "words in the sequence",
            "share right",
            series,
            log_x=True,
            marks=[Mark(LONGEST, "longest trained", axis="x")],
            y_limits=(0.0, 1.12),
        ),
        Bars(
            "Before training: reordering the words",
            "",
            "change of outputs",
            untrained,
            [Group("", [max(moved[kind], 1e-17) for kind in untrained])],
            log_y=True,
            marks=[Mark(BLIND, "rounding")],
            form="{:.1g}",
        ),
    ]
    note = f"{BLOCKS} encoder blocks of width {WIDTH}, {steps} updates at {SHORTEST} to {LONGEST} words, {seeds} seeds."
    figure = Figure("Order, without positions and with each kind of them", panels, note)
    measured = {"moved": moved, "lengths": LENGTHS, "right": right, "blind": blind, "refused": refused}
    measured["runs"] = {f"{kind}, seed {seed}": runs[kind][at] for at, seed in enumerate(seeds_used) for kind in KINDS}
    return Findings(columns, rows_of_table, holds, verdict, figure, measured)


EXPERIMENT = Experiment(
    name="order",
    statement="Self-attention without positions ignores order; sinusoids do not extrapolate well in practice; learned "
    "positions cannot at all.",
    shows="what each kind of positions knows of order, at the lengths it was trained on and beyond",
    run=run,
    parts=(
        Part("theorem", "without positions, reordering the words reorders the outputs and changes nothing else"),
        Part("empirical", "sinusoids lose accuracy at twice the longest trained length"),
        Part("arithmetic", "a table of learned positions has no entry beyond its end"),
    ),
    sizes=SIZES,
)
