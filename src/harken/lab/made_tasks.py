"""Tasks made of random numbers, for what a network can be asked to remember.

recall      a symbol, then distractors; which symbol was it? (Hochreiter and Schmidhuber, 1997, in its plainest form)
adding      two of many numbers are marked; what is their sum? (the same)
echo        say again, at every step, the symbol of some steps ago

>>> values, answers = recall(2, 3, 8, torch.Generator().manual_seed(1))
>>> values.shape, answers.shape  # the symbol, three distractors, the question
(torch.Size([2, 5, 17]), torch.Size([2]))
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def recall(rows: int, delay: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One-hot steps (B, delay + 2, 2 x symbols + 1) and which symbol came first (B,)."""
    wanted = torch.randint(symbols, (rows, 1), generator=generator)
    between = torch.randint(symbols, 2 * symbols, (rows, delay), generator=generator)
    question = torch.full((rows, 1), 2 * symbols)
    steps = torch.cat((wanted, between, question), 1)
    return one_hot(steps, 2 * symbols + 1).float(), wanted[:, 0]


def adding(rows: int, time: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Numbers in 0..1 beside marks (B, T, 2), one mark in each half, and the sum of the marked (B, 1)."""
    numbers = torch.rand(rows, time, generator=generator)
    first = torch.randint(time // 2, (rows, 1), generator=generator)
    second = torch.randint(time // 2, time, (rows, 1), generator=generator)
    marks = torch.zeros(rows, time).scatter_(1, first, 1.0).scatter_(1, second, 1.0)
    return torch.stack((numbers, marks), -1), (numbers * marks).sum(1, keepdim=True)


def echo(rows: int, time: int, delay: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One-hot symbols (B, T, symbols) and the symbol `delay` steps before each step from there on (B, T - delay)."""
    steps = torch.randint(symbols, (rows, time), generator=generator)
    return one_hot(steps, symbols).float(), steps[:, : time - delay]
