"""Recurrent encoders, decoder steps and layers of `harken.nn` as ONNX nodes.

A traced loop has one copy of the cell for each step it was traced with. ONNX's own RNN, LSTM and GRU are the whole
loop, both directions and rows of unequal length included; so each layer becomes one of these, and the decoder's cells
the same over one step (`harken.models.recurrent.step`). What ONNX leaves open is settled here: outputs behind the end
of a row are 0, and a row without steps keeps its first state. The weights are the same numbers in another order:

LSTM    gates i, o, f, c and peepholes i, o, f; ours i, f, g, o and i, f, o. A coupled cell has no i, but
        1 - sigmoid(a) = sigmoid(-a): i is f with its sign changed.
GRU     gates z, r, h; ours r, z, n. ONNX's z is how much of the past stays. With reset="before" ours is how much
        is new, so its sign changes.

Operators: https://onnx.ai/onnx/operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harken.export.graph import Graph, Memory, Step
from harken.kernels.decoding.description import Cell, Connections, Recurrent, RecurrentStack, Undescribed
from harken.models.recurrent.description import describe_layers
from harken.nn.recurrent.stack import Stack

Order = list[tuple[int, int]]
SWAP: dict[str, Any] = {"perm": [1, 0, 2]}  # (B, T, D) <-> (T, B, D)


def export_onnx(layer: nn.Module, path: str | Path, *, lengths: bool = True, state: bool = False) -> Path:
    """Write an RNN, LSTM or GRU of `harken.nn` as it evaluates, in float32, to an ONNX file; the path comes back.

    Inputs are `values` (B, T, I), or (T, B, I) with `batch_first=False`; `lengths` (B,) int64, unless `lengths=False`;
    with `state=True` the first state `h_0` and, of an LSTM, `c_0`, each (layers x directions, B, H). Outputs are
    `output`, `h_n` and `c_n`, shaped as the layer's. B and T are free.

    Raises:
        ValueError: the layer has an option that ONNX's operator lacks.
        UserError: the package `onnx` is not installed.

    >>> from harken.nn import GRU
    >>> export_onnx(GRU(3, 5, num_layers=2, zoneout=0.1), "layer.onnx")
    Traceback (most recent call last):
    ...
    ValueError: ONNX's GRU has no zoneout=0.1; export a fixed number of steps with torch.onnx.export(..., dynamo=True)
    """
    if not isinstance(layer, Stack):
        raise ValueError(f"export_onnx takes an RNN, LSTM or GRU of harken.nn, not {type(layer).__name__}")
    try:
        stack = describe_layers(layer)
    except Undescribed as option:
        raise ValueError(
            f"ONNX's {type(layer).__name__} has no {option}; export a fixed number of steps with "
            "torch.onnx.export(..., dynamo=True)"
        ) from option
    graph, parts = Graph(), ("h", "c")[: stack.layers[0][0].parts]
    around: list[Any] = ["batch", "time"] if layer.batch_first else ["time", "batch"]
    shape = [len(layer.cells), "batch", layer.hidden_size]
    values = graph.input("values", [*around, layer.input_size])
    values = graph.add("Transpose", values, **SWAP) if layer.batch_first else values  # (T, B, I)
    rows = graph.input("lengths", ["batch"], torch.int64) if lengths else None
    given = [graph.input(f"{part}_0", shape) for part in parts] if state else []
    by_part = [graph.add_many("Split", part, outputs=len(stack.layers), axis=0) for part in given]
    first = [list(of_layer) for of_layer in zip(*by_part, strict=True)]
    output, last = run_layers(graph, stack, values, rows, first)
    output = graph.add("Transpose", output, **SWAP) if layer.batch_first else output
    graph.output("output", output, [*around, layer.directions * layer.hidden_size])
    for part, of_layers in zip(parts, zip(*last, strict=True), strict=True):
        graph.output(f"{part}_n", graph.add("Concat", *of_layers, axis=0), shape)
    graph.save(Path(path))
    return Path(path)


def run_layers(
    graph: Graph, stack: RecurrentStack, values: str, lengths: str | None, first: Sequence[Sequence[str]] = ()
) -> tuple[str, list[list[str]]]:
    """All layers: (T, B, I), lengths (B,) and perhaps first states -> (T, B, H x directions) and the last states.

    Every layer has the parts of its states as (directions, B, H).
    """
    steps = empty = ""
    if lengths is not None:  # rows without steps go one, which is not looked at
        steps = graph.add("Max", lengths, graph.ints(1))
        steps = graph.add("Cast", steps, to=graph.onnx.TensorProto.INT32)
        column = graph.add("Unsqueeze", lengths, graph.ints(1))
        empty = graph.add("Less", column, graph.ints(1))  # (B, 1)
    below, last = [values], []
    for depth, cells in enumerate(stack.layers):
        begin = list(first[depth]) if first else []
        output, *states = run_cells(graph, cells, into(graph, stack.connections, below), steps, begin)
        output = graph.reshape(graph.add("Transpose", output, perm=[0, 2, 1, 3]), 0, 0, len(cells) * cells[0].width)
        if empty:
            begin = begin or [graph.constant(0.0)] * len(states)
            states = [graph.add("Where", empty, *pair) for pair in zip(begin, states, strict=True)]
        below.append(out(graph, stack.connections, depth, below, output))
        last.append(states)
    output = below[-1]
    if lengths is not None:  # 0 behind the end of each row
        inside = graph.add("Transpose", graph.inside(lengths, graph.size(values, 0)), perm=[1, 0])  # (T, B)
        output = graph.add("Where", graph.add("Unsqueeze", inside, graph.ints(2)), output, graph.constant(0.0))
    return output, last


def run_cells(graph: Graph, cells: Sequence[Cell], values: str, steps: str, first: Sequence[str]) -> list[str]:
    """(T, B, I) -> (T, directions, B, H), and the parts of the last state (directions, B, H)."""
    cell, parts = cells[0], cells[0].parts
    weights = [operator_weights(direction) for direction in cells]
    stacked = {name: graph.constant(torch.stack([each[name] for each in weights])) for name in weights[0]}
    inputs = [values, stacked["W"], stacked["R"], stacked.get("B", ""), steps, *(first or [""] * parts)]
    inputs += [stacked["P"]] if "P" in stacked else []
    attributes: dict[str, Any] = {"direction": "bidirectional" if len(cells) > 1 else "forward"}
    if cell.kind == "gru":
        attributes["linear_before_reset"] = int(cell.reset == "after")
    if cell.kind == "rnn":
        attributes["activations"] = [cell.nonlinearity.capitalize()] * len(cells)
    return graph.add_many(cell.kind.upper(), *inputs, outputs=1 + parts, hidden_size=cell.width, **attributes)


def gate_order(cell: Cell) -> Order:
    """For each of ONNX's gates, which block of H rows of our weights it is, and with which sign.

    >>> none = torch.zeros(15, 3)
    >>> gate_order(Cell("lstm", none, none, None, None, coupled=True))  # ONNX's i, o, f, c
    [(0, -1), (2, 1), (0, 1), (1, 1)]
    """
    if cell.kind == "lstm":
        return [(0, -1), (2, 1), (0, 1), (1, 1)] if cell.coupled else [(0, 1), (3, 1), (1, 1), (2, 1)]
    if cell.kind == "gru":
        return [(1, -1 if cell.reset == "before" else 1), (0, 1), (2, 1)]
    return [(0, 1)]


def operator_weights(cell: Cell) -> dict[str, Tensor]:
    """W, R, B and P by the operator's names; B and P where there are any."""
    order = gate_order(cell)

    def arranged(weight: Tensor, order: Order = order) -> Tensor:
        """(gates x H, ...) -> (ONNX's gates x H, ...) in float32."""
        blocks = weight.detach().float().split(cell.width)
        return torch.cat([sign * blocks[block] for block, sign in order])

    weights = {"W": arranged(cell.weight_ih), "R": arranged(cell.weight_hh)}
    if cell.bias_ih is not None:
        second = torch.zeros_like(cell.bias_ih) if cell.bias_hh is None else cell.bias_hh
        weights["B"] = torch.cat([arranged(cell.bias_ih), arranged(second)])
    if cell.peephole is not None:  # ONNX's i, o, f
        weights["P"] = arranged(cell.peephole, [(0, -1), (1, 1), (0, 1)] if cell.coupled else [(0, 1), (2, 1), (1, 1)])
    return weights


