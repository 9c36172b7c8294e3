"""A GRU does about as well as an LSTM with fewer parameters, and converges faster.

A GRU has three blocks of weights where an LSTM has four: 3 (m n + n^2 + n) to 4 (m n + n^2 + n) with one bias each.
Three tasks: echo (the symbol of eight steps before), adding (two marked numbers of thirty) and language (the next word
of English sentences from the phrasebook). Every network gets the same updates, rate and batches. The GRU is measured
with the LSTM's width and with the LSTM's parameters; the rule asks about equal width, where it has fewer.

*About as well* on a task: the loss at the end is at most TOLERANCE above the LSTM's, or both are below the task's
target. *Faster*: at least MARGIN fewer updates until the loss, averaged over LAST updates, is below the target. Both
compare medians over seeds; five, because with three one unlucky run of `adding`, which has a plateau of random
length, decides the median.

A target is a share of the loss of the best guess that ignores the input: ln 4 for echo, 1/6 (the variance of the sum)
for adding, the entropy of single words for language. Echo and adding can be solved, so their targets are near 0: 7 %
and 6 %. Sentences have an entropy of their own that no network gets below, so theirs is 70 %, which both networks reach
in the given updates: a target that one never reaches would compare nothing. Cho et al. (2014), Chung et al. (2014).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from harken.data.synthetic.phrasebook import generate
from harken.inspection.figure import Figure, Lines, Mark, Panel, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, Sizes, grade
from harken.lab.helpers import adding, echo, mean, parameters, updates
from harken.lab.pool import sweep
from harken.nn import GRU, LSTM

RATE, ROWS, LAST = 5e-3, 32, 20
TOLERANCE = 0.1  # "about as well": the loss at the end is at most this share higher
MARGIN = 0.05  # "faster": at least this share fewer updates
TARGETS = {"echo": 0.07, "adding": 0.06, "language": 0.7}  # shares of the loss of a guess that ignores the input
SIZES: Sizes = {"seeds": (5, 1), "width": (64, 64), "updates": (600, 4), "sentences": (6000, 60)}
KINDS = ("LSTM", "GRU, equal width", "GRU, equal size")
PADDING = -1


@dataclass(frozen=True)
class Task:
    """A task to learn: `batch(generator)` gives inputs (B, T, inputs), or word ids (B, T), and answers."""

    inputs: int  # width of a step; words: of the embedding
    outputs: int
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]  # of all outputs (B, T, outputs) against the answers
    target: float  # a loss to reach
    updates: int
    words: int = 0  # size of the vocabulary where steps are words


class Network(nn.Module):
    """One recurrent layer between an embedding, where there are words, and a linear map."""

    def __init__(self, kind: str, width: int, task: Task) -> None:
        super().__init__()
        self.embedding = nn.Embedding(task.words, task.inputs) if task.words else nn.Identity()
        self.layer = (LSTM if kind == "LSTM" else GRU)(task.inputs, width, batch_first=True, orthogonal=True)
        self.readout = nn.Linear(width, task.outputs)

    def forward(self, values: Tensor) -> Tensor:
        """-> (B, T, outputs)."""
        output: Tensor = self.readout(self.layer(self.embedding(values))[0])
        return output


def tasks(updates: int, count: int, seed: int) -> dict[str, Task]:
    """The three, with a vocabulary of `count` sentences; `updates` are those of echo."""
    sentences = [["<", *pair.source.split(), ">"] for pair in islice(generate(seed=seed), count)]
    words = {word: index for index, word in enumerate(sorted({word for line in sentences for word in line}))}
    lines = [torch.tensor([words[word] for word in line]) for line in sentences]

    def language(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(lines), (ROWS,), generator=generator).tolist()
        rows = nn.utils.rnn.pad_sequence([lines[at] for at in chosen], batch_first=True, padding_value=PADDING)
        return rows[:, :-1].clamp_min(0), rows[:, 1:]  # nothing flows backwards, so padding at the end is harmless

    def classes(skip: int) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda logits, words: cross_entropy(
            logits[:, skip:].flatten(0, 1), words.flatten(), ignore_index=PADDING
        )

    counts = Counter(word for line in sentences for word in line[1:])
    entropy = -sum(count / counts.total() * math.log(count / counts.total()) for count in counts.values())
    targets = {"echo": TARGETS["echo"] * math.log(4), "adding": TARGETS["adding"] / 6}
    targets["language"] = TARGETS["language"] * entropy
    return {
        "echo": Task(4, 4, lambda g: echo(ROWS, 30, 8, 4, g), classes(8), targets["echo"], updates),
        "adding": Task(
            2,
            1,
            lambda g: adding(ROWS, 30, g),
            lambda output, sums: mse_loss(output[:, -1], sums),
            targets["adding"],
            updates * 4 // 3,
        ),
        "language": Task(
            64, len(words), language, classes(0), targets["language"], max(updates * 2 // 3, 1), len(words)
        ),
    }


def equal_size(inputs: int, width: int) -> int:
    """The width at which a GRU has as many parameters as an LSTM of `width` (two biases each).

    >>> equal_size(64, 64)
    77
    """
    size = 4 * width * (inputs + width + 2)
    return min(range(width, 2 * width), key=lambda wide: abs(3 * wide * (inputs + wide + 2) - size))


def train(task: Task, kind: str, width: int, seed: int) -> dict[str, Any]:
    """The loss of every update and the size of the recurrent layer."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = Network(kind, equal_size(task.inputs, width) if "size" in kind else width, task)

    def loss(step: int) -> Tensor:
        values, answers = task.batch(generator)
        return task.loss(network(values), answers)

    losses = [value for value, _ in updates(torch.optim.Adam(network.parameters(), RATE), loss, task.updates)]
    return {"losses": losses, "parameters": parameters(network.layer)}


