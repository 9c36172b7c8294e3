"""Attention by distances in a dependency tree: what holds for every kind of positions holds with a tree too."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import (
    AlibiPositions,
    AttentionPositions,
    EncoderBlock,
    RelativePositions,
    RotaryPositions,
    SelfAttention,
    dependency_distances,
    length_mask,
)
from harken.nn.attention.head_scores import HEAD_SCORES
from harken.nn.attention.kv_cache import KVCache

WIDTH, HEADS = 8, 2
HEADS_OF = [[1, -1, 1, 4, 2], [-1, 0, 1, -1, -1]]  # five words, and three with two places of padding
APART = dependency_distances(torch.tensor(HEADS_OF))
LENGTHS = torch.tensor([5, 3])
each_score = pytest.mark.parametrize("score", HEAD_SCORES)


def build(score: str = "scaled", dtype: torch.dtype = torch.float64) -> SelfAttention:
    torch.manual_seed(1)
    layer = SelfAttention(WIDTH, HEADS, positions=RelativePositions(WIDTH // HEADS, clip=3), score=score)
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layer.to(dtype)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@given(
    st.sampled_from([*HEAD_SCORES]),
    st.lists(st.integers(0, 5), min_size=2, max_size=2),
    st.booleans(),
    st.sampled_from([torch.float64, torch.float32]),
)
def test_fast_equals_reference(score: str, lengths: list[int], causal: bool, dtype: torch.dtype) -> None:
    layer, values = build(score, dtype), draw(2, 5, WIDTH, dtype=dtype)
    mask = length_mask(torch.tensor(lengths), 5)[:, None, None]
    fast = layer(values, mask, causal, APART)
    slow, weights = layer.with_weights(values, mask, causal, APART)
    within = 1e-9 if dtype == torch.float64 else 1e-4
    assert torch.allclose(fast, slow, rtol=0, atol=within)
    seen = (torch.tensor(lengths) > 0).to(dtype)[:, None, None].expand(2, HEADS, 5)
    assert torch.allclose(weights.sum(-1), seen, atol=1e-5)
    into, grad_output = [values, *layer.parameters()], torch.randn_like(fast)
    found = torch.autograd.grad(fast, into, grad_output)
    for one, other in zip(found, torch.autograd.grad(slow, into, grad_output), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=100 * within)


@each_score
def test_padding_changes_nothing(score: str) -> None:
    layer, values = build(score), draw(2, 5, WIDTH)
    found = layer(values, length_mask(LENGTHS, 5)[:, None, None], distances=APART)
    alone = layer(values[1:, :3], distances=dependency_distances(torch.tensor([HEADS_OF[1][:3]])))
    assert torch.allclose(found[1:, :3], alone, rtol=0, atol=1e-9)


@each_score
def test_steps_with_a_cache_equal_the_whole(score: str) -> None:
    layer, values = build(score), draw(2, 5, WIDTH)
    caches = [KVCache(1, 2, HEADS, WIDTH // HEADS, 5, values.detach()) for _ in range(2)]
    whole = layer(values, None, True, APART)
    for place in range(5):
        row = APART[:, place : place + 1, : place + 1]
        here = values[:, place : place + 1]
        for cache in caches:
            cache.advance_()
        with torch.no_grad():
            now, _ = layer.step(here, caches[0], 0, distances=row)
            again, weights = layer.step(here, caches[1], 0, distances=row, need_weights=True)
        for found in (now, again):
            assert torch.allclose(found, whole[:, place : place + 1], rtol=0, atol=1e-9)
        assert weights.shape == (2, HEADS, 1, place + 1)


@each_score
def test_no_gradient_reaches_the_future(score: str) -> None:
    layer, values = build(score), draw(2, 5, WIDTH)
    for place in range(5):
        (gradient,) = torch.autograd.grad(layer(values, None, True, APART)[:, place].sum(), values)
        assert (gradient[:, place + 1 :] == 0).all()
        assert (gradient[:, : place + 1] != 0).all()


def test_the_tree_and_not_the_order_counts() -> None:
    """The same words hung up in another way are another sentence; moved about with their heads, they are the same."""
    layer, values = build(), draw(1, 3, WIDTH)
    chain, flat = torch.tensor([[1, 2, -1]]), torch.tensor([[2, 2, -1]])
    found = layer(values, distances=dependency_distances(chain))
    assert not torch.allclose(found, layer(values, distances=dependency_distances(flat)))
    moved = torch.tensor([[-1, 0, 1]])  # the chain read from its other end: word 2 governs 1, which governs 0
    turned = layer(values.flip(1), distances=dependency_distances(moved)).flip(1)
    assert torch.allclose(found, turned, rtol=0, atol=1e-9)


def test_kinds_that_know_no_distances_refuse_them() -> None:
    values = torch.randn(2, 5, WIDTH)
    for kind in (AttentionPositions(), AlibiPositions(HEADS), RotaryPositions(WIDTH // HEADS)):
        layer = SelfAttention(WIDTH, HEADS, positions=kind)
        message = f"distances were given, but {type(kind).__name__} does not use them; build with RelativePositions"
        for run in (
            lambda layer=layer: layer(values, distances=APART),
            lambda layer=layer: layer.with_weights(values, None, False, APART),
        ):
            with pytest.raises(ValueError, match=message):
                run()


def test_an_encoder_block_takes_the_tree() -> None:
    torch.manual_seed(1)
    block = EncoderBlock(WIDTH, HEADS, 12, positions=RelativePositions(WIDTH // HEADS, 3)).double()
    values, mask = draw(2, 5, WIDTH), length_mask(LENGTHS, 5)[:, None, None]
    found = block(values, mask, APART)
    alone = block(values[1:, :3], None, APART[1:, :3, :3])
    assert torch.allclose(found[1:, :3], alone, rtol=0, atol=1e-9)
    assert not torch.allclose(found, block(values, mask))
