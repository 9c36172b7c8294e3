"""Poolings are their formulas, padding changes nothing, and every choice has gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from harken.models.base import Memory
from harken.models.build import build_encoder
from harken.models.config import EncoderConfig
from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.pooling import POOLINGS, Pooling
from harken.models.reader import FrameInput, Reader, TokenInput

TABLES: list[dict[str, Any]] = [
    {"architecture": "recurrent", "embedding": 6, "width": 8},
    {"architecture": "transformer", "width": 8, "heads": 2, "feedforward": 16, "layers": 1},
    {"architecture": "convolutional", "embedding": 6, "width": 8, "layers": 1},
    {"architecture": "filters", "embedding": 6, "width": 8, "kernels": [2, 3]},
]


def model_of(table: dict[str, Any], pooling: str, frames: bool, **options: Any) -> ClassifierModel:
    torch.manual_seed(3)
    encoder = build_encoder(TypeAdapter(EncoderConfig).validate_python(table))
    inputs = FrameInput(3, encoder.embedding) if frames else TokenInput(11, encoder.embedding)
    return ClassifierModel(Reader(inputs, encoder), 4, pooling=pooling, **options)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["architecture"])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("frames", [False, True])
def test_padding_changes_nothing(table: dict[str, Any], pooling: str, frames: bool) -> None:
    model = model_of(table, pooling, frames).eval()
    values = torch.randn(2, 7, 3) if frames else torch.randint(4, 11, (2, 7))
    values[1, 4:] = 0
    lengths = torch.tensor([7, 4])
    together, weights = model(values, lengths)
    alone, own = model(values[1:, :4], None)
    assert torch.allclose(together[1], alone[0], atol=1e-6)
    assert (weights is None) == (pooling != "attention")
    if weights is not None:
        assert torch.allclose(weights[1, :4], own[0], atol=1e-6)
        assert weights[1, 4:].tolist() == [0.0] * 3
        assert torch.allclose(weights.sum(1), torch.ones(2))
    felt = model.saliency(values, lengths)
    assert torch.allclose(felt[1, :4], model.saliency(values[1:, :4], None)[0], atol=1e-6)
    assert felt[1, 4:].abs().max() == 0 and felt[0].min() >= 0 and felt[0].max() > 0


def test_poolings_are_their_formulas() -> None:
    values = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [50.0, 60.0]]])
    memory, lengths = Memory(values, torch.tensor([[True, True, False]])), torch.tensor([2])
    found = {kind: Pooling(kind, 2)(memory, lengths)[0][0].tolist() for kind in ("last", "mean", "max")}
    assert found == {"last": [3.0, -2.0], "mean": [2.0, -3.0], "max": [3.0, -2.0]}
    pooling = Pooling("attention", 2, "dot")
    vector, weights = pooling(memory, lengths)
    assert weights is not None and pooling.attention is not None
    expected = torch.softmax(values[0, :2] @ pooling.attention.query, 0)
    assert torch.allclose(weights[0, :2], expected) and weights[0, 2] == 0
    assert torch.allclose(vector[0], expected @ values[0, :2])
    with pytest.raises(ValueError, match="no pooling called 'sum'"):
        Pooling("sum", 2)


def test_last_of_a_recurrent_encoder_is_the_last_state_of_both_directions() -> None:
    model = model_of(TABLES[0], "last", False).eval()
    ids, lengths = torch.tensor([[5, 6, 3, 0]]), torch.tensor([3])
    memory = model.reader(ids, lengths)
    expected = torch.cat(
        [memory.values[0, 2, :4], memory.values[0, 0, 4:]]
    )  # forwards at the end, backwards at the start
    assert torch.allclose(model.pooling(memory, lengths)[0][0], expected)


def test_saliency_is_the_gradient_of_the_winning_logit() -> None:
    model = model_of(TABLES[0], "mean", False).eval()
    ids = torch.tensor([[5, 6, 7]])
    embedded = model.reader.inputs(ids).detach()
    felt = model.saliency(ids, None)[0]
    best = int(model(ids, None)[0].argmax())
    direction = torch.zeros_like(embedded)
    direction[0, 1, 2] = 1e-3
    with torch.no_grad():
        slope = (model.decide(embedded + direction, None)[0] - model.decide(embedded - direction, None)[0])[
            0, best
        ] / 2e-3
    assert abs(float(slope)) <= float(felt[1]) + 1e-3
    assert float(felt[1]) > 0


def test_word_dropout_makes_words_unknown_and_leaves_the_rest() -> None:
    model = model_of(TABLES[0], "mean", False, word_dropout=0.5)
    ids = torch.tensor([[5, 3, 0]] * 400)
    changed = model.train().disturbed(ids)
    assert changed[:, 1:].tolist() == ids[:, 1:].tolist()
    share = (changed[:, 0] == 1).float().mean()
    assert 0.4 < share < 0.6 and set(changed[:, 0].tolist()) == {1, 5}
    assert model.eval().disturbed(ids) is ids


def test_noise_is_a_share_of_each_channel_and_only_in_training() -> None:
    model = model_of(TABLES[0], "mean", True, noise=0.5)
    assert isinstance(model.reader.inputs, FrameInput)
    model.reader.inputs.fit(torch.randn(5000, 3) * torch.tensor([1.0, 10.0, 0.1]))
    frames = torch.zeros(200, 50, 3)
    spread = model.train().disturbed(frames).std((0, 1))
    assert torch.allclose(spread, torch.tensor([0.5, 5.0, 0.05]), rtol=0.1)
    assert model.eval().disturbed(frames) is frames


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_parameter_is_trained(pooling: str) -> None:
    model = model_of(TABLES[0], pooling, False)
    logits, _ = model(torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([3, 2]))
    torch.nn.functional.cross_entropy(logits, torch.tensor([1, 2])).backward()
    assert [name for name, value in model.named_parameters() if value.grad is None] == []


def test_merged_labels_have_the_summed_chances_of_their_own() -> None:
    torch.manual_seed(3)
    encoder = build_encoder(TypeAdapter(EncoderConfig).validate_python(TABLES[0]))
    model = ClassifierModel(Reader(TokenInput(11, encoder.embedding), encoder), 4, merged=[1, 0, 1, 2]).eval()
    ids = torch.randint(4, 11, (2, 5))
    fine = torch.softmax(model.finely(ids, None)[0], -1)
    found = torch.softmax(model(ids, None)[0], -1)
    wanted = torch.stack([fine[:, 1], fine[:, 0] + fine[:, 2], fine[:, 3]], 1)
    torch.testing.assert_close(found, wanted)
    loss = torch.nn.functional.cross_entropy(model(ids, None)[0], torch.tensor([1, 2]))
    loss.backward()
    assert all(torch.isfinite(value.grad).all() for value in model.parameters() if value.grad is not None)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["architecture"])
def test_members_answer_with_their_mean_chance(table: dict[str, Any]) -> None:
    torch.manual_seed(3)
    config = TypeAdapter(EncoderConfig).validate_python(table)
    first, *others = (build_encoder(config) for _ in range(3))
    model = ClassifierModel(Reader(TokenInput(11, first.embedding), first), 4, merged=[0, 1, 1, 0], others=others)
    model.eval()
    ids = torch.randint(4, 11, (2, 5))
    said = model.each(ids, None)
    chances = torch.stack([torch.softmax(logits, -1) for logits, _ in said])
    assert len(said) == 3 and not torch.allclose(chances[0], chances[1])
    mean = chances.mean(0)
    found, weights = model(ids, None)
    wanted = torch.stack([mean[:, 0] + mean[:, 3], mean[:, 1] + mean[:, 2]], 1)
    torch.testing.assert_close(torch.softmax(found, -1), wanted)
    assert weights is not None
    torch.testing.assert_close(weights, torch.stack([one for _, one in said if one is not None]).mean(0))
    found.logsumexp(-1).sum().backward()  # always 0: chances sum to 1
    found = model(ids, None)[0]
    found[:, 0].sum().backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in model.others.parameters())
    assert model.saliency(ids, None).shape == (2, 5)