def smooth(losses: list[float]) -> list[float]:
    """The mean of the last LAST at every update."""
    return [mean(losses[max(0, at - LAST + 1) : at + 1]) for at in range(len(losses))]


def updates_to(target: float, losses: list[float]) -> float:
    """The first update at which the smooth loss is below the target; infinite where it never is.

    >>> updates_to(0.5, [1.0, 0.5, 0.0, 0.0]), updates_to(0.5, [1.0])
    (4, inf)
    """
    return next((at + 1 for at, loss in enumerate(smooth(losses)) if loss < target), math.inf)


def judge(
    sizes: dict[str, int],
    ends: dict[str, dict[str, float]],
    needed: dict[str, dict[str, float]],
    targets: dict[str, float],
) -> tuple[bool | None, str]:
    """Kind -> parameters; task -> kind -> loss at the end, and updates to the target; task -> target."""
    lstm, gru = KINDS[:2]
    fewer = sizes[gru] < sizes[lstm]
    as_well = [
        task
        for task, end in ends.items()
        if end[gru] <= end[lstm] * (1 + TOLERANCE) or max(end[gru], end[lstm]) < targets[task]
    ]
    faster = [
        task for task, steps in needed.items() if math.isfinite(steps[gru]) and steps[gru] <= (1 - MARGIN) * steps[lstm]
    ]
    paces = ", ".join(f"{task} {_count(steps[gru])} to {_count(steps[lstm])}" for task, steps in needed.items())
    verdict = (
        f"with {sizes[gru] / sizes[lstm]:.0%} of the parameters a GRU does about as well on {len(as_well)} of "
        f"{len(ends)} tasks and needs fewer updates on {len(faster)} ({paces})"
    )
    return grade(
        fewer and len(as_well) == len(faster) == len(ends),
        fewer and (len(as_well) == len(ends) or len(faster) == len(ends)),
    ), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Every task, kind and seed."""
    seeds, width, steps, count = settings.resolve(SIZES)
    todo = tasks(steps, count, settings.seed)
    runs = sweep(
        lambda task, kind, seed: train(todo[task], kind, width, seed),
        product(reversed(todo), reversed(KINDS)),
        settings,
        progress,
        seeds,
    )
    curves = {variant: [smooth(run["losses"]) for run in results] for variant, results in runs.items()}
    ends = {task: {kind: median(curve[-1] for curve in curves[task, kind]) for kind in KINDS} for task in todo}
    reached = {
        task: {kind: [updates_to(todo[task].target, run["losses"]) for run in runs[task, kind]] for kind in KINDS}
        for task in todo
    }
    needed = {task: {kind: float(median(reached[task][kind])) for kind in KINDS} for task in todo}
    sizes = {kind: runs["language", kind][0]["parameters"] for kind in KINDS}
    targets = {name: task.target for name, task in todo.items()}
    holds, verdict = judge(sizes, ends, needed, targets)
    table: list[list[Any]] = [
        [task, kind, runs[task, kind][0]["parameters"], ends[task][kind], targets[task], _count(needed[task][kind])]
        for task, kind in product(todo, KINDS)
    ]
    panels: list[Panel] = []
    for name, task in todo.items():
        shown = range(0, task.updates, max(task.updates // 80, 1))
        panels.append(
            Lines(
                f"{name} ({'squared error' if name == 'adding' else 'cross-entropy'})",
                "update",
                "" if panels else "loss",
                [
                    Series.of_runs(
                        kind, [at + 1 for at in shown], [[curve[at] for at in shown] for curve in curves[name, kind]]
                    )
                    for kind in KINDS
                ],
                log_y=name != "language",
                dots=False,
                marks=[Mark(targets[name], "target")],
            )
        )
    note = f"Width {width}, Adam at {RATE:g}, {ROWS} rows a batch, {seeds} seeds: median, least and largest."
    return Findings(
        ["task", "network", "parameters", "loss at the end", "target", "updates to target"],
        table,
        holds,
        verdict,
        Figure("GRU and LSTM side by side", panels, note),
        {"ends": ends, "updates_to_target": reached, "parameters": sizes, "targets": targets},
    )


def _count(updates: float) -> str:
    return f"{updates:.0f}" if math.isfinite(updates) else "never"


EXPERIMENT = Experiment(
    name="gru",
    statement="A GRU does about as well as an LSTM with fewer parameters, and converges faster.",
    shows="how quickly and how well GRUs and LSTMs learn three tasks, at equal width and at equal size",
    run=run,
    parts=(
        Part("arithmetic", "at equal width a GRU has three quarters of the parameters of an LSTM"),
        Part("empirical", "it reaches about the same loss"),
        Part("empirical", "and it needs fewer updates"),
    ),
    sizes=SIZES,
)
