"""Gradients through a vanilla RNN vanish where the largest singular value of W_hh is below 1, and explode above.

    dL/dh_t = dL/dh_T  prod over k = t+1 .. T of  diag(1 - h_k^2) W_hh

The norm of each factor is at most s, the largest singular value of W_hh, since tanh' is at most 1. So for s clearly
below 1 the first half is a theorem (|dL/dh| <= s^distance) that no measurement can contradict; it is checked as such.
What can fail is the other half, s > 1 being needed to explode but not sufficient, and what either half says about
networks that have learned something, whose s is whatever training made of it. Pascanu et al. (2013).

So four kinds of networks are measured, and the rule asks all of them:
quiet       orthogonal times s, no input: h stays 0, tanh' is 1, every direction grows by s: the claim's best case
driven      orthogonal times s, random inputs: h moves, tanh' is less than 1
gaussian    a random matrix scaled to largest singular value s, no input: its eigenvalues reach only about s / 2
trained     orthogonal times s at first, then trained to echo symbols; s and the gradient are measured afterwards
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes
from harken.lab.helpers import echo, learn, mean
from harken.lab.pool import sweep
from harken.nn import RNN

DISTANCE = 50  # steps between the loss and the state
VANISHED, EXPLODED = 0.1, 10.0  # |dL/dh| at that distance, with |dL/dh_T| = 1
NETWORKS = {
    "quiet": "orthogonal × s, no input",
    "driven": "orthogonal × s, random input",
    "gaussian": "random matrix of largest singular value s",
    "trained": "orthogonal × s, then trained",
}
SINGULAR = (0.5, 0.8, 0.95, 1.0, 1.05, 1.2, 1.5, 2.0)
SIZES: Sizes = {"hidden": (128, 16), "rows": (16, 4), "seeds": (5, 1), "updates": (80, 3)}


SYMBOLS, DELAY, RATE = 8, 3, 2e-3  # of the echo task


def gradient_lengths(network: str, largest: float, hidden: int, rows: int, updates: int, seed: int) -> dict[str, Any]:
    """The largest singular value, and |dL/dh_t| at distances 0 .. DISTANCE relative to distance 0 (geometric mean)."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    layer = RNN(SYMBOLS, hidden, dtype=torch.float64, batch_first=True, orthogonal=True)
    weight = layer.get_parameter("weight_hh_l0")
    with torch.no_grad():
        matrix = torch.randn(hidden, hidden, dtype=torch.float64)
        if network != "gaussian":
            matrix = torch.linalg.qr(matrix)[0]
        weight.copy_(matrix * largest / torch.linalg.matrix_norm(matrix, 2))
    values = torch.randn(rows, DISTANCE + 1, SYMBOLS, dtype=torch.float64) * (network == "driven")
    if network == "trained":
        train_echo(layer, hidden, rows, updates, generator)
        values = echo(rows, DISTANCE + 1, DELAY, SYMBOLS, generator)[0].double()
        largest = float(torch.linalg.matrix_norm(weight.detach(), 2))
    output, _, trace = layer(values, trace=True)
    trace.retain_grad()
    direction = torch.randn(rows, hidden, dtype=torch.float64)
    (output[:, -1] * direction).sum().backward()
    lengths = trace[0].gradient("hidden").norm(dim=-1).flip(1)  # (B, T), distance 0 first
    relative: list[float] = (lengths / lengths[:, :1]).log().mean(0).exp().tolist()
    bound = [largest**distance * (1 + 1e-6) for distance in range(DISTANCE + 1)]
    if any(length > most for length, most in zip(relative, bound, strict=True)):
        raise AssertionError(f"a gradient exceeds s^distance for s = {largest}: the measurement is wrong")
    return {"largest": largest, "lengths": relative}


def train_echo(layer: RNN, hidden: int, rows: int, updates: int, generator: torch.Generator) -> None:
    """Train the layer to repeat the symbol of DELAY steps before."""
    readout = nn.Linear(hidden, SYMBOLS, dtype=torch.float64)

    def loss(step: int) -> torch.Tensor:
        values, answers = echo(rows, DISTANCE + 1, DELAY, SYMBOLS, generator)
        output, _ = layer(values.double())
        return cross_entropy(readout(output[:, DELAY:]).flatten(0, 1), answers.flatten())

    learn(nn.ModuleList([layer, readout]), loss, updates, RATE, warmup=10)


