"""The recurrent encoder-decoder against its equations, written out one sentence and one step at a time."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harken.models.build import build_model
from harken.models.config import RecurrentConfig
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.unrolling import unroll
from harken.nn import GRUCell, LSTMCell
from harken.nn.dropout import VariationalDropout

SOURCE = torch.tensor([[4, 5, 3, 0], [6, 7, 5, 3]])
LENGTHS = torch.tensor([3, 4])
TARGET = torch.tensor([[2, 5, 6], [2, 8, 4]])


def build(**options: Any) -> Any:
    torch.manual_seed(1)
    model = build_model(RecurrentConfig(embedding=4, width=6, tied="output", **options), 9, 11)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def score(model: EncoderDecoder, kind: str, s: Tensor, h: Tensor, covered: Tensor | None = None) -> Tensor:
    """The score functions, one pair at a time."""
    parts = model.decoder.attend.score
    if kind == "dot":
        return s @ h
    if kind == "scaled":
        return s @ h / math.sqrt(len(s))
    if kind == "cosine":
        return s @ h / (s.norm() * h.norm() * parts.log_temperature.exp())
    if kind == "multiplicative":
        return s @ parts.weight.weight @ h
    inner = parts.memory(h) + parts.query.weight @ s
    return parts.energy.weight[0] @ torch.tanh(inner if covered is None else inner + parts.coverage(covered[None]))


def joined(connections: nn.Module, below: list[Tensor], made: Tensor) -> Tensor:
    """What goes on from the layer above `below` (the input and the layers so far) that made `made`."""
    depth = len(below) - 1
    if depth < connections.first or connections.kind in (None, "dense"):
        return made
    if connections.kind == "residual":
        return below[-1] + made
    gate = torch.sigmoid(connections.gates[depth - connections.first](below[-1]))
    return gate * made + (1 - gate) * below[-1]


def seen(connections: nn.Module, below: list[Tensor]) -> Tensor:
    """What the next layer reads."""
    return torch.cat(below, -1) if connections.kind == "dense" and len(below) > connections.first else below[-1]


def definition(model: EncoderDecoder, kind: str, source: Tensor, target: Tensor) -> Tensor:
    """Hidden states (T, E) of one unpadded sentence: the module's equations, line by line."""
    encoder, decoder = model.encoder, model.decoder
    scale = math.sqrt(4)  # of the embedding's width, as in the Transformer
    values, bridge, states = [scale * model.source_embedding(source)[None]], iter(decoder.bridge), []
    for layer in encoder.layers:
        made, last = layer.reference(seen(encoder.connections, values))
        values.append(joined(encoder.connections, values, made))
        parts = last if isinstance(last, tuple) else (last,)
        if layer is encoder.layers[-1]:
            summary = parts[0].flatten()  # both directions beside each other
        states.append([torch.tanh(next(bridge)(part.flatten())) for part in parts])
    memory, fed, hidden = values[-1][0], torch.zeros(decoder.width, dtype=torch.float64), []
    fed = summary if decoder.constant_context else fed
    coverage = torch.zeros(len(memory), dtype=torch.float64)
    stays = decoder.config.zoneout

    def look(s: Tensor) -> Tensor:
        covered = coverage if decoder.config.coverage else [None] * len(memory)
        scores = [score(model, kind, s, h, past) for h, past in zip(memory, covered, strict=True)]
        return torch.stack(scores).softmax(0)

    for token in target:
        below = [scale * model.target_embedding(token)]
        if decoder.attends_before:
            weights = look(states[decoder.query_layer][0])
            fed = weights @ memory
        for depth, cell in enumerate(decoder.layers):
            read = seen(decoder.connections, below)
            before = tuple(part[None] for part in states[depth])
            read = torch.cat((read, fed)) if decoder.reads[depth] else read
            after = cell(read[None], before if len(before) == 2 else before[0])
            after = after if isinstance(after, tuple) else (after,)
            states[depth] = [stays * old[0] + (1 - stays) * new[0] for old, new in zip(before, after, strict=True)]
            below.append(joined(decoder.connections, below, states[depth][0]))
        out = below[-1]
        if decoder.attends:
            weights = weights if decoder.attends_before else look(states[decoder.query_layer][0])
            coverage = coverage + weights
            out = torch.tanh(decoder.combine.weight @ torch.cat((weights @ memory, out)))
        fed = fed if decoder.constant_context else out
        hidden.append(model.narrow(out))
    return torch.stack(hidden)


@pytest.mark.parametrize(
    ("cell", "attention", "layers", "feeding"),
    [*product(["lstm", "gru"], ["none", "dot", "multiplicative", "additive"], [1, 2], [True, False])],
)
def test_forward_is_the_equations(cell: str, attention: str, layers: int, feeding: bool) -> None:
    model = build(cell=cell, attention=attention, layers=layers, input_feeding=feeding, bidirectional=layers == 2)
    agrees(model, attention)


