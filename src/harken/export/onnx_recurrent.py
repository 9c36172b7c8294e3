"""Encoder and decoder step of recurrent models as ONNX nodes.

The encoder's layers are ONNX's own RNN, LSTM and GRU over whole sequences, the decoder's cells the same over one step
(`harken.nn.recurrent.onnx` has their weights). The decoder step is `RecurrentDecoder.advance`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from harken.errors import UserError
from harken.export.graph import Graph, Memory, Step
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.onnx import lacking, operator_attributes, operator_weights
from harken.nn.recurrent.rnn import RNNCell

OPERATORS: dict[type[Cell], str] = {LSTMCell: "LSTM", GRUCell: "GRU", RNNCell: "RNN"}
SCORES = (DotScore, ScaledDotScore, MultiplicativeScore, AdditiveScore, CosineScore)


def refuse_unsupported(side: RecurrentEncoder | RecurrentDecoder) -> None:
    """Check one side of a model before anything is written.

    Raises:
        UserError: ONNX has no operator for one of its options.
    """
    found: list[str] = []
    cells: list[Any] = list(side.layers)
    if isinstance(side, RecurrentEncoder):
        found += [f"zoneout={layer.options.zoneout}" for layer in cells if layer.options.zoneout]
        cells = [cell for layer in cells for cell in layer.cells_of(0)]
    elif side.attends:
        attention: Any = side.attend
        found += [] if type(attention.score) in SCORES else [f"attention={type(attention.score).__name__}"]
        found += ["hard_attention=True"] if attention.hard else []
    for cell in cells:
        found += lacking(cell) if type(cell) in OPERATORS else [f"cell={type(cell).__name__}"]
    if found:
        raise UserError(
            f"the export to ONNX has no form for {found[0]} of a recurrent model; train without it to export"
        )


def encode(graph: Graph, encoder: RecurrentEncoder, embedded: str, lengths: str) -> Memory:
    """Embeddings (B, S, E), scaled already -> values (B, S, W) and the last state of every layer."""
    size = graph.size(embedded, 1)
    inside = graph.inside(lengths, size)  # (B, S)
    behind = graph.add("Unsqueeze", graph.add("Transpose", inside, perm=[1, 0]), graph.ints(2))  # (S, B, 1)
    steps = graph.add("Cast", lengths, to=graph.onnx.TensorProto.INT32)
    below, states = [graph.add("Transpose", embedded, perm=[1, 0, 2])], []  # (S, B, E)
    for depth, layer in enumerate(encoder.layers):
        cells = layer.cells_of(0)  # type: ignore[operator]
        made, *last = run_cells(graph, cells, into(graph, encoder.connections, below), steps, [])
        made = graph.add("Transpose", made, perm=[0, 2, 1, 3])  # (S, B, directions, H)
        made = graph.add("Where", behind, graph.reshape(made, 0, 0, -1), graph.constant(0.0))
        below.append(out(graph, encoder.connections, depth, below, made))
        states.append(tuple(graph.reshape(graph.add("Transpose", one, perm=[1, 0, 2]), 0, -1) for one in last))
    return Memory(graph.add("Transpose", below[-1], perm=[1, 0, 2]), inside, states)


def start(graph: Graph, decoder: RecurrentDecoder, memory: Memory) -> tuple[dict[str, str], dict[str, str]]:
    """Keys and values of the memory (B, S, ...), and the first state of the decoder."""
    state = first_states(graph, decoder, memory)
    if not decoder.attends:
        return {}, {**state, **({"feed": summary(graph, memory)} if decoder.constant_context else {})}
    if decoder.feeds_back:
        state["feed"] = graph.add("Mul", next(iter(state.values())), graph.constant(0.0))
    if decoder.config.coverage:
        state["coverage"] = graph.add("Mul", graph.add("Cast", memory.inside, to=1), graph.constant(0.0))
    return {"memory": memory.values, "memory_keys": keys_of(graph, decoder.attend.score, memory.values)}, state


def shapes(decoder: RecurrentDecoder) -> dict[str, list[Any]]:
    """The shape of each tensor of `start`, with names for free sizes."""
    known: dict[str, list[Any]] = {name: ["batch", decoder.width] for name in state_names(decoder)}
    if decoder.attends:
        score = decoder.attend.score
        width = score.memory.out_features if isinstance(score, AdditiveScore) else decoder.width
        known |= {"memory": ["batch", "source", decoder.width], "memory_keys": ["batch", "source", width]}
    return {**known, "feed": ["batch", decoder.width], "coverage": ["batch", "source"]}


def step(
    graph: Graph, decoder: RecurrentDecoder, embedded: str, lengths: str, memory: dict[str, str], state: dict[str, str]
) -> Step:
    """Embeddings of one token (B, E), scaled already -> o_t (B, H) and the next state."""
    names, parts = state_names(decoder), decoder.config.parts
    before = [[state[name] for name in names[start : start + parts]] for start in range(0, len(names), parts)]
    context, weights, feed = "", "", state.get("feed", "")
    if decoder.attends_before:
        context, weights = attend(graph, decoder, before, lengths, memory, state)
        feed = context
    below, layers = [embedded], []
    for depth, cell in enumerate(decoder.layers):
        inputs = into(graph, decoder.connections, below)
        inputs = graph.add("Concat", inputs, feed, axis=-1) if decoder.reads[depth] else inputs
        layers.append(advance(graph, cell, inputs, before[depth], decoder.config.zoneout))
        below.append(out(graph, decoder.connections, depth, below, layers[-1][0]))
    after = dict(zip(names, (part for layer in layers for part in layer), strict=True))
    if not decoder.attends:
        return Step(below[-1], {**state, **after})
    if not context:
        context, weights = attend(graph, decoder, layers, lengths, memory, state)
    joined = graph.add("Concat", context, below[-1], axis=-1)
    output = graph.add("Tanh", graph.apply(decoder.combine, joined))
    if decoder.feeds_back:
        after["feed"] = output
    if "coverage" in state:
        after["coverage"] = graph.add("Add", state["coverage"], weights)
    return Step(output, after)


def state_names(decoder: RecurrentDecoder) -> list[str]:
    """Of the parts of every layer's state."""
    return [f"{part}_{depth}" for depth in range(len(decoder.layers)) for part in "hc"[: decoder.config.parts]]


