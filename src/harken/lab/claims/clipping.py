"""Clipping by norm keeps training stable where gradients explode.

g <- g min(1, c / |g|)      the direction stays, the length is at most c

A vanilla RNN learns to echo: at every step, say which symbol came three steps before. Its recurrent weights start as
an orthogonal matrix times s; from about s = 2 on the gradient explodes. Plain gradient descent with and without
clipping, several seeds. A run has *failed* if its loss is NaN or infinite, or if it ends above ln K, the loss of a
network that knows nothing; it has *learnt* if it ends below half of that. Pascanu et al. (2013).
"""

from __future__ import annotations

import math
from itertools import product
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from harken.inspection.figure import Bars, Figure, Group, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import echo, mean, updates
from harken.lab.pool import sweep
from harken.nn import RNN

SYMBOLS, DELAY, RATE, CLIP = 4, 3, 0.5, 1.0
CHANCE = math.log(SYMBOLS)
LAST = 50  # the end of a run is the mean of this many updates
EXPLODES = 10 * CLIP  # a first gradient at least this long, in the median
FAILS, STABLE = 0.5, 0.1  # without clipping at least this share fails, with it at most that
SCALES = (1.0, 1.5, 2.0, 2.5, 3.0)
CLIPS = {"no clipping": math.inf, f"clipped at {CLIP:g}": CLIP}
SIZES: Sizes = {"updates": (400, 12), "rows": (32, 4), "seeds": (7, 1), "hidden": (64, 64)}


def train(scale: float, clip: float, hidden: int, steps: int, rows: int, seed: int) -> dict[str, list[float]]:
    """The loss and the norm of the gradient (before clipping) at every update, up to the first that is not finite."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    layer, readout = RNN(SYMBOLS, hidden, batch_first=True, orthogonal=True), nn.Linear(hidden, SYMBOLS)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").mul_(scale)  # orthogonal at initialisation

    def loss(step: int) -> Tensor:
        values, answers = echo(rows, 40, DELAY, SYMBOLS, generator)
        return cross_entropy(readout(layer(values)[0][:, DELAY:]).flatten(0, 1), answers.flatten())

    losses, lengths = [], []
    optimizer = torch.optim.SGD([*layer.parameters(), *readout.parameters()], RATE)
    for value, length in updates(optimizer, loss, steps, clip):
        losses.append(value)
        lengths.append(length)
        if not (math.isfinite(value) and math.isfinite(length)):
            break
    return {"losses": losses, "lengths": lengths}


def ending(run: dict[str, list[float]], steps: int) -> float:
    """The loss at the end; infinite where the run broke off."""
    losses = run["losses"]
    if len(losses) < steps or not math.isfinite(run["lengths"][-1]):
        return math.inf
    return mean(losses[-LAST:])


def judge(first: dict[float, float], failed: dict[float, tuple[float, float]]) -> tuple[bool | None, str]:
    """Scale -> median first gradient; scale -> shares of failed runs without and with clipping."""
    exploding = [scale for scale, length in first.items() if length >= EXPLODES]
    if not exploding:
        return None, f"no gradient was as long as {EXPLODES:g}, so nothing exploded and nothing was tested"
    without = sum(failed[scale][0] for scale in exploding) / len(exploding)
    clipped = sum(failed[scale][1] for scale in exploding) / len(exploding)
    verdict = (
        f"where the first gradient is {EXPLODES:g} or longer (s from {min(exploding):g} up), {without:.0%} of the runs "
        f"fail without clipping and {clipped:.0%} with it"
    )
    return grade(without >= FAILS and clipped <= STABLE, clipped < without), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Every scale with and without clipping, for every seed."""
    steps, rows, seeds, hidden = settings.resolve(SIZES)
    scales = (1.0, 3.0) if settings.quick else SCALES
    runs = sweep(
        lambda scale, clip, seed: train(scale, clip, hidden, steps, rows, seed),
        product(scales, CLIPS.values()),
        settings,
        progress,
        seeds,
        lambda scale, clip, seed: f"s = {scale:g}, {'no clipping' if clip == math.inf else 'clipped'}, seed {seed}",
    )
    ends = {variant: [ending(result, steps) for result in results] for variant, results in runs.items()}
    failed = {variant: sum(not end < CHANCE for end in losses) / seeds for variant, losses in ends.items()}
    learnt = {variant: sum(end < CHANCE / 2 for end in losses) / seeds for variant, losses in ends.items()}
    first = {scale: median(result["lengths"][0] for result in runs[scale, math.inf]) for scale in scales}
    holds, verdict = judge(first, {scale: (failed[scale, math.inf], failed[scale, CLIP]) for scale in scales})
    rows_of_table: list[list[Any]] = [
        [
            scale,
            "none" if clip == math.inf else f"at {CLIP:g}",
            first[scale],
            *(f"{share[scale, clip]:.0%}" for share in (failed, learnt)),
            median(ends[scale, clip]),
        ]
        for scale, clip in runs
    ]
    shown = scales[len(scales) // 2]
    failures = Bars(
        "runs that fail",
        "recurrent weights: orthogonal × s",
        "share of runs",
        [f"{scale:g}" for scale in scales],
        [Group(name, [failed[scale, clip] for scale in scales]) for name, clip in CLIPS.items()],
        y_limits=(0, 1.12),
        form="{:.0%}",
    )
    losses = Lines(
        f"loss while training, s = {shown:g}",
        "update",
        "cross-entropy",
        [_curve(name, runs[shown, clip], steps, at) for at, (name, clip) in enumerate(CLIPS.items())],
        log_y=True,
        dots=False,
        marks=[Mark(CHANCE, "chance")],
    )
    note = f"Vanilla RNN, {hidden} units, echo of {DELAY} steps, SGD at {RATE:g}, {seeds} seeds: median and range."
    return Findings(
        ["s", "clipping", "first |gradient|", "runs that fail", "runs that learn", "median loss at the end"],
        rows_of_table,
        holds,
        verdict,
        Figure("Clipping by norm, where gradients explode", [failures, losses], note),
        {"first_gradient": first, "failed": _named(failed), "learnt": _named(learnt), "ends": _named(ends)}
        | {"chance": CHANCE},
    )


def _named(by_variant: dict[Any, Any]) -> dict[str, Any]:
    return {f"s={s:g}, {'none' if clip == math.inf else 'clipped'}": value for (s, clip), value in by_variant.items()}


def _curve(name: str, runs: list[dict[str, list[float]]], steps: int, colour: int) -> Series:
    """Median and range over the seeds of the loss, ten updates averaged; a broken run stays at its last number."""
    width = min(10, steps)
    ends = range(width, steps + 1, width)
    return Series.of_runs(
        name, list(ends), [[_mean(run["losses"], end - width, end) for end in ends] for run in runs], colour=colour
    )


def _mean(losses: list[float], start: int, end: int) -> float:
    part = [loss for loss in losses[start:end] if math.isfinite(loss)]
    finite = [loss for loss in losses if math.isfinite(loss)]
    return mean(part) if part else finite[-1]


EXPERIMENT = Experiment(
    name="clipping",
    statement="Clipping the gradient by its norm keeps training stable where gradients explode.",
    shows="how many runs of a vanilla RNN fail with and without clipping, for recurrent weights of every size",
    run=run,
    parts=(
        Part("theorem", "a clipped gradient is at most as long as the threshold and keeps its direction"),
        Part("empirical", "training that fails without clipping does not fail with it"),
    ),
    sizes=SIZES,
)
