"""The Transformer against torch's layers, and what is read from its attention as alignment."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from harken.errors import UserError
from harken.models.build import build_model
from harken.models.config import TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder
from harken.nn.positions.absolute import sinusoids

SOURCE = torch.tensor([[4, 5, 3, 0], [6, 7, 5, 3]])
LENGTHS = torch.tensor([3, 4])
TARGET = torch.tensor([[2, 5, 6], [2, 8, 4]])


def build(max_length: int = 512, **options: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    config = TransformerConfig(width=8, heads=2, feedforward=12, **options)
    model = build_model(config.model_copy(update={"max_length": max_length}), 9, 9)  # shorter than a recipe may say
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def peer_of(model: EncoderDecoder, norm: str) -> nn.Transformer:
    """torch's own Transformer with our weights."""
    layers, blocks = len(model.encoder.stack.blocks), [*model.encoder.stack.blocks, *model.decoder.stack.blocks]
    peer = nn.Transformer(8, 2, layers, layers, 12, 0.0, batch_first=True, norm_first=norm == "pre").double().eval()
    if norm == "post":
        peer.encoder.norm = peer.decoder.norm = None
    else:
        peer.encoder.norm.load_state_dict(model.encoder.stack.norm.state_dict())
        peer.decoder.norm.load_state_dict(model.decoder.stack.norm.state_dict())
    for theirs, ours in zip([*peer.encoder.layers, *peer.decoder.layers], blocks, strict=True):
        norms = [ours.attention_norm, ours.feedforward_norm]
        attentions = [(theirs.self_attn, ours.attention, [ours.attention.query_key_value])]
        if hasattr(ours, "cross"):
            norms.insert(1, ours.cross_norm)
            attentions.append((theirs.multihead_attn, ours.cross, [ours.cross.query, ours.cross.key_value]))
        for place, layer_norm in enumerate(norms):
            getattr(theirs, f"norm{place + 1}").load_state_dict(layer_norm.state_dict())
        for attention, own, parts in attentions:
            attention.in_proj_weight.data.copy_(torch.cat([part.weight for part in parts]))
            attention.in_proj_bias.data.copy_(torch.cat([part.bias for part in parts]))
            attention.out_proj.load_state_dict(own.output.state_dict())
        theirs.linear1.load_state_dict(ours.feedforward.expand.state_dict())
        theirs.linear2.load_state_dict(ours.feedforward.contract.state_dict())
    return peer


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torchs_transformer(norm: str) -> None:
    model = build(layers=2, norm=norm)
    peer = peer_of(model, norm)
    table = sinusoids(4, 8).double()
    source = model.source_embedding.weight[SOURCE] * math.sqrt(8) + table
    target = model.target_embedding.weight[TARGET] * math.sqrt(8) + table[:3]
    padding, future = SOURCE == 0, torch.ones(3, 3, dtype=torch.bool).triu(1)
    hidden = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    right = peer(source, target, tgt_mask=future, tgt_is_causal=True, **hidden)
    found = model(SOURCE, LENGTHS, TARGET)
    assert torch.allclose(found, right, rtol=0, atol=1e-9)
    grad_output = torch.randn_like(found)
    weight = model.source_embedding.weight
    (one,) = torch.autograd.grad(found, weight, grad_output)
    (other,) = torch.autograd.grad(right, weight, grad_output)
    assert torch.allclose(one[1:], other[1:], rtol=0, atol=1e-9)
    assert (one[0] == 0).all()  # the padding id learns nothing from being read


