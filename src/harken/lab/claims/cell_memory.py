"""A forget gate at 1 with an input gate at 0 keeps the cell forever.

C_t = f * C_{t-1} + i * g      with f = 1 and i = 0 this is C_t = C_{t-1}, bit for bit

A sigmoid is 1 only in the limit, so the way there is measured too: with f = sigmoid(b) the cell has lost half of what
it held after ln 2 / ln(1 + e^-b) steps. A layer whose units have forget biases b of 0, 1, 2 ... shows those curves in
one run. While it runs, random inputs arrive: candidate and output gate see them, the input gate is closed.
Hochreiter and Schmidhuber (1997).

>>> round(predicted_half_life(0.0)), round(predicted_half_life(10.0))
(1, 15268)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harken.inspection.figure import Figure, Lines, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes
from harken.nn import LSTM

SHUT = 1000.0  # sigmoid of this is exactly 1, of its negative exactly 0, in every precision
BIASES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
TOLERANCE = 0.05  # how far a measured half-life may be from the predicted one, as a share
SIZES: Sizes = {"steps": (10_000, 200)}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "peephole": {"peephole": "full"},
    "coupled": {"coupled": True},
    "projected": {"proj_size": 5},
    "layer norm": {"layer_norm": True},
}


def predicted_half_life(bias: float) -> float:
    """Steps until sigmoid(bias)^steps is one half."""
    return math.log(2) / math.log1p(math.exp(-bias))


def keeper(hidden: int, forget: Tensor, **options: Any) -> LSTM:
    """A layer with random weights whose forget gates have these biases and whose input gates are shut."""
    layer = LSTM(4, hidden, orthogonal=False, batch_first=True, **options)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            gates = list(parameter.split(hidden)) if "bias_ih" in name or "bias_hh" in name else []
            if gates:
                first = [] if options.get("coupled") else [gates[0]]
                for gate in first:  # coupled, there is none: i = 1 - f
                    gate.fill_(-SHUT if "bias_ih" in name else 0.0)
                gates[len(first)].copy_(forget if "bias_ih" in name else torch.zeros(hidden))
    return layer


def kept_bits(steps: int, seed: int) -> dict[str, dict[str, Any]]:
    """For every variant, fast path and reference: is the cell after `steps` steps the first one, bit for bit?"""
    results: dict[str, dict[str, Any]] = {}
    for name, options in VARIANTS.items():
        torch.manual_seed(seed)
        layer = keeper(8, torch.full((8,), SHUT), **options)
        first = torch.randn(1, 2, 8)
        hidden = torch.zeros(1, 2, options.get("proj_size", 8))
        with torch.no_grad():
            values = torch.randn(2, steps, 4)
            fast = layer(values, (hidden, first))[1][1]
            by_loop = layer.reference(values[:, : steps // 10], (hidden, first))[1][1]
        results[name] = {
            "fast": bool(torch.equal(fast, first)),
            "reference": bool(torch.equal(by_loop, first)),
            "largest_change": float((fast - first).abs().max()),
        }
    return results


def share_kept(steps: int, seed: int) -> list[list[float]]:
    """For each bias the share of the first cell that is left after 0, 1 .. `steps` steps."""
    torch.manual_seed(seed)
    layer = keeper(len(BIASES), torch.tensor(BIASES)).double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "weight" in name:  # f is to be sigmoid(b) and nothing else; the other gates may see what they like
                parameter[len(BIASES) : 2 * len(BIASES)] = 0.0
        first = torch.ones(1, 1, len(BIASES), dtype=torch.float64)
        values = torch.randn(1, steps, 4, dtype=torch.float64)
        _, _, trace = layer(values, (torch.zeros_like(first), first), trace=True)
    cells = torch.cat((first[0], trace[0].cell[0]))  # (T + 1, H)
    return [column.tolist() for column in cells.unbind(1)]


def half_life(curve: list[float]) -> float:
    """The step at which half is left, between the two around it on a logarithmic scale; NaN where more is left.

    >>> half_life([1.0, 0.5, 0.25]), half_life([1.0, 0.9])
    (1.0, nan)
    """
    for step in range(1, len(curve)):
        if curve[step] <= 0.5:
            before, after = math.log(curve[step - 1]), math.log(curve[step])
            return step - 1 + (before - math.log(0.5)) / (before - after)
    return math.nan


def judge(bits: dict[str, dict[str, Any]], lives: dict[float, float], steps: int) -> tuple[bool | None, str]:
    """Holds where every variant keeps every bit; in part where only some do."""
    exact = [name for name, result in bits.items() if result["fast"] and result["reference"]]
    measured = {bias: life for bias, life in lives.items() if math.isfinite(life)}
    off = max(abs(life / predicted_half_life(bias) - 1) for bias, life in measured.items()) if measured else math.inf
    whole = f"{len(exact)} of {len(bits)} kinds of LSTM keep every bit of the cell over {steps:,} steps"
    limit = f"with the gate at sigmoid(b) the half-life is ln 2 / ln(1 + e^-b) to within {max(off, 0.001):.1%}"
    if len(exact) == len(bits) and off <= TOLERANCE:
        return True, f"{whole}; {limit}"
    if exact:
        return None, f"{whole} (not: {', '.join(name for name in bits if name not in exact) or 'none'}); {limit}"
    return False, f"{whole}; {limit}"


def run(settings: Settings, progress: Progress) -> Findings:
    """Both: gates at their limits, and gates at sigmoid(b)."""
    (steps,) = settings.resolve(SIZES)
    bits = kept_bits(steps, settings.seed)
    progress(0.5, "gates at 1 and 0")
    curves = share_kept(steps, settings.seed)
    lives = {bias: half_life(curve) for bias, curve in zip(BIASES, curves, strict=True)}
    holds, verdict = judge(bits, lives, steps)
    rows: list[list[Any]] = [
        [
            f"sigmoid({bias:g})",
            f"{1 / (1 + math.exp(-bias)):.6f}",
            predicted_half_life(bias),
            lives[bias],
            curve[-1],
            "",
        ]
        for bias, curve in zip(BIASES, curves, strict=True)
    ]
    for name, result in bits.items():
        exact = result["fast"] and result["reference"]
        rows.append(
            [f"1, {name}", "1", "forever", "-", 1.0, "equal" if exact else f"off {result['largest_change']:.1e}"]
        )
    marks = sorted({round(10 ** (power / 20)) for power in range(int(20 * math.log10(steps)) + 1)} | {steps})
    series = [
        Series(f"b = {bias:g}", marks, [curve[mark] if curve[mark] > 1e-9 else math.nan for mark in marks])
        for bias, curve in zip(BIASES, curves, strict=True)
    ]
    series.append(Series("f = 1", marks, [1.0] * len(marks), dashed=True))
    lines = Lines(
        "", "steps", "share of the cell that is left", series, log_x=True, ordered=True, dots=False, y_limits=(0, 1.05)
    )
    note = "Input gate 0, forget gate sigmoid(b); random inputs at every step."
    return Findings(
        ["forget gate", "f", "half-life, predicted", "half-life, measured", f"left after {steps:,}", "bits"],
        rows,
        holds,
        verdict,
        Figure("How long an LSTM's cell keeps what it holds", [lines], note),
        {"steps": steps, "bits": bits, "half_lives": lives, "left": [curve[-1] for curve in curves]},
    )


EXPERIMENT = Experiment(
    name="cell-memory",
    statement="A forget gate at 1 with an input gate at 0 keeps the cell of an LSTM for ever.",
    shows="how long the cell of an LSTM keeps what it holds, at every setting of the forget gate",
    run=run,
    parts=(
        Part(
            "arithmetic",
            "f = 1 and i = 0 give C_t = C_{t-1}; with f = sigmoid(b) it halves in ln 2 / ln(1 + e^-b) steps",
        ),
        Part("empirical", "harken's kernels keep every bit of it, in every kind of LSTM"),
    ),
    sizes=SIZES,
)
