"""C1: gradients through a vanilla RNN vanish where the largest singular value of W_hh is below 1, explode above.

dL/dh_t = dL/dh_T  prod over k = t+1 .. T of  diag(1 - h_k^2) W_hh

Each factor is at most s, the largest singular value of W_hh, in length (tanh' is at most 1). So s < 1 is *enough* for
the gradient to vanish, at least as quickly as s^distance. The other half is weaker: s > 1 is *needed* to explode and
not enough, since tanh may be flat and since most directions may shrink although one grows. Pascanu et al. (2013).

So the same s is measured three ways, and the rule asks all of them:
quiet       orthogonal times s, no input: h stays 0, tanh' is 1, every direction grows by s: the claim's best case
driven      orthogonal times s, random inputs: h moves, tanh' is less than 1
gaussian    a random matrix scaled to largest singular value s, no input: its eigenvalues reach only about s / 2
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Progress, Settings
from harken.lab.pool import spread
from harken.nn import RNN

DISTANCE = 50  # steps between the loss and the state asked for
VANISHED, EXPLODED = 0.1, 10.0  # |dL/dh| at that distance, with |dL/dh_T| = 1
WAYS = ("quiet", "driven", "gaussian")
SINGULAR = (0.5, 0.8, 0.95, 1.0, 1.05, 1.2, 1.5, 2.0)


def gradient_lengths(way: str, largest: float, hidden: int, rows: int, seed: int) -> list[float]:
    """|dL/dh_t| at distances 0 .. DISTANCE from the loss, relative to distance 0; the geometric mean over the rows."""
    torch.manual_seed(seed)
    layer = RNN(8, hidden, dtype=torch.float64)
    weight = layer.get_parameter("cells.0.weight_hh")
    with torch.no_grad():
        matrix = torch.randn(hidden, hidden, dtype=torch.float64)
        if way != "gaussian":
            matrix = torch.linalg.qr(matrix)[0]
        weight.copy_(matrix * largest / torch.linalg.matrix_norm(matrix, 2))
    values = torch.randn(rows, DISTANCE + 1, 8, dtype=torch.float64) * (way == "driven")
    output, _, trace = layer(values, trace=True)
    trace.retain_grad()
    direction = torch.randn(rows, hidden, dtype=torch.float64)
    (output[:, -1] * direction).sum().backward()
    lengths = trace[0].gradient("hidden").norm(dim=-1).flip(1)  # (B, T), distance 0 first
    mean: list[float] = (lengths / lengths[:, :1]).log().mean(0).exp().tolist()
    return mean


def judge(at_distance: dict[str, dict[float, float]]) -> tuple[bool | None, str]:
    """Way -> s -> relative gradient at DISTANCE; both halves have to hold in every way."""
    below = [gradient for lengths in at_distance.values() for s, gradient in lengths.items() if s < 1]
    above = {way: [gradient for s, gradient in found.items() if s > 1] for way, found in at_distance.items()}
    vanishes = all(gradient < VANISHED for gradient in below)
    explodes = {way: sum(gradient > EXPLODED for gradient in found) for way, found in above.items()}
    counts = ", ".join(f"{way} {explodes[way]} of {len(found)}" for way, found in above.items())
    half = f"below 1 the gradient at distance {DISTANCE} is at most {max(below):.2g} of the last step's"
    said = f"{half}; above 1 it exceeds {EXPLODED:g} times it in: {counts}"
    if vanishes and all(explodes[way] == len(found) for way, found in above.items()):
        return True, said
    if vanishes and any(explodes.values()):
        return None, f"{said} (s > 1 is needed to explode, not enough)"
    return False, said


def run(settings: Settings, progress: Progress) -> Findings:
    """Measure every s in every way."""
    hidden, rows, seeds = (16, 4, 1) if settings.quick else (128, 16, 5)
    jobs = [(way, s, settings.seed + number) for way in WAYS for s in SINGULAR for number in range(seeds)]
    curves = spread(
        lambda job: gradient_lengths(*job[:2], hidden, rows, job[2]),
        jobs,
        progress,
        lambda job: f"{job[0]}, s = {job[1]}",
    )
    found: dict[str, dict[float, list[float]]] = {way: {} for way in WAYS}
    for way in WAYS:
        for s in SINGULAR:
            mine = [curve for (of, at, _), curve in zip(jobs, curves, strict=True) if (of, at) == (way, s)]
            found[way][s] = [math.exp(sum(map(math.log, column)) / seeds) for column in zip(*mine, strict=True)]
    at_distance = {way: {s: curve[-1] for s, curve in by_size.items()} for way, by_size in found.items()}
    holds, verdict = judge(at_distance)
    rows_of_table: list[list[Any]] = [
        [s, *(at_distance[way][s] for way in WAYS), s**DISTANCE, _word([at_distance[way][s] for way in WAYS])]
        for s in SINGULAR
    ]
    titles = {
        "quiet": "orthogonal × s, no input",
        "driven": "orthogonal × s, random input",
        "gaussian": "random matrix of largest singular value s",
    }
    panels = [
        Lines(
            titles[way],
            "steps back from the loss",
            "|dL/dh|, relative to the last step",
            [Series(f"s = {s:g}", range(DISTANCE + 1), found[way][s]) for s in SINGULAR],
            log_y=True,
            ordered=True,
            dots=False,
            marks=[Mark(1.0, "")],
            y_limits=(1e-16, 1e16),
        )
        for way in WAYS
    ]
    columns = ["largest singular value s", *(f"gradient: {way}" for way in WAYS), f"s^{DISTANCE}", "in all three"]
    note = f"Vanilla tanh RNN, {hidden} units, {rows} sequences, {seeds} seeds (geometric mean)."
    figure = Figure("Gradient of a vanilla RNN against distance", panels, note)
    return Findings(columns, rows_of_table, holds, verdict, figure, {"distance": DISTANCE, "curves": found})


def _word(gradients: list[float]) -> str:
    if all(gradient < VANISHED for gradient in gradients):
        return "vanishes"
    return "explodes" if all(gradient > EXPLODED for gradient in gradients) else "depends"


EXPERIMENT = Experiment(
    name="vanishing",
    statement="Gradients through a vanilla RNN vanish where the largest singular value of its recurrent weights is "
    "below 1, and explode where it is above.",
    shows="how far back the gradient of a vanilla RNN reaches, for recurrent weights of every size",
    run=run,
)
