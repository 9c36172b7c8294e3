# mypy: allow-untyped-defs, allow-incomplete-defs
"""The steps of both kernels on the tiles (BB, BH) of a program: where they lie, and the pointwise equations.

KIND names the cell: "rnn_tanh", "rnn_relu", "rnn_sigmoid", "lstm", "coupled", "gru" (reset after), "gru_before". The
equations are computed in float32. Shapes are those of `forward.py`.
References: the `step` methods in `harken.nn.recurrent.rnn`, `lstm` and `gru`.
"""

from __future__ import annotations

from harken.kernels.recurrent.triton.product import avoid_sentinel
from harken.kernels.triton_import import tl, triton


@triton.jit
def zoneout(old, new, stay, zone, offset, mask, ZONE: tl.constexpr):
    """Zoneout: 0 none, 1 by its mean, 2 by the masks that were drawn."""
    if ZONE == 0:
        return new
    elif ZONE == 1:
        return new + zone * (old - new)
    else:
        return tl.where(tl.load(stay + offset, mask=mask, other=0) != 0, old, new)


@triton.jit
def offsets(step, row, length, direction, B, H: tl.constexpr, unit, D: tl.constexpr, REVERSE: tl.constexpr):
    """Where (BB, BH) a step of each row lies in (T, B, D, H), and where (BB,) the row begins."""
    if D == 2:
        time = tl.where(direction == 1, length - 1 - step, step)
    elif REVERSE:
        time = length - 1 - step
    else:
        time = step + tl.zeros_like(length)
    time = tl.maximum(time, 0).to(tl.int64)
    start = ((time * B + row) * D + direction) * H
    return start[:, None] + unit[None, :], start


@triton.jit
def clear(target, GATES: tl.constexpr, row, length, direction, T, B, H: tl.constexpr, unit, inside, D: tl.constexpr):
    """Write 0 where a row of (T, B, D, gates, H) has no step."""
    time = tl.min(tl.where(row < B, length, T), 0)
    while time < T:
        start = ((time.to(tl.int64) * B + row) * D + direction) * H * GATES
        offset = target + start[:, None] + unit[None, :]
        for gate in tl.static_range(GATES):
            zero = tl.zeros(inside.shape, target.dtype.element_ty)
            tl.store(offset + gate * H, zero, mask=inside & (time >= length)[:, None])
        time += 1


@triton.jit
def peepholes(extra, direction, unit, H: tl.constexpr, KIND: tl.constexpr, EXTRA: tl.constexpr):
    """The weights (1, BH) through which i, f and o see the cell; 0 where they do not. GRU: the bias comes first."""
    zero = (unit * 0).to(tl.float32)[None, :]
    first, second, third = zero, zero, zero
    if EXTRA:
        if KIND == "gru":
            first = tl.load(extra + direction * H + unit, mask=unit < H, other=0.0).to(tl.float32)[None, :]
        elif KIND == "coupled":
            own = extra + direction * 2 * H + unit
            second = tl.load(own, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            third = tl.load(own + H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
        else:
            own = extra + direction * 3 * H + unit
            first = tl.load(own, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            second = tl.load(own + H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            third = tl.load(own + 2 * H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
    return first, second, third


@triton.jit
def gates_of(source, start, unit, mask, H: tl.constexpr, GATES: tl.constexpr):
    """Up to four gates (BB, BH) of (T, B, D, gates, H), as they lie there."""
    offset = source + (start * GATES)[:, None] + unit[None, :]
    first = tl.load(offset, mask=mask, other=0.0)
    second, third, fourth = first, first, first
    if GATES >= 2:
        second = tl.load(offset + H, mask=mask, other=0.0)
    if GATES >= 3:
        third = tl.load(offset + 2 * H, mask=mask, other=0.0)
    if GATES >= 4:
        fourth = tl.load(offset + 3 * H, mask=mask, other=0.0)
    return first, second, third, fourth


@triton.jit
def keep_gates(
    target, start, unit, mask, H: tl.constexpr, gates, COUNT: tl.constexpr, GATES: tl.constexpr, WAITED: tl.constexpr
):
    """Store the first COUNT of `gates` where `gates_of` reads them; WAITED: a value that is the sentinel is changed."""
    offset = target + (start * GATES)[:, None] + unit[None, :]
    for gate in tl.static_range(COUNT):
        value = avoid_sentinel(gates[gate], target) if WAITED else gates[gate].to(target.dtype.element_ty)
        tl.store(offset + gate * H, value, mask=mask)


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
def lstm_forward(
    input_gate, forget, candidate, output_gate, cell, peep_input, peep_forget, peep_output, KIND: tl.constexpr
):
    """Pre-activations of the gates (coupled: `input_gate` is not read), the old C -> the gates, C, h."""
    forget = sigmoid(forget + peep_forget * cell)
    if KIND == "coupled":
        input_gate = 1.0 - forget
    else:
        input_gate = sigmoid(input_gate + peep_input * cell)
    candidate = tanh(candidate)
    cell = forget * cell + input_gate * candidate
    output_gate = sigmoid(output_gate + peep_output * cell)
    return input_gate, forget, candidate, output_gate, cell, output_gate * tanh(cell)


@triton.jit
def lstm_backward(
    d_output_gate, d_after, input_gate, forget, candidate, cell, peep_input, peep_forget, peep_output,
    KIND: tl.constexpr,
):  # fmt: skip
    """Gradients of what goes into o, and of the new C; the gates and the old C -> of (i,) f and g, and of the old C."""
    d_after = d_after + d_output_gate * peep_output
    d_candidate = d_after * input_gate * (1.0 - candidate * candidate)
    if KIND == "coupled":
        d_forget = d_after * (cell - candidate) * forget * (1.0 - forget)
        d_input_gate = tl.zeros_like(d_forget)
    else:
        d_forget = d_after * cell * forget * (1.0 - forget)
        d_input_gate = d_after * candidate * input_gate * (1.0 - input_gate)
    return d_input_gate, d_forget, d_candidate, d_after * forget + d_input_gate * peep_input + d_forget * peep_forget
