# mypy: allow-untyped-defs, allow-incomplete-defs
"""The pointwise half of a step in a kernel: each cell's equations, forward and backward, on tiles (BB, BH) in float32.

KIND names the cell: "rnn_tanh", "rnn_relu", "rnn_sigmoid", "lstm", "coupled", "gru" (reset after), "gru_before".
Definitions: `harken.nn.recurrent.rnn`, `harken.nn.recurrent.lstm`, `harken.nn.recurrent.gru`.
"""

from __future__ import annotations

from harken.kernels.triton_import import tl, triton


@triton.jit
def sigmoid(values):
    return 1.0 / (1.0 + tl.exp(-values))


@triton.jit
def tanh(values):
    small = tl.exp(-2.0 * tl.abs(values))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(values < 0.0, -size, size)


@triton.jit
def rnn_forward(before, KIND: tl.constexpr):
    """W x + U h + b -> h."""
    if KIND == "rnn_tanh":
        return tanh(before)
    elif KIND == "rnn_relu":
        return tl.where(before <= 0.0, 0.0, before)  # a NaN stays one
    else:
        return sigmoid(before)


@triton.jit
def rnn_backward(gradient, hidden, KIND: tl.constexpr):
    """Gradient of h -> of what went into the nonlinearity."""
    if KIND == "rnn_tanh":
        return gradient * (1.0 - hidden * hidden)
    elif KIND == "rnn_relu":
        return tl.where(hidden > 0.0, gradient, 0.0)
    else:
        return gradient * hidden * (1.0 - hidden)


@triton.jit
def lstm_forward(write, forget, candidate, show, cell, peep_write, peep_forget, peep_show, KIND: tl.constexpr):
    """What goes into the gates (coupled: `write` is not looked at), the old C -> the gates, C, h."""
    forget = sigmoid(forget + peep_forget * cell)
    if KIND == "coupled":
        write = 1.0 - forget
    else:
        write = sigmoid(write + peep_write * cell)
    candidate = tanh(candidate)
    cell = forget * cell + write * candidate
    show = sigmoid(show + peep_show * cell)
    return write, forget, candidate, show, cell, show * tanh(cell)


@triton.jit
def lstm_backward(
    d_show, d_after, write, forget, candidate, cell, peep_write, peep_forget, peep_show, KIND: tl.constexpr
):
    """Gradients of what goes into o, and of the new C; the gates and the old C -> of (i,) f and g, and of the old C."""
    d_after = d_after + d_show * peep_show
    d_candidate = d_after * write * (1.0 - candidate * candidate)
    if KIND == "coupled":
        d_forget = d_after * (cell - candidate) * forget * (1.0 - forget)
        d_write = tl.zeros_like(d_forget)
    else:
        d_forget = d_after * cell * forget * (1.0 - forget)
        d_write = d_after * candidate * write * (1.0 - write)
    return d_write, d_forget, d_candidate, d_after * forget + d_write * peep_write + d_forget * peep_forget
