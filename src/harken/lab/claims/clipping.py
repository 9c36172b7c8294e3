"""Clipping by norm keeps training stable where gradients explode.

g <- g min(1, c / |g|)      the direction stays, the length is at most c

A vanilla RNN learns to echo: at every step, say which symbol came three steps before. Its recurrent weights start as
an orthogonal matrix times s; from about s = 2 on the gradient explodes. Plain gradient descent with and without
clipping, several seeds. A run has *failed* if its loss is no number, or if it ends above ln K, which is what a network
has that knows nothing; it has *learnt* if it ends below half of that. Pascanu et al. (2013).
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from harken.inspection.figure import Bars, Figure, Group, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Progress, Settings
from harken.lab.helpers import echo
from harken.lab.pool import spread
from harken.nn import RNN

SYMBOLS, DELAY, RATE, CLIP = 4, 3, 0.5, 1.0
CHANCE = math.log(SYMBOLS)
LAST = 50  # the end of a run is the mean of this many updates
EXPLODES = 10 * CLIP  # a first gradient at least this long, in the median
FAILS, STABLE = 0.5, 0.1  # without clipping at least this share fails, with it at most that
SCALES = (1.0, 1.5, 2.0, 2.5, 3.0)


def train(scale: float, clip: float, updates: int, rows: int, seed: int) -> dict[str, list[float]]:
    """The loss and the length of the gradient (before clipping) at every update, up to the first that is no number."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    layer, readout = RNN(SYMBOLS, 64, batch_first=True, orthogonal=True), nn.Linear(64, SYMBOLS)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").mul_(scale)  # orthogonal when it was made
    parameters = [*layer.parameters(), *readout.parameters()]
    optimizer = torch.optim.SGD(parameters, RATE)
    losses, lengths = [], []
    for _ in range(updates):
        values, answers = echo(rows, 40, DELAY, SYMBOLS, generator)
        output, _ = layer(values)
        loss = cross_entropy(readout(output[:, DELAY:]).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        length = float(nn.utils.clip_grad_norm_(parameters, clip))
        losses.append(float(loss.detach()))
        lengths.append(length)
        if not (math.isfinite(losses[-1]) and math.isfinite(length)):
            break
        optimizer.step()
    return {"losses": losses, "lengths": lengths}


def ending(run: dict[str, list[float]], updates: int) -> float:
    """The loss at the end; infinite where the run broke off."""
    losses = run["losses"]
    if len(losses) < updates or not math.isfinite(run["lengths"][-1]):
        return math.inf
    return sum(losses[-LAST:]) / len(losses[-LAST:])


def judge(first: dict[float, float], failed: dict[float, tuple[float, float]]) -> tuple[bool | None, str]:
    """Scale -> median first gradient; scale -> shares of failed runs without and with clipping."""
    exploding = [scale for scale, length in first.items() if length >= EXPLODES]
    if not exploding:
        return None, f"no gradient was as long as {EXPLODES:g}, so nothing exploded and nothing was tested"
    without = sum(failed[scale][0] for scale in exploding) / len(exploding)
    clipped = sum(failed[scale][1] for scale in exploding) / len(exploding)
    said = (
        f"where the first gradient is {EXPLODES:g} or longer (s from {min(exploding):g} up), {without:.0%} of the runs "
        f"fail without clipping and {clipped:.0%} with it"
    )
    if without >= FAILS and clipped <= STABLE:
        return True, said
    return (None if clipped < without else False), said


def run(settings: Settings, progress: Progress) -> Findings:
    """Every scale with and without clipping, for every seed."""
    updates, rows, seeds, scales = (12, 4, 1, (1.0, 3.0)) if settings.quick else (400, 32, 7, SCALES)
    jobs = [(scale, clip, settings.seed + n) for n in range(seeds) for scale in scales for clip in (math.inf, CLIP)]
    runs = spread(
        lambda job: train(job[0], job[1], updates, rows, job[2]),
        jobs,
        progress,
        lambda job: f"s = {job[0]:g}, {'no clipping' if job[1] == math.inf else 'clipped'}, seed {job[2]}",
    )

    def of(scale: float, clip: float) -> list[dict[str, list[float]]]:
        return [run for (s, c, _), run in zip(jobs, runs, strict=True) if (s, c) == (scale, clip)]

    ends = {(scale, clip): [ending(run, updates) for run in of(scale, clip)] for scale, clip, _ in jobs}
    share = {key: sum(not end < CHANCE for end in found) / seeds for key, found in ends.items()}
    learnt = {key: sum(end < CHANCE / 2 for end in found) / seeds for key, found in ends.items()}
    first = {scale: median(run["lengths"][0] for run in of(scale, math.inf)) for scale in scales}
    holds, verdict = judge(first, {scale: (share[scale, math.inf], share[scale, CLIP]) for scale in scales})
    table: list[list[Any]] = [
        [
            scale,
            name,
            first[scale],
            f"{share[scale, clip]:.0%}",
            f"{learnt[scale, clip]:.0%}",
            median(ends[scale, clip]),
        ]
        for scale in scales
        for name, clip in (("none", math.inf), (f"at {CLIP:g}", CLIP))
    ]
    shown = scales[len(scales) // 2]
    curves = [_curve(name, of(shown, clip), updates, at) for at, (name, clip) in enumerate(_NAMES.items())]
    groups = [Group(name, [share[scale, clip] for scale in scales]) for name, clip in _NAMES.items()]
    failures = Bars(
        "runs that fail",
        "recurrent weights: orthogonal × s",
        "share of runs",
        [f"{scale:g}" for scale in scales],
        groups,
        y_limits=(0, 1.12),
        form="{:.0%}",
    )
    losses = Lines(
        f"loss while training, s = {shown:g}",
        "update",
        "cross-entropy",
        curves,
        log_y=True,
        dots=False,
        marks=[Mark(CHANCE, "chance")],
    )
    figure = Figure(
        "Clipping by norm, where gradients explode",
        [failures, losses],
        f"Vanilla RNN, 64 units, echo of {DELAY} steps, SGD at {RATE:g}, {seeds} seeds: median, least and largest.",
    )
    measured = {"first_gradient": first, "failed": _named(share), "learnt": _named(learnt), "ends": _named(ends)}
    columns = ["s", "clipping", "first |gradient|", "runs that fail", "runs that learn", "median loss at the end"]
    return Findings(columns, table, holds, verdict, figure, measured | {"chance": CHANCE})


_NAMES = {"no clipping": math.inf, f"clipped at {CLIP:g}": CLIP}


def _named(found: dict[tuple[float, float], Any]) -> dict[str, Any]:
    return {f"s={s:g}, {'none' if clip == math.inf else 'clipped'}": value for (s, clip), value in found.items()}


def _curve(name: str, runs: list[dict[str, list[float]]], updates: int, colour: int) -> Series:
    """Median and range over the seeds of the loss, ten updates averaged; a broken run stays at its last number."""
    width = min(10, updates)
    places = range(width, updates + 1, width)
    values = [[_mean(run["losses"], place - width, place) for run in runs] for place in places]
    middle = [median(column) for column in values]
    return Series(name, list(places), middle, [min(v) for v in values], [max(v) for v in values], colour=colour)


def _mean(losses: list[float], start: int, end: int) -> float:
    part = [loss for loss in losses[start:end] if math.isfinite(loss)]
    finite = [loss for loss in losses if math.isfinite(loss)]
    return sum(part) / len(part) if part else finite[-1]


EXPERIMENT = Experiment(
    name="clipping",
    statement="Clipping the gradient by its norm keeps training stable where gradients explode.",
    shows="how many runs of a vanilla RNN fail with and without clipping, for recurrent weights of every size",
    run=run,
)
