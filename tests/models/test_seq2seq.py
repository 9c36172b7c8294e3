"""The recurrent encoder-decoder against its equations, written out one sentence and one step at a time."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.models.first_names import current_names
from harken.models.seq2seq import Seq2Seq
from harken.nn import GRUCell, LSTMCell
from harken.nn.dropout import VariationalDropout

SOURCE = torch.tensor([[4, 5, 3, 0], [6, 7, 5, 3]])
LENGTHS = torch.tensor([3, 4])
TARGET = torch.tensor([[2, 5, 6], [2, 8, 4]])


def build(**options: Any) -> Seq2Seq:
    torch.manual_seed(1)
    model = Seq2Seq(9, 11, embedding=4, width=6, tied="output", **options)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def score(model: Seq2Seq, kind: str, s: Tensor, h: Tensor, covered: Tensor | None = None) -> Tensor:
    """E9, one pair at a time."""
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


def definition(model: Seq2Seq, kind: str, source: Tensor, target: Tensor) -> Tensor:
    """Hidden states (T, E) of one unpadded sentence: the module's text, line by line."""
    scale = math.sqrt(4)  # of the embedding's width, as in the Transformer
    values, bridge, states = scale * model.source_embedding(source)[None], iter(model.decoder.bridge), []
    for layer in model.encoder.layers:
        values, last = layer.definition(values)
        parts = last if isinstance(last, tuple) else (last,)
        states.append([torch.tanh(next(bridge)(part.flatten())) for part in parts])  # both directions beside each other
    memory, fed, hidden = values[0], torch.zeros(model.decoder.width, dtype=torch.float64), []
    coverage = torch.zeros(len(memory), dtype=torch.float64)

    def look(s: Tensor) -> Tensor:
        covered = coverage if model.decoder.covers else [None] * len(memory)
        scores = [score(model, kind, s, h, past) for h, past in zip(memory, covered, strict=True)]
        return torch.stack(scores).softmax(0)

    for token in target:
        below = scale * model.target_embedding(token)
        if model.decoder.looks_first:
            weights = look(states[-1][0])
            fed = weights @ memory
        if model.decoder.reads[0]:
            below = torch.cat((below, fed))
        for depth, cell in enumerate(model.decoder.layers):
            before = tuple(part[None] for part in states[depth])
            after = cell(below[None], before if len(before) == 2 else before[0])
            states[depth] = [part[0] for part in (after if isinstance(after, tuple) else (after,))]
            below = states[depth][0]
        fed = below
        if model.decoder.attends:
            weights = weights if model.decoder.looks_first else look(below)
            coverage = coverage + weights
            fed = torch.tanh(model.decoder.combine.weight @ torch.cat((weights @ memory, below)))
        hidden.append(model.narrow(fed))
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


def agrees(model: Seq2Seq, attention: str) -> None:
    """The fast forward pass with a padded batch equals `definition`, in values and gradients."""
    fast = model(SOURCE, LENGTHS, TARGET)
    rows = [definition(model, attention, SOURCE[row, :length], TARGET[row]) for row, length in enumerate(LENGTHS)]
    slow = torch.stack(rows)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-9)
    parameters = [parameter for key, parameter in model.named_parameters() if key != "output_bias"]
    pull = torch.randn_like(fast)
    found = torch.autograd.grad(fast, parameters, pull)
    for one, other in zip(found, torch.autograd.grad(slow, parameters, pull), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 2])
def test_forget_gates_start_open(layers: int) -> None:
    model = Seq2Seq(9, 9, embedding=4, width=6, layers=layers)
    cells = [module for module in model.modules() if isinstance(module, LSTMCell)]
    assert len(cells) == 3 * layers  # both directions of the encoder, and the decoder
    for cell in cells:
        for name, parameter in cell.named_parameters():
            if "bias" in name:
                write, forget, candidate, show = parameter.chunk(4)
                assert (forget == (1.0 if "bias_ih" in name else 0.0)).all()
                assert not torch.cat((write, candidate, show)).any()


def test_gru_biases_start_at_zero() -> None:
    model = Seq2Seq(9, 9, cell="gru", embedding=4, width=6)
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
        return model.decoder._unroll(model.target_embedding(TARGET), state)[0]

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
        _, state, weights = model.step(TARGET[:, place], state)
        total = total + weights
    mine = state.select(torch.tensor([1, 0]))
    assert torch.equal(mine.coverage, total.flip(0))


@pytest.mark.parametrize("attend", ["after", "before"])
@torch.no_grad()
def test_hard_attention_looks_at_one_place_at_a_time(attend: str) -> None:
    model = build(attend=attend, hard_attention=True)
    whole, weights = model.logits(model(SOURCE, LENGTHS, TARGET)), model.attention(SOURCE, LENGTHS, TARGET)
    assert (weights.sort(-1).values == torch.tensor([0.0, 0.0, 0.0, 1.0])).all()
    assert (weights[0, ..., 3:] == 0).all()
    state = model.start(SOURCE, LENGTHS)
    for place in range(3):
        logits, state, _ = model.step(TARGET[:, place], state)
        assert torch.allclose(logits, whole[:, place], rtol=0, atol=1e-9)
    soft = build(attend=attend)
    soft.load_state_dict(model.state_dict())
    for part in (model, soft):  # trained in the same way
        part.train().encoder.dropout.p = part.decoder.dropout.p = 0.0
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), soft(SOURCE, LENGTHS, TARGET))


def test_folders_of_the_first_version_have_the_same_parameters_under_other_names() -> None:
    cell = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    encoder = [f"encoder.0.cells.{way}.{name}" for way in range(2) for name in cell]
    right = ["output_bias", "source_embedding.weight", "output_weight", "narrow.weight", "narrow.bias"]
    right += [*encoder, *(f"decoder.0.{name}" for name in cell)]
    right += [f"bridge.{part}.{name}" for part in range(2) for name in ("weight", "bias")]
    right += [f"attend.score.{name}" for name in ("memory.weight", "memory.bias", "query.weight", "energy.weight")]
    renamed = current_names(dict.fromkeys([*right, "combine.weight"]))
    assert sorted(dict(build().named_parameters())) == sorted(renamed)
    assert current_names(renamed) == renamed
