"""Every cell in every wiring: forward equals the reference, in pieces or whole, padded or not, traced or not."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from harken.nn import RNN

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import VARIANTS, build, cases, copy_cell, parts_of, random_state

SHAPE = ["bias", "bidirectional", "layer_norm", "connections", "zoneout", "recurrent_dropout"]


def made(case: dict[str, Any], dtype: torch.dtype) -> Any:
    torch.manual_seed(case["seed"])
    options = {name: case[name] for name in SHAPE}
    return build(case["variant"], case["inputs"], case["hidden"], case["layers"], dtype, **options)


def gradients_of(output: Tensor, state: Any, into: list[Tensor]) -> list[Tensor]:
    """Gradients of a loss that weighs every number differently."""
    loss = sum((part * torch.linspace(-1, 2, part.numel()).view_as(part)).sum() for part in (output, *parts_of(state)))
    return list(torch.autograd.grad(loss, into, allow_unused=True, materialize_grads=True))


@settings(deadline=None, max_examples=120)
@given(cases())
def test_forward_equals_the_reference(case: dict[str, Any]) -> None:
    dtype, tolerance = (torch.float32, 1e-4) if case["seed"] % 4 == 0 else (torch.float64, 1e-9)
    layer = made(case, dtype)
    values = torch.randn(case["batch"], case["time"], case["inputs"], dtype=dtype, requires_grad=True)
    state = random_state(layer, case["batch"]) if case["with_state"] else None
    lengths = None if case["lengths"] is None else torch.tensor(case["lengths"])
    into = [values, *layer.parameters()]
    torch.manual_seed(0)
    output, last = layer(values, state, lengths)
    torch.manual_seed(0)
    right, right_last = layer.reference(values, state, lengths)
    scale = 1 + right.abs().max().item() + max(part.abs().max().item() for part in parts_of(right_last))
    for found, wanted in zip((output, *parts_of(last)), (right, *parts_of(right_last)), strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=tolerance * scale)
    for found, wanted in zip(gradients_of(output, last, into), gradients_of(right, right_last, into), strict=True):
        assert torch.allclose(found, wanted, rtol=tolerance, atol=tolerance * (1 + wanted.abs().max().item()))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("connections", [None, "highway"])
def test_alone_or_padded(variant: str, connections: str | None) -> None:
    """The same sentence alone, and in a batch whose padding holds anything at all; the padding gets no gradient."""
    torch.manual_seed(2)
    layer = build(variant, 3, 4, 2, torch.float32, bidirectional=True, connections=connections)
    batch = torch.randn(3, 6, 3)
    alone, state_alone = layer(batch[1:2, :4])
    batch[1, 4:] = float("nan")
    batch.requires_grad_()
    output, state = layer(batch, lengths=torch.tensor([2, 4, 6]))
    assert torch.allclose(output[1, :4], alone[0], atol=1e-6)
    assert (output[1, 4:] == 0).all()
    for found, right in zip(parts_of(state), parts_of(state_alone), strict=True):
        assert torch.allclose(found[:, 1], right[:, 0], atol=1e-6)
    output.sum().backward()
    assert (batch.grad[1, 4:] == 0).all()
    assert batch.grad.isfinite().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_in_pieces_equals_whole(variant: str) -> None:
    torch.manual_seed(3)
    layer = build(variant, 3, 4, 2, connections="residual", layer_norm=variant.startswith("gru"))
    values = torch.randn(2, 7, 3, dtype=torch.float64)
    whole, last = layer(values)
    state, pieces = None, []
    for piece in values.split([1, 4, 2], 1):
        output, state = layer(piece, state)
        pieces.append(output)
    assert torch.allclose(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)
    for found, right in zip(parts_of(state), parts_of(last), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", ["relu", "lstm full", "gru before", "lstm"])
def test_the_second_direction_reads_backwards(variant: str) -> None:
    """With the weights of its two directions exchanged, a layer reads a reversed row as the first read the row."""
    torch.manual_seed(4)
    layer, mirror = (build(variant, 3, 4, bidirectional=True) for _ in range(2))
    copy_cell(layer.cells[1], mirror.cells[0])
    copy_cell(layer.cells[0], mirror.cells[1])
    values = torch.randn(2, 5, 3, dtype=torch.float64)
    forward, backward = layer(values)[0].chunk(2, -1)
    found = mirror(values.flip(1))[0].flip(1)
    assert torch.allclose(found, torch.cat((backward, forward), -1), rtol=0, atol=1e-12)
    assert not torch.allclose(forward, backward)


def test_zoneout_and_recurrent_dropout_are_random_in_training_alone() -> None:
    torch.manual_seed(5)
    values = torch.randn(2, 6, 3, dtype=torch.float64)
    for option in ({"zoneout": 0.5}, {"recurrent_dropout": 0.5}):
        layer = build("lstm", 3, 16, **option)
        assert not torch.equal(layer(values)[0], layer(values)[0])
        layer.eval()
        assert torch.equal(layer(values)[0], layer(values)[0])
        plain = build("lstm", 3, 16)
        plain.load_state_dict(layer.state_dict())
        same = torch.allclose(plain(values)[0], layer(values)[0], rtol=0, atol=1e-12)
        assert same == ("recurrent_dropout" in option)  # zoneout goes on by its mean, as in the paper


def test_zoneout_keeps_units_as_they_were() -> None:
    torch.manual_seed(6)
    layer = build("gru after", 3, 200, zoneout=0.25)
    output, _, trace = layer(torch.randn(1, 20, 3, dtype=torch.float64), trace=True)
    stayed = (output[:, 1:] == output[:, :-1]).double().mean().item()
    assert stayed == pytest.approx(0.25, abs=0.03)
    assert torch.equal(trace[0].hidden, output)


def test_recurrent_dropout_hides_the_same_units_at_every_step() -> None:
    """An RNN that copies its state through a unit matrix: hidden units see the past or never do."""
    layer = RNN(1, 50, nonlinearity="relu", bias=False, recurrent_dropout=0.5, dtype=torch.float64, batch_first=True)
    with torch.no_grad():
        layer.cells[0].weight_ih.fill_(1.0)
        layer.cells[0].weight_hh.copy_(torch.eye(50))
    torch.manual_seed(7)
    output, _ = layer(torch.ones(1, 4, 1, dtype=torch.float64))
    assert set(output[0, 3].tolist()) == {1.0, 15.0}  # 1, or 1 + 2 (1 + 2 (1 + 2))