def test_positions_beyond_the_table() -> None:
    """Sentences longer than the first table of positions, at once and step by step."""
    model = build(layers=1)
    tables = [model.encoder.stack.positions, model.decoder.stack.positions]
    for positions in tables:
        positions.table = positions.table[:2]
    with torch.no_grad():
        whole = model.logits(model(SOURCE, LENGTHS, TARGET))
        for positions in tables:
            positions.table = positions.table[:2]
        state = model.start(SOURCE, LENGTHS)
        for place in range(3):
            logits = model.step(TARGET[:, place], state)
            assert torch.allclose(logits, whole[:, place], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("layers", "options", "layer", "heads"),
    [
        (3, {}, 1, [0, 1]),
        (1, {}, 0, [0, 1]),
        (3, {"alignment_layer": 0, "alignment_heads": [1]}, 0, [1]),
        (3, {"alignment_layer": -1}, 2, [0, 1]),
    ],
)
@torch.no_grad()
def test_alignment_is_the_mean_over_its_heads(layers: int, options: dict, layer: int, heads: list[int]) -> None:
    model = build(layers=layers, **options)
    weights = model.attention(SOURCE, LENGTHS, TARGET)
    assert weights.shape == (2, layers, 2, 3, 4)
    assert torch.allclose(weights.sum(-1), torch.ones((), dtype=torch.float64))
    assert (weights[0, ..., 3:] == 0).all()
    right = sum(weights[:, layer, head] for head in heads) / len(heads)
    assert torch.allclose(model.alignment(weights), right, rtol=0, atol=1e-12)


@torch.no_grad()
def test_steps_without_weights_give_the_same_logits() -> None:
    model = build(layers=2)
    with_weights, without = model.start(SOURCE, LENGTHS), model.start(SOURCE, LENGTHS)
    with_weights.need_weights = True
    for place in range(3):
        right, found = model.step(TARGET[:, place], with_weights), model.step(TARGET[:, place], without)
        assert torch.allclose(found, right, rtol=0, atol=1e-9)
        assert with_weights.attention is not None
        assert without.attention is None


def test_the_cache_is_allocated_once_for_the_longest_output() -> None:
    model = build(layers=2)
    state = model.start(SOURCE, LENGTHS, max_length=3)
    place = state.cache.values.data_ptr()
    for time in range(3):
        assert state.position == time
        model.step(TARGET[:, time], state)
        assert [layer.shape[3] for layer in state.cache.contents] == [time + 1] * 2
        assert state.cache.values.data_ptr() == place
    model.step(TARGET[:, 0], state)
    assert len(state.cache.values) == 6  # more than was said: it grows


def test_first_weights() -> None:
    model = build_model(TransformerConfig(layers=1, width=8, heads=2, feedforward=12), 9, 9)
    assert (model.source_embedding.weight[0] == 0).all()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name


POSITIONS = ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_order_of_the_source_is_known_unless_positions_are_none(positions: str) -> None:
    model = build(layers=1, positions=positions)
    turned = SOURCE[1:, [1, 0, 2, 3]]
    found, other = (model(source, None, TARGET[1:]) for source in (SOURCE[1:], turned))
    assert torch.allclose(found, other, rtol=0, atol=1e-9) == (positions == "none")


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_gradient_reaches_later_tokens(positions: str) -> None:
    model = build(layers=2, positions=positions)
    values = model.target_embedding(TARGET).detach().requires_grad_()
    memory = model.encode(SOURCE, LENGTHS)
    for row in range(3):
        hidden = model.decoder(values, memory)
        (gradient,) = torch.autograd.grad(hidden[:, row].sum(), values, retain_graph=True)
        assert (gradient[:, row + 1 :] == 0).all()
        assert (gradient[:, : row + 1] != 0).any(-1).all()


def test_longer_than_learned() -> None:
    model = build(layers=1, positions="learned", max_length=3)
    message = (
        "^a sequence of 4 tokens is too long: positions were learned for 3; "
        r"shorten the text, or train with a larger model\.max_length$"
    )
    with pytest.raises(UserError, match=message):
        model.start(SOURCE, LENGTHS)
    state = model.start(SOURCE[:, :3], None)
    for _ in range(3):
        model.step(TARGET[:, 0], state)
    with pytest.raises(UserError, match=message):
        model.step(TARGET[:, 0], state)


@torch.no_grad()
def test_a_far_limit_costs_no_memory_before_it_is_reached() -> None:
    model = build(layers=1)
    state = model.start(SOURCE, LENGTHS, max_length=100_000)
    assert len(state.cache.values) == 64
    for place in range(66):
        model.step(TARGET[:, place % 3], state)
        state.reorder_(torch.arange(2))
    assert len(state.cache.values) == 128
    whole = torch.cat([TARGET] * 22, 1)
    right = model.logits(model(SOURCE, LENGTHS, torch.cat((whole, TARGET[:, :1]), 1)))[:, -1]
    assert torch.allclose(model.step(TARGET[:, 0], state), right, rtol=0, atol=1e-9)