@pytest.mark.parametrize(
    ("cell", "attention", "layers", "attend", "coverage"),
    [
        *product(["lstm"], ["scaled", "cosine"], [1, 2], ["after", "before"], [False]),
        *product(["lstm", "gru"], ["additive"], [1, 2], ["before"], [False, True]),
        ("gru", "additive", 2, "after", True),
        ("gru", "dot", 1, "before", False),
    ],
)
def test_both_orders_and_coverage_are_the_equations(
    cell: str, attention: str, layers: int, attend: str, coverage: bool
) -> None:
    model = build(cell=cell, attention=attention, layers=layers, attend=attend, coverage=coverage)
    agrees(model, attention)


@pytest.mark.parametrize(
    "words",
    [
        {"cell": "rnn"},
        {"cell": "rnn", "nonlinearity": "relu", "layers": 2},
        {"cell": "rnn", "nonlinearity": "sigmoid", "layer_norm": True},
        {"peephole": "diagonal"},
        {"peephole": "full", "coupled": True, "layers": 2},
        {"coupled": True, "layer_norm": True},
        {"zoneout": 0.25, "layers": 2},
        {"cell": "gru", "reset": "before", "zoneout": 0.25},
        {"cell": "gru", "reset": "before", "layer_norm": True},
        {"attention": "none", "context": "constant"},
        {"cell": "gru", "attention": "none", "context": "constant", "context_to": "all", "layers": 2},
        {"layers": 3, "connections": "residual"},
        {"layers": 4, "connections": "residual", "connections_from": 3, "bidirectional": "first"},
        {"layers": 3, "connections": "highway", "cell": "gru", "context_to": "all"},
        {"layers": 3, "connections": "dense", "attend": "before", "look_from": "bottom", "context_to": "all"},
        {"layers": 3, "connections": "dense", "connections_from": 3, "attention": "none", "cell": "rnn"},
        {"layers": 2, "look_from": "bottom", "coverage": True},
    ],
    ids=lambda words: "-".join(map(str, words.values())),
)
def test_other_words_are_the_equations(words: dict[str, Any]) -> None:
    model = build(**words)
    assert len(model.encoder.layers) == words.get("layers", 1)
    agrees(model, words.get("attention", "additive"))


def test_a_deep_stack_reads_both_ways_in_its_first_layer_alone() -> None:
    layers = build(layers=3, bidirectional="first").encoder.layers
    assert [layer.bidirectional for layer in layers] == [True, False, False]


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_trace_holds_the_very_numbers(cell: str) -> None:
    """Every gate of every step, and what the decoder hands on is made of the traced states."""
    model = build(cell=cell, layers=2, attention="none")
    memory, embedded = model.encode(SOURCE, LENGTHS), model.target_embedding(TARGET)
    hidden, trace = model.decoder(embedded, memory, trace=True)
    assert torch.allclose(hidden, model.decoder(embedded, memory), rtol=0, atol=1e-12)
    assert torch.equal(trace[1].hidden, hidden)
    words = {"rnn": ("hidden",), "gru": ("reset", "update", "candidate", "hidden")}
    assert trace.names == words.get(cell, ("input", "forget", "candidate", "output", "hidden", "cell"))
    if cell == "lstm":
        before = torch.cat((model.decoder.start(memory).layers[0][1][:, None], trace[0].cell[:, :-1]), 1)
        cells = trace[0].forget * before + trace[0].input * trace[0].candidate
        assert torch.allclose(cells, trace[0].cell, rtol=0, atol=1e-12)
        assert torch.allclose(trace[0].output * torch.tanh(cells), trace[0].hidden, rtol=0, atol=1e-12)
    trace.retain_grad()
    hidden.square().sum().backward()
    assert (trace[0].gradient("hidden") != 0).any(-1).all()


def agrees(model: EncoderDecoder, attention: str) -> None:
    """The fast forward pass with a padded batch equals `definition`, in values and gradients."""
    fast = model(SOURCE, LENGTHS, TARGET)
    rows = [definition(model, attention, SOURCE[row, :length], TARGET[row]) for row, length in enumerate(LENGTHS)]
    slow = torch.stack(rows)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-9)
    parameters = [parameter for key, parameter in model.named_parameters() if key != "output_bias"]
    grad_output = torch.randn_like(fast)
    found = torch.autograd.grad(fast, parameters, grad_output)
    for one, other in zip(found, torch.autograd.grad(slow, parameters, grad_output), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attend": "before", "attention": "dot"},
        {"coverage": True, "layers": 2, "connections": "residual"},
        {"attention": "none", "context": "constant", "context_to": "all", "layers": 2},
        {"layer_norm": True, "zoneout": 0.2, "layers": 2, "look_from": "bottom"},
    ],
)
def test_the_fast_loop_is_the_loop_over_steps(cell: str, options: dict[str, Any]) -> None:
    model = build(cell=cell, **options)
    memory, embedded = model.encode(SOURCE, LENGTHS), model.target_embedding(TARGET)
    fast, (slow, weights) = model.decoder(embedded, memory), model.decoder.reference(embedded, memory)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-12)
    found = model.decoder.attention(embedded, memory)
    assert (found is None) == (weights is None)
    assert found is None or torch.allclose(found[:, 0, 0], weights, rtol=0, atol=1e-12)
    parameters, grad_output = list(model.decoder.parameters()), torch.randn_like(fast)
    for one, other in zip(
        torch.autograd.grad(fast, parameters, grad_output, retain_graph=True),
        torch.autograd.grad(slow, parameters, grad_output),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 2])
