"""The pointwise half of a vanilla RNN's step for `cpu_recurrent`, forward, and backward by hand.

The definition is `harken.nn.recurrent.rnn.RNNCell.step`; arrays are as in `cpu_recurrent_lstm_gates`.
"""

from __future__ import annotations

from typing import Any

from harken.kernels.numba_math import ONE, compiled, sigmoid, tanh

KINDS = {"tanh": 0, "relu": 1, "sigmoid": 2}


@compiled
def rnn_forward(gates: Any, product: Any, after: Any, start: int, rows: int, kind: int) -> None:
    """`gates` (N, H) from W x + b to the new h, which also goes to `after` (N, H); `product` (rows, H) is U h."""
    for row in range(rows):
        value, summand, new = gates[start + row], product[row], after[start + row]
        if kind == 0:
            for unit in range(len(value)):
                value[unit] = tanh(value[unit] + summand[unit])
        elif kind == 1:
            for unit in range(len(value)):
                look = value[unit] + summand[unit]
                value[unit] = look * 0 if look < 0 else look
        else:
            for unit in range(len(value)):
                value[unit] = sigmoid(value[unit] + summand[unit])
        for unit in range(len(value)):
            new[unit] = value[unit]


@compiled
def rnn_backward(gates: Any, hidden_gradient: Any, start: int, rows: int, kind: int) -> None:
    """`gates` (N, H) from the new h to the gradient of what it sees; `hidden_gradient` (rows, H) is that of h."""
    for row in range(rows):
        value, pull = gates[start + row], hidden_gradient[row]
        if kind == 0:
            for unit in range(len(value)):
                value[unit] = pull[unit] * (ONE - value[unit] * value[unit])
        elif kind == 1:
            for unit in range(len(value)):
                value[unit] = pull[unit] if value[unit] > 0 else pull[unit] * 0
        else:
            for unit in range(len(value)):
                value[unit] = pull[unit] * value[unit] * (ONE - value[unit])
