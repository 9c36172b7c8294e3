"""Residual, highway and dense connections make deep stacks trainable (`harken.nn.recurrent.connections`).

plain  f(x)     residual  x + f(x)     highway  t f(x) + (1 - t) x     dense  f([x_0; f_1; f_2; ...])

Stacks of 2 to 16 recurrent layers learn to echo the symbol of four steps before, all with the same updates. The rule
looks at what depth does: the claim holds where the deepest plain stack ends with a higher loss than the shallowest, and
with each of the connections the deepest ends no higher than the shallowest. He et al. (2016), Srivastava et al. (2015),
Huang et al. (2017); in recurrent translators Wu et al. (2016).

The table also has what is left of the signal at the top of the deepest stack before training: how much the output
differs from one sequence to the next, over how much the first layer does.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Progress, Settings
from harken.lab.helpers import echo
from harken.lab.pool import spread
from harken.nn import LSTM, RNN

SYMBOLS, DELAY, TIME, HIDDEN, RATE = 8, 4, 16, 32, 2e-3
CHANCE = math.log(SYMBOLS)
LAST = 25  # the end of a run is the mean of this many updates
HURTS, HELPS = 1.2, 1.0  # the deepest loss over the shallowest: above, depth hurts; at most that, it does no harm
DEPTHS = (2, 4, 8, 16)
KINDS = ("plain", "residual", "highway", "dense")
CELLS: dict[str, type[LSTM] | type[RNN]] = {"LSTM": LSTM, "vanilla RNN": RNN}


def make_stack(cell: str, kind: str, depth: int) -> LSTM | RNN:
    """A stack that reads symbols."""
    return CELLS[cell](
        SYMBOLS, HIDDEN, depth, batch_first=True, orthogonal=True, connections=None if kind == "plain" else kind
    )


def train(cell: str, kind: str, depth: int, updates: int, seed: int) -> dict[str, Any]:
    """The loss at the end and the number of parameters."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    stack, readout = make_stack(cell, kind, depth), nn.Linear(HIDDEN, SYMBOLS)
    parameters = [*stack.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, RATE)
    losses = []
    for _ in range(updates):
        values, answers = echo(32, TIME, DELAY, SYMBOLS, generator)
        output, _ = stack(values)
        loss = cross_entropy(readout(output[:, DELAY:]).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    size = sum(parameter.numel() for parameter in stack.parameters())
    return {"loss": sum(losses[-LAST:]) / len(losses[-LAST:]), "parameters": size}


def signal_at_the_top(cell: str, kind: str, depth: int, seed: int) -> float:
    """Before training: how much the output differs between sequences, over how much the first layer does."""
    torch.manual_seed(seed)
    stack = make_stack(cell, kind, depth)
    values, _ = echo(64, TIME, DELAY, SYMBOLS, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        output, _, trace = stack(values, trace=True)
    return float(output[:, -1].std(0).mean() / trace[0].hidden[:, -1].std(0).mean())


def judge(losses: dict[str, dict[str, dict[int, float]]]) -> tuple[bool | None, str]:
    """Cell -> connection -> depth -> loss at the end."""
    said, agrees = [], []
    for cell, by_kind in losses.items():
        change = {kind: found[max(found)] / found[min(found)] for kind, found in by_kind.items()}
        shallow, deep = min(by_kind["plain"]), max(by_kind["plain"])
        hurts = change["plain"] > HURTS
        helps = [kind for kind in change if kind != "plain" and change[kind] <= HELPS]
        agrees.append((hurts, len(helps) == len(change) - 1))
        ends = ", ".join(f"{kind} {found[shallow]:.2g} to {found[deep]:.2g}" for kind, found in by_kind.items())
        said.append(f"{cell} from {shallow} to {deep} layers: {ends}")
    verdict = f"loss at the end ({'; '.join(said)})"
    if all(hurts and helps for hurts, helps in agrees):
        return True, verdict
    return (None if any(hurts and helps for hurts, helps in agrees) else False), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Every cell, connection and depth."""
    depths, updates, seeds = ((2, 3), 3, 1) if settings.quick else (DEPTHS, 200, 3)
    jobs = [
        (cell, kind, depth, settings.seed + n)
        for depth in reversed(depths)
        for kind in reversed(KINDS)
        for cell in CELLS
        for n in range(seeds)
    ]
    found = spread(
        lambda job: train(*job[:3], updates, job[3]),
        jobs,
        progress,
        lambda job: f"{job[0]}, {job[1]}, {job[2]} layers, seed {job[3]}",
    )

    def of(cell: str, kind: str, depth: int, what: str) -> list[float]:
        return [one[what] for job, one in zip(jobs, found, strict=True) if job[:3] == (cell, kind, depth)]

    ends = {cell: {kind: {d: of(cell, kind, d, "loss") for d in depths} for kind in KINDS} for cell in CELLS}
    middle = {
        cell: {kind: {d: median(losses) for d, losses in by_depth.items()} for kind, by_depth in by_kind.items()}
        for cell, by_kind in ends.items()
    }
    seeds_used = range(settings.seed, settings.seed + seeds)
    signal = {
        cell: {kind: median(signal_at_the_top(cell, kind, depths[-1], seed) for seed in seeds_used) for kind in KINDS}
        for cell in CELLS
    }
    holds, verdict = judge(middle)
    table: list[list[Any]] = [
        [
            cell,
            kind,
            *(middle[cell][kind][depth] for depth in depths),
            signal[cell][kind],
            int(of(cell, kind, depths[-1], "parameters")[0]),
        ]
        for cell in CELLS
        for kind in KINDS
    ]
    panels = [
        Lines(
            cell,
            "layers",
            "cross-entropy at the end",
            [
                Series(
                    kind,
                    list(depths),
                    [middle[cell][kind][depth] for depth in depths],
                    [min(ends[cell][kind][depth]) for depth in depths],
                    [max(ends[cell][kind][depth]) for depth in depths],
                )
                for kind in KINDS
            ],
            log_x=True,
            log_y=True,
            marks=[Mark(CHANCE, "chance")],
        )
        for cell in CELLS
    ]
    note = (
        f"Echo of {DELAY} steps, {HIDDEN} units a layer, {updates} updates of 32 sequences, {seeds} seeds: "
        "median, least and largest."
    )
    deepest = depths[-1]
    columns = ["cell", "connections", *(f"loss, {depth} layers" for depth in depths)]
    columns += [f"signal at the top of {deepest}", f"parameters, {deepest} layers"]
    figure = Figure("What depth does to a stack, by how its layers are joined", panels, note)
    measured = {"losses": ends, "signal_at_the_top": signal, "chance": CHANCE, "updates": updates}
    return Findings(columns, table, holds, verdict, figure, measured)


EXPERIMENT = Experiment(
    name="deep-stacks",
    statement="Residual, highway and dense connections make deep stacks trainable.",
    shows="what recurrent stacks of 2 to 16 layers learn, by how their layers are joined",
    run=run,
)