def into(graph: Graph, connections: Connections, below: Sequence[str]) -> str:
    """The input of the next layer; see `harken.nn.recurrent.connections.Connections.into`."""
    is_dense = connections.kind == "dense" and len(below) > connections.first
    return graph.add("Concat", *below, axis=-1) if is_dense else below[-1]


def out(graph: Graph, connections: Connections, depth: int, below: Sequence[str], output: str) -> str:
    """The output of a layer; see `harken.nn.recurrent.connections.Connections.out`."""
    if depth < connections.first or connections.kind in (None, "dense"):
        return output
    if connections.kind == "residual":
        return graph.add("Add", below[-1], output)
    transform = graph.add("Sigmoid", graph.linear(below[-1], connections.gates[depth - connections.first]))
    return graph.add("Add", below[-1], graph.add("Mul", transform, graph.add("Sub", output, below[-1])))


def encode(graph: Graph, stack: RecurrentStack, embedded: str, lengths: str) -> Memory:
    """Embeddings (B, S, E), scaled already -> values (B, S, W) and the last state of every layer."""
    output, last = run_layers(graph, stack, graph.add("Transpose", embedded, **SWAP), lengths)
    states = [tuple(graph.reshape(graph.add("Transpose", part, **SWAP), 0, -1) for part in layer) for layer in last]
    return Memory(graph.add("Transpose", output, **SWAP), graph.inside(lengths, graph.size(embedded, 1)), states)


