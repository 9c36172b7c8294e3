"""Helpers of experiments: small tasks of random numbers, a short training loop, and laws of growth.

    recall      a symbol, then distractors; which symbol was it? (after Hochreiter and Schmidhuber, 1997)
    adding      two of many numbers are marked; what is their sum? (the same)
    echo        repeat, at every step, the symbol of some steps ago

Training is AdamW with clipped gradients and the "linear" schedule of `harken.training.optimizers`, so that a network is
trained as by a recipe, without what a long run needs (validation, checkpoints, averages, processes).

>>> values, answers = recall(2, 3, 8, torch.Generator().manual_seed(1))
>>> values.shape, answers.shape  # the symbol, three distractors, the question
(torch.Size([2, 5, 17]), torch.Size([2]))
>>> model = nn.Linear(1, 1)
>>> losses = learn(model, lambda step: (model(torch.ones(1, 1)) - 3).square().mean(), steps=200, rate=0.1)
>>> losses[-1] < 0.01 < losses[0]
True
>>> lengths = [8, 16, 32]
>>> round(exponent(lengths, [3 * n**2 for n in lengths]), 6)
2.0
>>> round(crossing(lengths, [n**2 for n in lengths], [20 * n for n in lengths]), 6)
20.0
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from harken.training.optimizers import clip_by_global_norm, factor


def recall(rows: int, delay: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One-hot steps (B, delay + 2, 2 x symbols + 1) and which symbol came first (B,)."""
    target = torch.randint(symbols, (rows, 1), generator=generator)
    between = torch.randint(symbols, 2 * symbols, (rows, delay), generator=generator)
    question = torch.full((rows, 1), 2 * symbols)
    steps = torch.cat((target, between, question), 1)
    return one_hot(steps, 2 * symbols + 1).float(), target[:, 0]


def adding(rows: int, time: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Numbers in 0..1 with marks (B, T, 2), one mark in each half, and the sum of the marked (B, 1)."""
    numbers = torch.rand(rows, time, generator=generator)
    first = torch.randint(time // 2, (rows, 1), generator=generator)
    second = torch.randint(time // 2, time, (rows, 1), generator=generator)
    marks = torch.zeros(rows, time).scatter_(1, first, 1.0).scatter_(1, second, 1.0)
    return torch.stack((numbers, marks), -1), (numbers * marks).sum(1, keepdim=True)


def echo(rows: int, time: int, delay: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One-hot symbols (B, T, symbols) and the symbol `delay` steps before each step from there on (B, T - delay)."""
    steps = torch.randint(symbols, (rows, time), generator=generator)
    return one_hot(steps, symbols).float(), steps[:, : time - delay]


def learn(
    model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float, warmup: int = 50, clip: float = 1.0
) -> list[float]:
    """Train for `steps` updates on `loss(step)`, the mean over a batch drawn for that step; returns the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)

    def scheduled(step: int) -> Tensor:
        for group in optimizer.param_groups:
            group["lr"] = rate * factor("linear", step, step / steps, min(warmup, steps // 4), 1.0)
        return loss(step)

    return [value for value, _ in updates(optimizer, scheduled, steps, clip)]


def updates(
    optimizer: torch.optim.Optimizer, loss: Callable[[int], Tensor], steps: int, clip: float = 1.0
) -> Iterator[tuple[float, float]]:
    """Train on `loss(step)`; gives after each update its loss and the norm of its gradient before clipping."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for step in range(1, steps + 1):
        value = loss(step)
        optimizer.zero_grad()
        value.backward()
        norm = clip_by_global_norm(parameters, clip)
        optimizer.step()
        yield value.item(), norm.item()


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    values = list(values)
    return sum(values) / len(values)


def parameters(model: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the least-squares line on logarithmic axes."""
    across, up = [math.log(value) for value in x], [math.log(value) for value in y]
    middle, level = sum(across) / len(across), sum(up) / len(up)
    spread = sum((value - middle) ** 2 for value in across)
    return sum((a - middle) * (u - level) for a, u in zip(across, up, strict=True)) / spread


def crossing(x: Sequence[float], first: Sequence[float], second: Sequence[float]) -> float | None:
    """Where `first` last rises above `second`, interpolated on logarithmic axes; None where it does not.

    >>> crossing([1, 2], [5, 6], [1, 1]) is None  # above from the start
    True
    """
    gaps = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    for index in range(len(x) - 1, 0, -1):
        if gaps[index - 1] <= 0 < gaps[index]:
            share = -gaps[index - 1] / (gaps[index] - gaps[index - 1])
            return math.exp(math.log(x[index - 1]) + share * math.log(x[index] / x[index - 1]))
    return None


def seconds(work: Callable[[], object], budget: float, least: int = 3) -> float:
    """CPU time of the fastest of several calls on one thread, `budget` seconds in all.

    Time in which other processes had the core does not count, though their use of the caches may.
    """
    spent: list[float] = []
    while len(spent) < least or sum(spent) < budget:
        before = time.thread_time()
        work()
        spent.append(time.thread_time() - before)
    return min(spent)
