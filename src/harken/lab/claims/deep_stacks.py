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
from itertools import product
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import echo, mean, parameters, updates
from harken.lab.pool import sweep
from harken.nn import LSTM, RNN

SYMBOLS, DELAY, TIME, HIDDEN, RATE = 8, 4, 16, 32, 2e-3
CHANCE = math.log(SYMBOLS)
LAST = 25  # the end of a run is the mean of this many updates
HURTS, HELPS = 1.2, 1.0  # the deepest loss over the shallowest: above, depth hurts; at most that, it does no harm
SIZES: Sizes = {"updates": (200, 3), "seeds": (3, 1)}
DEPTHS = (2, 4, 8, 16)
KINDS = ("plain", "residual", "highway", "dense")
CELLS: dict[str, type[LSTM] | type[RNN]] = {"LSTM": LSTM, "vanilla RNN": RNN}


def make_stack(cell: str, kind: str, depth: int) -> LSTM | RNN:
    """A stack that reads symbols."""
    return CELLS[cell](
        SYMBOLS, HIDDEN, depth, batch_first=True, orthogonal=True, connections=None if kind == "plain" else kind
    )


def train(cell: str, kind: str, depth: int, steps: int, seed: int) -> dict[str, Any]:
    """The loss at the end and the number of parameters."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    stack, readout = make_stack(cell, kind, depth), nn.Linear(HIDDEN, SYMBOLS)

    def loss(step: int) -> Tensor:
        values, answers = echo(32, TIME, DELAY, SYMBOLS, generator)
        return cross_entropy(readout(stack(values)[0][:, DELAY:]).flatten(0, 1), answers.flatten())

    optimizer = torch.optim.Adam([*stack.parameters(), *readout.parameters()], RATE)
    losses = [value for value, _ in updates(optimizer, loss, steps)]
    return {"loss": mean(losses[-LAST:]), "parameters": parameters(stack)}


def signal_at_the_top(cell: str, kind: str, depth: int, seed: int) -> float:
    """Before training: how much the output differs between sequences, over how much the first layer does."""
    torch.manual_seed(seed)
    stack = make_stack(cell, kind, depth)
    values, _ = echo(64, TIME, DELAY, SYMBOLS, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        output, _, trace = stack(values, trace=True)
    return float(output[:, -1].std(0).mean() / trace[0].hidden[:, -1].std(0).mean())


def judge(by_cell: dict[str, dict[str, dict[int, float]]]) -> tuple[bool | None, str]:
    """Cell -> connection -> depth -> loss at the end."""
    summaries, agrees = [], []
    for cell, by_kind in by_cell.items():
        change = {kind: losses[max(losses)] / losses[min(losses)] for kind, losses in by_kind.items()}
        shallow, deep = min(by_kind["plain"]), max(by_kind["plain"])
        hurts = change["plain"] > HURTS
        helps = [kind for kind in change if kind != "plain" and change[kind] <= HELPS]
        agrees.append((hurts, len(helps) == len(change) - 1))
        ends = ", ".join(f"{kind} {losses[shallow]:.2g} to {losses[deep]:.2g}" for kind, losses in by_kind.items())
        summaries.append(f"{cell} from {shallow} to {deep} layers: {ends}")
    verdict = f"loss at the end ({'; '.join(summaries)})"
    return grade(all(map(all, agrees)), any(map(all, agrees))), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Every cell, connection and depth."""
    steps, seeds = settings.resolve(SIZES)
    depths = (2, 3) if settings.quick else DEPTHS
    runs = sweep(
        lambda depth, kind, cell, seed: train(cell, kind, depth, steps, seed),
        product(reversed(depths), reversed(KINDS), CELLS),
        settings,
        progress,
        seeds,
        lambda depth, kind, cell, seed: f"{cell}, {kind}, {depth} layers, seed {seed}",
    )
    ends = {
        cell: {kind: {depth: [run["loss"] for run in runs[depth, kind, cell]] for depth in depths} for kind in KINDS}
        for cell in CELLS
    }
    middle = {
        cell: {kind: {depth: median(losses) for depth, losses in ends[cell][kind].items()} for kind in KINDS}
        for cell in CELLS
    }
    deepest, seeds_used = depths[-1], range(settings.seed, settings.seed + seeds)
    signal = {
        cell: {kind: median(signal_at_the_top(cell, kind, deepest, seed) for seed in seeds_used) for kind in KINDS}
        for cell in CELLS
    }
    holds, verdict = judge(middle)
    table: list[list[Any]] = [
        [cell, kind, *middle[cell][kind].values(), signal[cell][kind], runs[deepest, kind, cell][0]["parameters"]]
        for cell, kind in product(CELLS, KINDS)
    ]
    panels = [
        Lines(
            cell,
            "layers",
            "cross-entropy at the end",
            [Series.of_runs(kind, list(depths), list(zip(*ends[cell][kind].values(), strict=True))) for kind in KINDS],
            log_x=True,
            log_y=True,
            marks=[Mark(CHANCE, "chance")],
        )
        for cell in CELLS
    ]
    note = (
        f"Echo of {DELAY} steps, {HIDDEN} units a layer, {steps} updates of 32 sequences, {seeds} seeds: "
        "median, least and largest."
    )
    columns = ["cell", "connections", *(f"loss, {depth} layers" for depth in depths)]
    return Findings(
        [*columns, f"signal at the top of {deepest}", f"parameters, {deepest} layers"],
        table,
        holds,
        verdict,
        Figure("What depth does to a stack, by how its layers are joined", panels, note),
        {"losses": ends, "signal_at_the_top": signal, "chance": CHANCE, "updates": steps},
    )


EXPERIMENT = Experiment(
    name="deep-stacks",
    statement="Residual, highway and dense connections make deep stacks trainable.",
    shows="what recurrent stacks of 2 to 16 layers learn, by how their layers are joined",
    run=run,
    parts=(
        Part("empirical", "depth hurts a plain stack"),
        Part("empirical", "residual, highway and dense stacks of 16 layers learn at least as well as of 2"),
    ),
    sizes=SIZES,
)
