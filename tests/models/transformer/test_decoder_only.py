"""The translator that is one stack: what sees what, and that reading the source once is reading one sequence."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.errors import UserError
from harken.models.config import DecoderOnlyConfig
from harken.models.transformer.decoder_only import DecoderOnly

SOURCE = torch.tensor([[4, 5, 3, 0, 0], [6, 7, 8, 5, 3]])
LENGTHS = torch.tensor([3, 5])
TARGET = torch.tensor([[2, 5, 6], [2, 8, 4]])


def build(max_length: int = 512, **options: Any) -> DecoderOnly:
    torch.manual_seed(1)
    config = DecoderOnlyConfig(layers=2, width=8, heads=2, feedforward=12, **options)
    model = DecoderOnly(config.model_copy(update={"max_length": max_length}), 9, 9)  # shorter than a recipe may say
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def in_one_sequence(model: DecoderOnly, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The reference: one row without padding, a mask over source and target, all of it read at once."""
    size, time = len(source), len(target)
    embedded = torch.cat((model.source_embedding(source), model.target_embedding(target))) * math.sqrt(8)
    values = model.stack.add_positions(embedded[None])
    mask = torch.ones(size + time, size + time, dtype=torch.bool).tril()
    mask[:size, :size] = True
    found = []
    for block in model.stack.blocks:
        values, weights = block.with_weights(values, mask)
        found.append(weights)
    return model.stack.norm(values)[0, size:], torch.cat(found)[:, :, size:, :size]  # (T, D), (L, N, T, S)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"])
@torch.no_grad()
def test_reading_in_two_parts_is_reading_one_sequence(positions: str) -> None:
    model = build(positions=positions, max_distance=3)
    hidden, weights = model(SOURCE, LENGTHS, TARGET), model.attention(SOURCE, LENGTHS, TARGET)
    assert weights.shape == (2, 2, 2, 3, 5)
    for row, length in enumerate(LENGTHS.tolist()):
        right, seen = in_one_sequence(model, SOURCE[row, :length], TARGET[row])
        # padding moves a row along the table of angles, whose entries are rounded to float32
        assert torch.allclose(hidden[row], right, rtol=0, atol=1e-6 if positions == "rotary" else 1e-9)
        assert torch.allclose(weights[row, ..., :length], seen, rtol=0, atol=1e-6)
        assert (weights[row, ..., length:] == 0).all()


def test_the_source_sees_both_sides_and_the_target_only_its_past() -> None:
    model = build()
    embedded = model.source_embedding(SOURCE).detach().requires_grad_()
    written = model.target_embedding(TARGET).detach().requires_grad_()
    model.source_embedding.forward = lambda ids: embedded.gather(  # type: ignore[method-assign]
        1, ((torch.arange(5) - (5 - LENGTHS)[:, None]) % 5)[..., None].expand(-1, -1, 8)
    )
    model.target_embedding = torch.nn.Identity()
    hidden = model(SOURCE, LENGTHS, written)
    for place in range(3):
        on_source, on_target = torch.autograd.grad(hidden[:, place].sin().sum(), [embedded, written], retain_graph=True)
        assert (on_target[:, place + 1 :] == 0).all()
        assert (on_target[:, : place + 1] != 0).any(-1).all()
        assert (on_source[0, :3] != 0).any(-1).all()
        assert (on_source[0, 3:] == 0).all()


@torch.no_grad()
def test_alignment_is_the_share_of_each_source_word_in_what_falls_on_the_source() -> None:
    model = build(alignment_layer=-1, alignment_heads=[1])
    weights = model.attention(SOURCE, LENGTHS, TARGET)
    assert (weights.sum(-1) < 1).all()  # the rest falls on the target
    right = weights[:, 1, 1] / weights[:, 1, 1].sum(-1, keepdim=True)
    assert torch.allclose(model.alignment(weights), right, rtol=0, atol=1e-12)


@torch.no_grad()
def test_steps_without_weights_give_the_same_logits() -> None:
    model = build()
    with_weights, without = model.start(SOURCE, LENGTHS), model.start(SOURCE, LENGTHS)
    with_weights.need_weights = True
    for place in range(3):
        right, found = model.step(TARGET[:, place], with_weights), model.step(TARGET[:, place], without)
        assert torch.allclose(found, right, rtol=0, atol=1e-9)
        assert with_weights.attention is not None
        assert without.attention is None


def test_longer_than_learned() -> None:
    model = build(positions="learned", max_length=7)
    state = model.start(SOURCE, LENGTHS)
    for _ in range(2):
        model.step(TARGET[:, 0], state)
    with pytest.raises(UserError, match=r"a sequence of 8 tokens is too long: .* larger model\.max_length$"):
        model.step(TARGET[:, 0], state)