def start(graph: Graph, decoder: Recurrent, memory: Memory) -> tuple[dict[str, str], dict[str, str]]:
    """Keys and values of the memory (B, S, ...), and the first state of the decoder."""
    state = first_states(graph, decoder, memory)
    if decoder.score is None:
        return {}, {**state, **({"feed": summary(graph, memory)} if decoder.constant_context else {})}
    if decoder.feeds_back:
        state["feed"] = graph.add("Mul", next(iter(state.values())), graph.constant(0.0))
    if decoder.coverage is not None:
        state["coverage"] = graph.add("Mul", graph.add("Cast", memory.inside, to=1), graph.constant(0.0))
    keys = memory.values if decoder.keys is None else graph.linear(memory.values, decoder.keys)
    keys = graph.add("LpNormalization", keys, axis=-1, p=2) if decoder.score == "cosine" else keys
    return {"memory": memory.values, "memory_keys": keys}, state


def shapes(decoder: Recurrent) -> dict[str, list[Any]]:
    """The shape of each tensor of `start`, with names for free sizes."""
    known: dict[str, list[Any]] = {name: ["batch", decoder.width] for name in (*state_names(decoder), "feed")}
    width = decoder.width if decoder.keys is None else len(decoder.keys.weight)
    known |= {"memory": ["batch", "source", decoder.width], "memory_keys": ["batch", "source", width]}
    return {**known, "coverage": ["batch", "source"]}


def step(
    graph: Graph, decoder: Recurrent, embedded: str, lengths: str, memory: dict[str, str], state: dict[str, str]
) -> Step:
    """Embeddings of one token (B, E), scaled already -> o_t (B, H) and the next state."""
    names, parts = state_names(decoder), decoder.cells[0].parts
    before = [[state[name] for name in names[start : start + parts]] for start in range(0, len(names), parts)]
    context, weights, feed = "", "", state.get("feed", "")
    if decoder.attends_before:
        context, weights = attend(graph, decoder, before, lengths, memory, state)
        feed = context
    below, layers = [embedded], []
    for depth, cell in enumerate(decoder.cells):
        inputs = into(graph, decoder.connections, below)
        inputs = graph.add("Concat", inputs, feed, axis=-1) if decoder.reads[depth] else inputs
        layers.append(advance(graph, cell, inputs, before[depth], decoder.zoneout))
        below.append(out(graph, decoder.connections, depth, below, layers[-1][0]))
    after = dict(zip(names, (part for layer in layers for part in layer), strict=True))
    if decoder.combine is None:
        return Step(below[-1], {**state, **after})
    if not context:
        context, weights = attend(graph, decoder, layers, lengths, memory, state)
    output = graph.add("Tanh", graph.linear(graph.add("Concat", context, below[-1], axis=-1), decoder.combine))
    if decoder.feeds_back:
        after["feed"] = output
    if "coverage" in state:
        after["coverage"] = graph.add("Add", state["coverage"], weights)
    return Step(output, after)


