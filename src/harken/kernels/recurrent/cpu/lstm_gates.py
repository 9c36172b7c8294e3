"""The pointwise half of an LSTM's step for `cpu_recurrent`, forward, and backward by hand.

The definition is `harken.nn.recurrent.lstm.LSTMCell.step`. Arrays are C-contiguous. Those of N rows hold all steps of
a packed sequence and are used from row `start` on; those of one step have `rows` rows. Gates are changed in place:
from what the gate sees to its value, and on the way back to the gradient of what it sees. Each loop names few arrays,
because a compiler vectorises only where it can check that none of them overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.kernels.numba_math import ONE, compiled, sigmoid, tanh

BOTH, WRITE, SHOW = 0, 1, 2  # which half of a step: up to the new cell, from it on, or both


@compiled
def lstm_forward(
    gates: Any,  # (N, gates x H): W x + b, then the gates
    product: Any,  # (rows, gates x H): U h
    before: Any,  # (N, H): the old cell
    after: Any,  # (N, H), out: the new cell
    shown: Any,  # (N, H): the new cell as tanh sees it; no rows: as it is
    hidden: Any,  # (N, H), out: o * tanh(shown)
    peephole: Any,  # (gates - 1, H): weights of (i,) f, o; no rows: no diagonal peepholes
    start: int,
    rows: int,
    coupled: bool,
    half: int,
) -> None:
    """E2 with E4 (diagonal) and E5."""
    width = before.shape[1]
    early = width if coupled else 2 * width
    top = early + width
    for row in range(rows):
        at = start + row
        old, new, summand = before[at], after[at], product[row]
        if half != SHOW:
            opened = gates[at, :early]
            for looker in range(len(peephole) - 1):
                looks, weight = gates[at, looker * width : (looker + 1) * width], peephole[looker]
                for unit in range(width):
                    looks[unit] += weight[unit] * old[unit]
            for unit in range(early):
                opened[unit] = sigmoid(opened[unit] + summand[unit])
            candidate, added = gates[at, early:top], summand[early:top]
            for unit in range(width):
                candidate[unit] = tanh(candidate[unit] + added[unit])
            if coupled:
                for unit in range(width):
                    new[unit] = candidate[unit] + opened[unit] * (old[unit] - candidate[unit])
            else:
                forget = gates[at, width:early]
                for unit in range(width):
                    new[unit] = forget[unit] * old[unit] + opened[unit] * candidate[unit]
        if half != WRITE:
            show, added, out = gates[at, top:], summand[top:], hidden[at]
            if len(peephole) > 0:
                weight = peephole[-1]
                for unit in range(width):
                    show[unit] += weight[unit] * new[unit]
            for unit in range(width):
                show[unit] = sigmoid(show[unit] + added[unit])
            seen = shown[at] if len(shown) > 0 else new
            for unit in range(width):
                out[unit] = show[unit] * tanh(seen[unit])


@compiled
def lstm_backward(
    gates: Any,  # (N, gates x H): the gates, then their gradients
    hidden_gradient: Any,  # (rows, H): of o * tanh(shown)
    before: Any,  # (N, H): the old cell
    cell_gradient: Any,  # (rows, H): of the new cell, then of the old
    shown: Any,  # (N, H), or no rows
    shown_gradient: Any,  # (rows, H), out where `half` is SHOW: not yet in `cell_gradient`
    peephole: Any,  # (gates - 1, H), or no rows
    peephole_gradient: Any,  # as `peephole`, added to
    start: int,
    rows: int,
    coupled: bool,
    half: int,
) -> None:
    """What `lstm_forward` did, the other way round: SHOW comes before WRITE."""
    width = before.shape[1]
    early = width if coupled else 2 * width
    top = early + width
    made, bent = np.empty(width, gates.dtype), np.empty(width, gates.dtype)
    for row in range(rows):
        at = start + row
        old, pull = before[at], cell_gradient[row]
        first, forget, candidate = gates[at, :width], gates[at, early - width : early], gates[at, early:top]
        if half != WRITE:
            show, pulled = gates[at, top:], hidden_gradient[row]
            if coupled:
                for unit in range(width):
                    made[unit] = candidate[unit] + first[unit] * (old[unit] - candidate[unit])
            else:
                for unit in range(width):
                    made[unit] = forget[unit] * old[unit] + first[unit] * candidate[unit]
            seen = shown[at] if len(shown) > 0 else made
            for unit in range(width):
                bent[unit] = tanh(seen[unit])
            if half == SHOW:
                apart = shown_gradient[row]
                for unit in range(width):
                    apart[unit] = pulled[unit] * show[unit] * (ONE - bent[unit] * bent[unit])
            else:
                for unit in range(width):
                    pull[unit] += pulled[unit] * show[unit] * (ONE - bent[unit] * bent[unit])
            for unit in range(width):
                show[unit] = pulled[unit] * bent[unit] * show[unit] * (ONE - show[unit])
            if len(peephole) > 0:
                weight, gathered = peephole[-1], peephole_gradient[-1]
                for unit in range(width):
                    pull[unit] += show[unit] * weight[unit]
                for unit in range(width):
                    gathered[unit] += show[unit] * made[unit]
        if half != SHOW:
            if coupled:
                for unit in range(width):
                    made[unit] = pull[unit] * first[unit]
                    bent[unit] = (old[unit] - candidate[unit]) * first[unit]
                for unit in range(width):
                    value = candidate[unit]
                    candidate[unit] = (pull[unit] - made[unit]) * (ONE - value * value)
                for unit in range(width):
                    first[unit] = pull[unit] * bent[unit] * (ONE - first[unit])
            else:
                for unit in range(width):
                    write, value, push = first[unit], candidate[unit], pull[unit]
                    first[unit] = push * value * write * (ONE - write)
                    candidate[unit] = push * write * (ONE - value * value)
                for unit in range(width):
                    kept = pull[unit] * forget[unit]
                    made[unit] = kept
                    forget[unit] = kept * old[unit] * (ONE - forget[unit])
            for unit in range(width):
                pull[unit] = made[unit]
            for looker in range(len(peephole) - 1):
                looks = gates[at, looker * width : (looker + 1) * width]
                weight, gathered = peephole[looker], peephole_gradient[looker]
                for unit in range(width):
                    pull[unit] += looks[unit] * weight[unit]
                for unit in range(width):
                    gathered[unit] += looks[unit] * old[unit]