def judge(at_distance: dict[str, dict[float, float]]) -> tuple[bool | None, str]:
    """Network -> s -> relative gradient at DISTANCE; both halves have to hold for every kind of network.

    It holds in part where all with s < 1 vanish and at least one kind explodes for every s > 1.
    """
    below = [gradient for lengths in at_distance.values() for s, gradient in lengths.items() if s < 1]
    above = {kind: [gradient for s, gradient in by_s.items() if s > 1] for kind, by_s in at_distance.items()}
    vanishes = all(gradient < VANISHED for gradient in below)
    explodes = {kind: sum(gradient > EXPLODED for gradient in gradients) for kind, gradients in above.items()}
    counts = ", ".join(f"{kind} {explodes[kind]} of {len(gradients)}" for kind, gradients in above.items())
    half = f"below 1 the gradient at distance {DISTANCE} is at most {max(below):.2g} of the last step's"
    verdict = f"{half}; above 1 it exceeds {EXPLODED:g} times it in: {counts}"
    if "trained" in at_distance:
        trained = sorted(at_distance["trained"].items())
        verdict += f"; trained networks have s from {trained[0][0]:.2g} to {trained[-1][0]:.2g}"
    always = [kind for kind, gradients in above.items() if gradients and explodes[kind] == len(gradients)]
    if vanishes and len(always) == len(above):
        return True, verdict
    if vanishes and always:
        return None, f"{verdict} (s > 1 is necessary to explode, not sufficient)"
    return False, verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Measure every s in every kind of network."""
    hidden, rows, seeds, steps = settings.resolve(SIZES)
    runs = sweep(
        lambda network, s, seed: gradient_lengths(network, s, hidden, rows, steps, seed),
        product(NETWORKS, SINGULAR),
        settings,
        progress,
        seeds,
        lambda network, s, seed: f"{network}, s = {s}",
    )
    by_seed = {network: {s: [run["lengths"] for run in runs[network, s]] for s in SINGULAR} for network in NETWORKS}
    curves = {
        network: {s: [_geometric_mean(lengths) for lengths in zip(*lines, strict=True)] for s, lines in by_s.items()}
        for network, by_s in by_seed.items()
    }
    largest = {s: mean(result["largest"] for result in runs["trained", s]) for s in SINGULAR}  # s after training
    at_distance = {network: {s: curve[-1] for s, curve in by_size.items()} for network, by_size in curves.items()}
    at_distance["trained"] = {largest[s]: gradient for s, gradient in at_distance["trained"].items()}
    holds, verdict = judge(at_distance)
    ends = {s: [curves[network][s][-1] for network in NETWORKS] for s in SINGULAR}
    panels = [
        Lines(
            title,
            "steps back from the loss",
            "|dL/dh|, relative to the last step",
            [Series.of_runs(f"s = {s:g}", range(DISTANCE + 1), by_seed[network][s], _geometric_mean) for s in SINGULAR],
            log_y=True,
            ordered=True,
            dots=False,
            marks=[Mark(1.0, "")],
            y_limits=(1e-16, 1e16),
        )
        for network, title in NETWORKS.items()
    ]
    note = (
        f"Vanilla tanh RNN, {hidden} units, {rows} sequences, {seeds} seeds (geometric mean, range); trained: {steps} "
        f"updates on the echo of {DELAY} steps."
    )
    gradients = (f"gradient: {network}" for network in NETWORKS)
    return Findings(
        ["largest singular value s", *gradients, "s after training", f"s^{DISTANCE}", "in all four"],
        [[s, *ends[s], largest[s], s**DISTANCE, _word(ends[s])] for s in SINGULAR],
        holds,
        verdict,
        Figure("Gradient of a vanilla RNN against distance", panels, note),
        {"distance": DISTANCE, "curves": curves, "largest_after_training": largest},
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(mean(map(math.log, values)))


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
    parts=(
        Part("theorem", "below 1 the gradient vanishes: |dL/dh| is at most s^distance, as tanh' is at most 1"),
        Part("empirical", "above 1 it explodes: s > 1 is necessary, and whether it suffices depends on the network"),
        Part("empirical", "networks that were trained keep to both halves, whose s is what training made of it"),
    ),
    sizes=SIZES,
)