def state_names(decoder: Recurrent) -> list[str]:
    """The names of the parts of every layer's state."""
    return [f"{part}_{depth}" for depth, cell in enumerate(decoder.cells) for part in "hc"[: cell.parts]]


def advance(graph: Graph, cell: Cell, inputs: str, state: Sequence[str], zoneout: float) -> list[str]:
    """One step of a cell: (B, I) and the parts of its state (B, H) -> their next values."""
    first = [graph.add("Unsqueeze", part, graph.ints(0)) for part in state]
    last = run_cells(graph, [cell], graph.add("Unsqueeze", inputs, graph.ints(0)), "", first)[1:]
    after = [graph.add("Squeeze", part, graph.ints(0)) for part in last]
    if not zoneout:
        return after
    stay = [graph.add("Mul", part, graph.constant(zoneout)) for part in state]
    new = [graph.add("Mul", part, graph.constant(1 - zoneout)) for part in after]
    return [graph.add("Add", *pair) for pair in zip(new, stay, strict=True)]


def attend(
    graph: Graph,
    decoder: Recurrent,
    layers: Sequence[Sequence[str]],
    lengths: str,
    memory: dict[str, str],
    state: dict[str, str],
) -> tuple[str, str]:
    """The context (B, H) of the query layer's state, and its weights (B, S)."""
    query, keys = layers[decoder.query_layer][0], memory["memory_keys"]
    if decoder.energy is not None and decoder.query is not None:
        if decoder.coverage is not None:
            column = graph.add("Unsqueeze", state["coverage"], graph.ints(2))
            keys = graph.add("Add", keys, graph.add("Mul", column, graph.constant(decoder.coverage)))
        added = graph.add("Unsqueeze", graph.linear(query, decoder.query), graph.ints(1))
        hidden = graph.add("Tanh", graph.add("Add", keys, added))
        energy = graph.add("MatMul", hidden, graph.constant(decoder.energy[:, None]))
    else:
        query = graph.add("LpNormalization", query, axis=-1, p=2) if decoder.score == "cosine" else query
        query = query if decoder.scale == 1 else graph.add("Mul", query, graph.constant(decoder.scale))
        energy = graph.add("MatMul", keys, graph.add("Unsqueeze", query, graph.ints(2)))
    scores = graph.add("Squeeze", energy, graph.ints(2))  # (B, S)
    inside = graph.inside(lengths, graph.size(memory["memory"], 1))
    weights = graph.add("Softmax", graph.add("Add", scores, graph.added_mask(inside)), axis=-1)
    context = graph.add("MatMul", graph.add("Unsqueeze", weights, graph.ints(1)), memory["memory"])
    return graph.add("Squeeze", context, graph.ints(1)), weights


def first_states(graph: Graph, decoder: Recurrent, memory: Memory) -> dict[str, str]:
    """s_0 of each layer by the bridge."""
    last, bridge, first = memory.states or [(summary(graph, memory),)], iter(decoder.bridge), []
    for depth, cell in enumerate(decoder.cells):
        parts = last[max(0, len(last) - len(decoder.cells) + depth)]
        chosen = [parts[min(part, len(parts) - 1)] for part in range(cell.parts)]
        first += [graph.add("Tanh", graph.linear(part, next(bridge))) for part in chosen]
    return dict(zip(state_names(decoder), first, strict=True))


def summary(graph: Graph, memory: Memory) -> str:
    """One vector per source (B, W): the last state of the top layer, or else the mean over the words."""
    if memory.states is not None:
        return memory.states[-1][0]
    visible = graph.add("Unsqueeze", memory.inside, graph.ints(2))  # (B, S, 1)
    total = graph.add(
        "ReduceSum", graph.add("Where", visible, memory.values, graph.constant(0.0)), graph.ints(1), keepdims=0
    )
    count = graph.add("ReduceSum", graph.add("Cast", visible, to=1), graph.ints(1), keepdims=0)
    return graph.add("Div", total, count)