def run_cells(graph: Graph, cells: Sequence[Any], values: str, steps: str, first: Sequence[str]) -> list[str]:
    """(T, B, I) -> (T, directions, B, H), and the parts of the last state (directions, B, H)."""
    parts = len(cells[0].state_sizes)
    weights = {name: graph.constant(weight) for name, weight in operator_weights(cells).items()}
    inputs = [values, weights["W"], weights["R"], weights.get("B", ""), steps, *(first or [""] * parts)]
    inputs += [weights["P"]] if "P" in weights else []
    attributes = operator_attributes(cells)
    return graph.add_many(OPERATORS[type(cells[0])], *inputs, outputs=1 + parts, **attributes)


def advance(graph: Graph, cell: Any, inputs: str, state: Sequence[str], zoneout: float) -> list[str]:
    """One step of a cell: (B, I) and the parts of its state (B, H) -> their next values."""
    first = [graph.add("Unsqueeze", part, graph.ints(0)) for part in state]
    made = run_cells(graph, [cell], graph.add("Unsqueeze", inputs, graph.ints(0)), "", first)[1:]
    after = [graph.add("Squeeze", part, graph.ints(0)) for part in made]
    if not zoneout:
        return after
    kept = [graph.add("Mul", part, graph.constant(zoneout)) for part in state]
    new = [graph.add("Mul", part, graph.constant(1 - zoneout)) for part in after]
    return [graph.add("Add", *pair) for pair in zip(new, kept, strict=True)]


def attend(
    graph: Graph,
    decoder: RecurrentDecoder,
    layers: Sequence[Sequence[str]],
    lengths: str,
    memory: dict[str, str],
    state: dict[str, str],
) -> tuple[str, str]:
    """The context (B, H) of the query layer's state, and its weights (B, S)."""
    query, keys, score = layers[decoder.query_layer][0], memory["memory_keys"], decoder.attend.score
    if isinstance(score, AdditiveScore):
        if score.coverage is not None:
            seen = graph.apply(score.coverage, graph.add("Unsqueeze", state["coverage"], graph.ints(2)))
            keys = graph.add("Add", keys, seen)
        added = graph.add("Unsqueeze", graph.apply(score.query, query), graph.ints(1))
        energy = graph.apply(score.energy, graph.add("Tanh", graph.add("Add", keys, added)))
    else:
        if isinstance(score, ScaledDotScore):
            query = graph.add("Mul", query, graph.constant(1 / math.sqrt(decoder.width)))
        if isinstance(score, CosineScore):
            query = graph.add("LpNormalization", query, axis=-1, p=2)
            query = graph.add("Mul", query, graph.constant(torch.exp(-score.log_temperature.detach()).item()))
        energy = graph.add("MatMul", keys, graph.add("Unsqueeze", query, graph.ints(2)))
    scores = graph.add("Squeeze", energy, graph.ints(2))  # (B, S)
    inside = graph.inside(lengths, graph.size(memory["memory"], 1))
    weights = graph.add("Softmax", graph.add("Add", scores, graph.added_mask(inside)), axis=-1)
    context = graph.add("MatMul", graph.add("Unsqueeze", weights, graph.ints(1)), memory["memory"])
    return graph.add("Squeeze", context, graph.ints(1)), weights


def keys_of(graph: Graph, score: nn.Module, memory: str) -> str:
    """The memory as the score sees it."""
    if isinstance(score, AdditiveScore):
        return graph.apply(score.memory, memory)
    if isinstance(score, MultiplicativeScore):
        return graph.apply(score.weight, memory)
    return graph.add("LpNormalization", memory, axis=-1, p=2) if isinstance(score, CosineScore) else memory


def first_states(graph: Graph, decoder: RecurrentDecoder, memory: Memory) -> dict[str, str]:
    """s_0 of each layer by the bridge."""
    found, bridge, first = memory.states or [(summary(graph, memory),)], iter(decoder.bridge), []
    for depth in range(len(decoder.layers)):
        parts = found[max(0, len(found) - len(decoder.layers) + depth)]
        chosen = [parts[min(part, len(parts) - 1)] for part in range(decoder.config.parts)]
        first += [graph.add("Tanh", graph.apply(next(bridge), part)) for part in chosen]
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


def into(graph: Graph, connections: Connections, below: Sequence[str]) -> str:
    """The input of the next layer; see `Connections.into`."""
    is_dense = connections.kind == "dense" and len(below) > connections.first
    return graph.add("Concat", *below, axis=-1) if is_dense else below[-1]


def out(graph: Graph, connections: Connections, depth: int, below: Sequence[str], made: str) -> str:
    """The output of a layer; see `Connections.out`."""
    if depth < connections.first or connections.kind in (None, "dense"):
        return made
    if connections.gates is None:
        return graph.add("Add", below[-1], made)
    transform = graph.add("Sigmoid", graph.apply(connections.gates[depth - connections.first], below[-1]))
    return graph.add("Add", below[-1], graph.add("Mul", transform, graph.add("Sub", made, below[-1])))
