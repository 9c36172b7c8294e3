"""The pointwise half of a GRU's step for `cpu_recurrent`, forward, and backward by hand.

The definition is `harken.nn.recurrent.gru.GRUCell.step`; arrays are as in `cpu_recurrent_lstm_gates`. With the reset
before the product a step is in two halves, because the candidate's product waits for the reset: `open` and `close`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.kernels.numba_math import ONE, compiled, sigmoid, tanh


@compiled
def gru_after_forward(
    gates: Any,  # (N, 3H): W x + b, then r, z, n
    product: Any,  # (rows, 3H): U h
    bias: Any,  # (H,): c, which the reset acts on
    before: Any,  # (N, H): the old h
    past: Any,  # (N, H), out: U h + c of the candidate
    after: Any,  # (N, H), out: the new h
    start: int,
    rows: int,
) -> None:
    """E6 as torch has it."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        summand, opened, reset, update = product[row], gates[at, : 2 * width], gates[at, :width], gates[at, width:]
        candidate, added, looks = gates[at, 2 * width :], product[row, 2 * width :], past[at]
        old, new = before[at], after[at]
        for unit in range(2 * width):
            opened[unit] = sigmoid(opened[unit] + summand[unit])
        for unit in range(width):
            looks[unit] = added[unit] + bias[unit]
        for unit in range(width):
            candidate[unit] = tanh(candidate[unit] + reset[unit] * looks[unit])
        for unit in range(width):
            new[unit] = candidate[unit] + update[unit] * (old[unit] - candidate[unit])


@compiled
def gru_after_backward(
    gates: Any,  # (N, 3H): r, z, n, then the gradients of what they see
    hidden_gradient: Any,  # (rows, H): of the new h, then of the old, but for what goes through U h
    past: Any,  # (N, H)
    before: Any,  # (N, H): the old h
    product_gradient: Any,  # (N, 3H), out: of U h (and, in its last third, of c)
    start: int,
    rows: int,
) -> None:
    """What `gru_after_forward` did, the other way round."""
    width = before.shape[1]
    inner = np.empty(width, gates.dtype)
    for row in range(rows):
        at = start + row
        reset, update, candidate = gates[at, :width], gates[at, width : 2 * width], gates[at, 2 * width :]
        through, through_candidate = product_gradient[at], product_gradient[at, 2 * width :]
        pull, old, looks = hidden_gradient[row], before[at], past[at]
        for unit in range(width):
            value = candidate[unit]
            inner[unit] = pull[unit] * (ONE - update[unit]) * (ONE - value * value)
        for unit in range(width):
            through_candidate[unit] = inner[unit] * reset[unit]
        for unit in range(width):
            reset[unit] = inner[unit] * looks[unit] * reset[unit] * (ONE - reset[unit])
        for unit in range(width):
            stays = pull[unit] * update[unit]
            update[unit] = stays * (old[unit] - candidate[unit]) * (ONE - update[unit])
            pull[unit] = stays
        for unit in range(width):
            candidate[unit] = inner[unit]
        for unit in range(2 * width):
            through[unit] = gates[at, unit]


@compiled
def gru_before_open(
    gates: Any,  # (N, 3H): W x + b, then r, z
    product: Any,  # (rows, 2H): U h of r and z
    seen: Any,  # (N, H): h as the products see it
    left: Any,  # (N, H), out: r * h
    start: int,
    rows: int,
) -> None:
    """E6 as Cho et al. (2014) have it: the gates."""
    width = seen.shape[1]
    for row in range(rows):
        at = start + row
        opened, summand, past, out = gates[at, : 2 * width], product[row], seen[at], left[at]
        for unit in range(2 * width):
            opened[unit] = sigmoid(opened[unit] + summand[unit])
        for unit in range(width):
            out[unit] = opened[unit] * past[unit]


@compiled
def gru_before_close(
    gates: Any,  # (N, 3H): n comes to r, z
    product: Any,  # (rows, H): U (r * h) of the candidate
    before: Any,  # (N, H): the old h
    after: Any,  # (N, H), out: the new h
    start: int,
    rows: int,
) -> None:
    """The candidate and the new h."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        update, candidate, added = gates[at, width : 2 * width], gates[at, 2 * width :], product[row]
        old, new = before[at], after[at]
        for unit in range(width):
            candidate[unit] = tanh(candidate[unit] + added[unit])
        for unit in range(width):
            new[unit] = old[unit] + update[unit] * (candidate[unit] - old[unit])


@compiled
def gru_before_close_backward(
    gates: Any,  # (N, 3H): r, z, n, then of z and n the gradients
    hidden_gradient: Any,  # (rows, H): of the new h, then of the old, but for what goes through products
    before: Any,  # (N, H): the old h
    inner: Any,  # (rows, H), out: the gradient of n once more
    start: int,
    rows: int,
) -> None:
    """What `gru_before_close` did, the other way round."""
    width = before.shape[1]
    for row in range(rows):
        at = start + row
        update, candidate, out = gates[at, width : 2 * width], gates[at, 2 * width :], inner[row]
        pull, old = hidden_gradient[row], before[at]
        for unit in range(width):
            value = candidate[unit]
            out[unit] = pull[unit] * update[unit] * (ONE - value * value)
        for unit in range(width):
            push, share = pull[unit], update[unit]
            update[unit] = push * (candidate[unit] - old[unit]) * share * (ONE - share)
            pull[unit] = push * (ONE - share)
        for unit in range(width):
            candidate[unit] = out[unit]


@compiled
def gru_before_open_backward(
    gates: Any,  # (N, 3H): r, then its gradient, beside those of z and n
    left_gradient: Any,  # (rows, H): of r * h, then of h as r let it through
    seen: Any,  # (N, H)
    both: Any,  # (rows, 2H), out: the gradients of r and z once more
    start: int,
    rows: int,
) -> None:
    """What `gru_before_open` did, the other way round."""
    width = seen.shape[1]
    for row in range(rows):
        at = start + row
        reset, pull, past, out = gates[at, :width], left_gradient[row], seen[at], both[row]
        for unit in range(width):
            through = pull[unit] * reset[unit]
            reset[unit] = through * past[unit] * (ONE - reset[unit])
            pull[unit] = through
        for unit in range(2 * width):
            out[unit] = gates[at, unit]
