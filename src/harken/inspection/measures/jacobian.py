"""The effect of a step on small changes of the state: the largest singular value of dh_t/dh_{t-1}, and of many.

vanilla RNN   dh_t/dh_{t-1} = diag(sigma'(a_t)) W_hh
LSTM          three of them: "hidden" dh_t/dh_{t-1} with C_{t-1} held, "cell" dC_t/dC_{t-1} with h_{t-1} held (without
              peepholes diag(f_t)), and "state" of (h, C) together, which is what the chain rule multiplies

They are made from the cell's own definition, so every variant has them. States up to EXACT wide: the whole matrix, row
by row of the batch. Wider ones: vector products alone (Golub and Kahan, 1965). Growth is log |J_T ... J_1| / T, the
mean log-factor of the worst direction over the whole way, found the same way.

>>> from harken.nn import RNN
>>> layer = RNN(1, 1, bias=False, batch_first=True)
>>> _ = [torch.nn.init.constant_(weight, 0.5) for weight in layer.parameters()]
>>> trace = layer(torch.zeros(1, 9, 1), trace=True)[2]  # x = 0, so h stays 0, where tanh' is 1
>>> jacobians(trace[0]).largest["hidden"].ravel().tolist()
[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from harken.nn.recurrent.cell import State
from harken.nn.recurrent.trace import DirectionTrace, Recurrence

EXACT = 128  # states up to this width have their whole Jacobian written out
ROWS = 4  # of a batch, its longest, are looked at
LONGEST = 256  # steps, those nearest to the end, that growth goes through
ITERATIONS = 60
TOLERANCE = 1e-5  # relative change at which the iteration ends
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Jacobians:
    """Largest singular values of one layer in one direction."""

    steps: np.ndarray  # (K,) which steps t were looked at
    largest: dict[str, np.ndarray]  # "hidden" (and "cell", "state") -> (K, rows)
    growth: float  # log of the largest singular value of the product over `span` steps, divided by them
    span: int


@dataclass(frozen=True)
class Linear:
    """A step made straight: v -> J v and u -> J^T u, (rows, W) -> (rows, W)."""

    forward: Change
    backward: Change
    matrix: Tensor | None = None  # (rows, W, W)


def jacobians(trace: DirectionTrace, sampled: int = 8) -> Jacobians | None:
    """Singular values at `sampled` steps spread over the longest rows; None where there is no step to look at."""
    recurrence = trace.recurrence
    count = len(trace.layout.batch_sizes)
    if recurrence is None or count < 2:
        return None
    order = list(range(count - 2, -1, -1)) if recurrence.reverse else list(range(1, count))  # as the states follow
    rows = min(ROWS, trace.layout.batch_sizes[-1])
    spread = np.linspace(0, len(order) - 1, min(sampled, len(order))).round().astype(int)
    chosen = sorted({order[index] for index in spread})
    parts = len(recurrence.before[0])
    words = {"hidden": [0]} if parts == 1 else {"hidden": [0], "cell": [1], "state": [0, 1]}
    largest = {
        word: [_of_step(recurrence, step, rows, chosen_parts) for step in chosen]
        for word, chosen_parts in words.items()
    }
    path = order[-LONGEST:]
    steps = [straighten(*_function(recurrence, step, rows, range(parts))) for step in path]
    growth = float(log_norm(steps, _function(recurrence, path[0], rows, range(parts))[1]).mean()) / len(path)
    return Jacobians(np.array(chosen), {word: np.stack(values) for word, values in largest.items()}, growth, len(path))


def _of_step(recurrence: Recurrence, step: int, rows: int, parts: Sequence[int]) -> np.ndarray:
    function, state = _function(recurrence, step, rows, parts)
    straight = straighten(function, state)
    if straight.matrix is not None:
        return torch.linalg.matrix_norm(straight.matrix, 2).double().cpu().numpy()
    return log_norm([straight], state).exp().cpu().numpy()


def _function(recurrence: Recurrence, step: int, rows: int, parts: Sequence[int]) -> tuple[Change, Tensor]:
    """Step t as a function of some parts of the state, side by side (rows, W), and where it was."""
    before: State = tuple(part[:rows].detach() for part in recurrence.before[step])
    sizes = [before[part].shape[-1] for part in parts]

    def function(values: Tensor) -> Tensor:
        state = list(before)
        for part, value in zip(parts, values.split(sizes, -1), strict=True):
            state[part] = value
        after = recurrence.step(step, tuple(state))
        return torch.cat([after[part] for part in parts], -1)

    return function, torch.cat([before[part] for part in parts], -1)


def straighten(function: Change, state: Tensor) -> Linear:
    """The derivative of `function` (rows, W) -> (rows, W) at `state`; the rows know nothing of each other."""
    with torch.enable_grad():
        state = state.detach().requires_grad_()
        after = function(state)
        if state.shape[-1] <= EXACT:
            units = torch.eye(state.shape[-1], dtype=state.dtype, device=state.device)
            along = units[:, None].expand(-1, *state.shape)  # (W, rows, W): the same unit in every row
            matrix = torch.autograd.grad(after, state, along, is_grads_batched=True)[0].transpose(0, 1)
            return Linear(partial(_times, matrix), partial(_times, matrix.mT), matrix)  # (rows, W out, W in)
        nothing = torch.zeros_like(after, requires_grad=True)
        (pulled,) = torch.autograd.grad(after, state, nothing, create_graph=True)  # J^T u, which is linear in u
    return Linear(
        lambda change: torch.autograd.grad(pulled, nothing, change, retain_graph=True)[0],
        lambda change: torch.autograd.grad(after, state, change, retain_graph=True)[0],
    )


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


def log_norm(steps: Sequence[Linear], like: Tensor) -> Tensor:
    """log of the largest singular value of the product of all steps, (rows,): Golub-Kahan-Lanczos.

    Each step is divided by a number first, so that long products neither under- nor overflow.
    """
    vector = torch.randn(like.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(like)
    vector = vector / _length(vector)
    walk, scales = vector, []
    for step in steps:
        walk = step.forward(walk)
        scales.append(_length(walk))  # (rows, 1)
        walk = walk / scales[-1]

    def forward(change: Tensor) -> Tensor:
        for step, scale in zip(steps, scales, strict=True):
            change = step.forward(change / scale)
        return change

    def backward(change: Tensor) -> Tensor:
        for step, scale in zip(reversed(steps), reversed(scales), strict=True):
            change = step.backward(change / scale)
        return change

    largest = _lanczos(forward, backward, vector)
    return largest.log() + sum(scale[:, 0].double().log() for scale in scales)


def _lanczos(forward: Change, backward: Change, start: Tensor) -> Tensor:
    """The largest singular value of each row's matrix A, given A v and A^T u: that of a small bidiagonal matrix."""
    right: list[Tensor] = [start]  # v_1 ...
    left: list[Tensor] = []  # u_1 ...
    count = min(ITERATIONS, start.shape[-1])
    small = start.new_zeros(start.shape[0], count, count + 1)  # B, where A V = U B
    largest = start.new_zeros(start.shape[0])
    for index in range(count):
        side = _apart(forward(right[-1]), left)
        small[:, index, index] = _length(side)[:, 0]
        before, largest = largest, torch.linalg.matrix_norm(small[:, : index + 1, : index + 1], 2)
        if ((largest - before).abs() <= TOLERANCE * largest).all():
            break
        left.append(side / _length(side))
        below = _apart(backward(left[-1]), right)
        small[:, index, index + 1] = _length(below)[:, 0]
        right.append(below / _length(below))
    return largest.double()


def _apart(vector: Tensor, others: list[Tensor]) -> Tensor:
    """Remove from a vector its projections on all others; twice, as rounding leaves a little the first time."""
    for other in [*others, *others]:
        vector = vector - (vector * other).sum(-1, keepdim=True) * other
    return vector


def _length(vector: Tensor) -> Tensor:
    return vector.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(vector.dtype).tiny)