def test_forget_gates_start_open(layers: int) -> None:
    model = build_model(RecurrentConfig(embedding=4, width=6, layers=layers), 9, 9)
    cells = [module for module in model.modules() if isinstance(module, LSTMCell)]
    assert len(cells) == 3 * layers  # both directions of the encoder, and the decoder
    for cell in cells:
        for name, parameter in cell.named_parameters():
            if "bias" in name:
                write, forget, candidate, show = parameter.chunk(4)
                assert (forget == (1.0 if "bias_ih" in name else 0.0)).all()
                assert not torch.cat((write, candidate, show)).any()


def test_gru_biases_start_at_zero() -> None:
    model = build_model(RecurrentConfig(cell="gru", embedding=4, width=6), 9, 9)
    cells = [cell for cell in model.decoder.layers if isinstance(cell, GRUCell)]
    assert cells
    assert not any(cell.bias_ih.any() or cell.bias_hh.any() for cell in cells)


@pytest.mark.parametrize("attention", ["none", "additive"])
@pytest.mark.parametrize("layers", [1, 3])
def test_variational_masks_last_the_whole_sentence(
    attention: str, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many masks for a long target as for a short one: none is drawn anew at a step."""
    model = build(attention=attention, layers=layers, dropout=0.5).train()
    drawn: list[tuple[int, int]] = []
    mask = VariationalDropout.mask

    def counted(self: VariationalDropout, batch: int, width: int, like: Tensor) -> Tensor | None:
        drawn.append((batch, width))
        return mask(self, batch, width, like)

    monkeypatch.setattr(VariationalDropout, "mask", counted)
    counts = []
    for target in (TARGET, TARGET.repeat(1, 4)):
        drawn.clear()
        model(SOURCE, LENGTHS, target)
        counts.append(len(drawn))
    feeds = attention != "none"
    # encoder inputs, its memory, target embeddings, output; the feed; between the decoder's layers
    assert counts == [layers + 1 + 1 + 1 + feeds + (layers - 1)] * 2


@pytest.mark.parametrize("variational", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_dropout_acts_between_the_decoders_layers(cell: str, variational: bool) -> None:
    """With its other places silenced, what is left of dropout is between the layers."""
    model = build(cell=cell, attention="none", layers=2, dropout=0.5, variational=variational).train()
    state = model.start(SOURCE, LENGTHS)

    def unrolled() -> Tensor:
        return unroll(model.decoder, model.target_embedding(TARGET), state)[0]

    masks = [unrolled() for _ in range(2)]
    assert not torch.allclose(masks[0], masks[1])
    model.eval()
    assert torch.equal(unrolled(), unrolled())


@torch.no_grad()
def test_coverage_is_the_sum_of_the_weights_so_far() -> None:
    model = build(coverage=True)
    state, total = model.start(SOURCE, LENGTHS), torch.zeros(2, 4, dtype=torch.float64)
    for place in range(3):
        assert torch.equal(state.coverage, total)
        model.step(TARGET[:, place], state)
        total = total + state.attention
    state.keep_(torch.tensor([1]))
    assert torch.equal(state.coverage, total[1:])


@pytest.mark.parametrize("attend", ["after", "before"])
@torch.no_grad()
def test_hard_attention_looks_at_one_place_at_a_time(attend: str) -> None:
    model = build(attend=attend, hard_attention=True)
    whole, weights = model.logits(model(SOURCE, LENGTHS, TARGET)), model.attention(SOURCE, LENGTHS, TARGET)
    assert (weights.sort(-1).values == torch.tensor([0.0, 0.0, 0.0, 1.0])).all()
    assert (weights[0, ..., 3:] == 0).all()
    state = model.start(SOURCE, LENGTHS)
    for place in range(3):
        logits = model.step(TARGET[:, place], state)
        assert torch.allclose(logits, whole[:, place], rtol=0, atol=1e-9)
    soft = build(attend=attend)
    soft.load_state_dict(model.state_dict())
    for part in (model, soft):  # trained in the same way
        part.train().encoder.dropout.p = part.decoder.dropout.p = 0.0
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), soft(SOURCE, LENGTHS, TARGET))
