"""The recurrent encoder of a stored translator in numpy: from token ids to what the compiled decoder starts from.

The reference is `harken.models.recurrent.encoder` with the bridge of `harken.models.recurrent.decoder`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from harken.kernels.decoding.description import Cell, Linear, Recurrent, RecurrentEncoder, RecurrentStack

Array = np.ndarray
LEAST_NORM = 1e-12  # of a key whose direction counts, as in torch


def start(model: Recurrent, source: Array, sizes: Array) -> tuple[Array, Array, Array | None, Array]:
    """Ids (B, S) of sources with these lengths (B,) -> the first states (L, P, B, H), the constant context or zeros
    (B, H), and with attention the keys (B, S, A) and the memory (B, S, H)."""
    encoder = model.encoder
    assert encoder is not None
    memory, last = encode(encoder, source, sizes)
    bridge, states = iter(model.bridge), []
    for depth, cell in enumerate(model.cells):
        parts = last[max(0, len(last) - len(model.cells) + depth)]
        chosen = (parts[min(part, len(parts) - 1)] for part in range(cell.parts))
        states.append([np.tanh(linear(part, next(bridge))) for part in chosen])
    feed = last[-1][0] if model.constant_context else np.zeros((len(source), model.width), np.float32)
    if model.score is None:
        return np.array(states), feed, None, memory
    keys = memory if model.keys is None else linear(memory, model.keys)
    if model.score == "cosine":
        keys = keys / np.maximum(np.sqrt((keys * keys).sum(-1, keepdims=True)), np.float32(LEAST_NORM))
    return np.array(states), feed, keys, memory


def encode(encoder: RecurrentEncoder, source: Array, sizes: Array) -> tuple[Array, list[list[Array]]]:
    """The memory (B, S, W), and the last state of each layer, parts (B, W)."""
    table: Any = encoder.embedding
    outputs, last = encode_stack(encoder.stack, table[source] * np.float32(encoder.scale), sizes)
    if encoder.join is None:
        return outputs, last
    return linear(outputs, encoder.join), [[linear(part, encoder.join) for part in parts] for parts in last]


def encode_stack(stack: RecurrentStack, inputs: Array, sizes: Array) -> tuple[Array, list[list[Array]]]:
    """Inputs (B, S, E) through all layers, with a cell for each direction: outputs (B, S, H), and the last states."""
    below, last, connections = [inputs], [], stack.connections
    for depth, cells in enumerate(stack.layers):
        dense = connections.kind == "dense" and len(below) > connections.first
        values = np.concatenate(below, -1) if dense else below[-1]
        directions = [run_cell(cell, values, sizes, backwards=number > 0) for number, cell in enumerate(cells)]
        outputs = np.concatenate([hidden for hidden, _ in directions], -1)
        last.append([np.concatenate(parts, -1) for parts in zip(*(state for _, state in directions), strict=True)])
        if depth >= connections.first and connections.kind == "residual":
            outputs = below[-1] + outputs
        elif depth >= connections.first and connections.kind == "highway":
            gate = sigmoid(linear(below[-1], connections.gates[depth - connections.first]))
            outputs = below[-1] + gate * (outputs - below[-1])
        below.append(outputs)
    return below[-1], last


def run_cell(cell: Cell, inputs: Array, sizes: Array, backwards: bool) -> tuple[Array, list[Array]]:
    """A direction of a layer over inputs (B, S, I): outputs (B, S, H), zero after the end, and the last state."""
    steps, projected = inputs.shape[1], linear(inputs, Linear(cell.weight_ih, cell.bias_ih))
    state = [np.zeros((len(inputs), cell.width), np.float32) for _ in range(cell.parts)]
    outputs = np.zeros((*inputs.shape[:2], cell.width), np.float32)
    for step in range(steps - 1, -1, -1) if backwards else range(steps):
        inside = (step < sizes)[:, None]
        new = step_cell(cell, projected[:, step], state)
        state = [np.where(inside, now, before) for now, before in zip(new, state, strict=True)]
        outputs[:, step] = np.where(inside, state[0], 0)
    return outputs, state


def step_cell(cell: Cell, x: Array, state: list[Array]) -> list[Array]:
    """W x + b (B, G) and the state -> the next state; the equations are those of `harken.nn.recurrent`."""
    recurrent, h, width = Linear(cell.weight_hh, cell.bias_hh), state[0], cell.width
    if cell.kind == "rnn":
        return [np.tanh(x + linear(h, recurrent))]
    if cell.kind == "lstm":
        i, f, g, o = np.split(x + linear(h, recurrent), 4, -1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if cell.reset == "after":
        u = linear(h, recurrent)
        r, z = np.split(sigmoid(x[:, : 2 * width] + u[:, : 2 * width]), 2, -1)
        n = np.tanh(x[:, 2 * width :] + r * u[:, 2 * width :])
        return [n + z * (h - n)]
    gates, candidate = recurrent_parts(cell)
    r, z = np.split(sigmoid(x[:, : 2 * width] + linear(h, gates)), 2, -1)
    n = np.tanh(x[:, 2 * width :] + linear(r * h, candidate))
    return [h + z * (n - h)]


def recurrent_parts(cell: Cell) -> tuple[Linear, Linear]:
    """U and its bias of a GRU whose reset gate acts on h: those of both gates, and that of the candidate."""
    size, bias = 2 * cell.width, cell.bias_hh
    first, second = (None, None) if bias is None else (bias[:size], bias[size:])
    return Linear(cell.weight_hh[:size], first), Linear(cell.weight_hh[size:], second)


def linear(values: Array, layer: Linear) -> Array:
    """W x + b."""
    weight, bias = cast(Array, layer.weight), cast(Array | None, layer.bias)
    product: Array = values @ weight.T
    return product if bias is None else product + bias


def sigmoid(values: Array) -> Array:
    """1 / (1 + e^-x), by tanh, which does not overflow."""
    half = np.float32(0.5)
    result: Array = half * np.tanh(half * values) + half
    return result
