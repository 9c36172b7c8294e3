"""Every kind of positions with every score: fast = reference, cached = uncached, no leak from the future, no NaN."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import (
    AlibiPositions,
    AttentionPositions,
    EncoderBlock,
    RelativePositions,
    RotaryPositions,
    SelfAttention,
    length_mask,
)
from harken.nn.attention.functional import attend_with_weights
from harken.nn.attention.head_scores import HEAD_SCORES
from harken.nn.attention.kv_cache import KVCache
from harken.nn.positions.alibi import slopes

WIDTH, HEADS, CLIP = 12, 3, 2
KINDS: dict[str, Callable[[], AttentionPositions]] = {
    "none": AttentionPositions,
    "rotary": lambda: RotaryPositions(WIDTH // HEADS),
    "alibi": lambda: AlibiPositions(HEADS),
    "relative": lambda: RelativePositions(WIDTH // HEADS, CLIP),
}
PAIRS = [pair for pair in product(KINDS, HEAD_SCORES) if pair != ("rotary", "additive")]
EVERY = pytest.mark.parametrize(("kind", "score"), PAIRS)
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, score: str = "scaled", dropout: float = 0.0) -> SelfAttention:
    torch.manual_seed(1)
    layer = SelfAttention(WIDTH, HEADS, dropout, KINDS[kind](), score).double()
    layer.query_key_value.bias.data.normal_()
    for parameter in layer.score.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def close(found: Tensor, right: Tensor, within: float = 1e-9) -> bool:
    return found.shape == right.shape and torch.allclose(found, right, rtol=0, atol=within)


@EVERY
@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=3), st.booleans(), st.booleans())
def test_fast_equals_reference(kind: str, score: str, lengths: list[int], masked: bool, causal: bool) -> None:
    """In values and gradients, whatever the shapes; rows that may see nothing give numbers, and no gradient is NaN."""
    layer, values = build(kind, score), draw(len(lengths), 6, WIDTH)
    mask = length_mask(torch.tensor(lengths), 6)[:, None, None] if masked else None
    fast = layer(values, mask, causal)
    slow, weights = layer.with_weights(values, mask, causal)
    assert close(fast, slow)
    sums = weights.sum(-1)
    seen = (
        torch.ones_like(sums) if mask is None else (torch.tensor(lengths) > 0)[:, None, None].expand_as(sums).double()
    )
    assert close(sums, seen, 1e-6)
    into, grad_output = [values, *layer.parameters()], torch.randn_like(fast)
    found = torch.autograd.grad(fast, into, grad_output, retain_graph=True)
    for one, other in zip(found, torch.autograd.grad(slow, into, grad_output), strict=True):
        assert close(one, other)


@EVERY
def test_steps_with_a_cache_equal_the_whole(kind: str, score: str) -> None:
    layer, values = build(kind, score), draw(2, 7, WIDTH)
    whole = layer(values, causal=True)
    for static in (False, True):
        cache = KVCache(1, 2, HEADS, WIDTH // HEADS, 8, values.detach(), static)
        with torch.no_grad():
            for place in range(7):
                if static and kind == "dependency":
                    break
                cache.advance_()
                now, _ = layer.step(values[:, place : place + 1], cache, 0)
                assert close(now, whole[:, place : place + 1])


@EVERY
def test_no_gradient_reaches_the_future(kind: str, score: str) -> None:
    layer, values = build(kind, score), draw(1, 5, WIDTH)
    for paths in (lambda: layer(values, causal=True), lambda: layer.with_weights(values, None, True)[0]):
        for row in range(5):
            (gradient,) = torch.autograd.grad(paths()[:, row].sum(), values)
            assert (gradient[:, row + 1 :] == 0).all()
            assert (gradient[:, : row + 1] != 0).all()


@EACH_KIND
def test_padding_changes_nothing(kind: str) -> None:
    layer, values = build(kind), draw(1, 4, WIDTH)
    padded = torch.cat((values, draw(1, 3, WIDTH)), 1)
    mask = length_mask(torch.tensor([4]), 7)[:, None, None]
    assert close(layer(padded, mask)[:, :4], layer(values))


@EACH_KIND
def test_a_shift_changes_no_weights(kind: str) -> None:
    """Only distances count: the same words later in a sequence look at each other in the same way."""
    layer, values, start = build(kind), draw(1, 4, WIDTH), 37
    turned = [layer.project(values, first) for first in (0, start)]
    functions = layer.positions.functions(layer.score, 4, 4)._asdict()
    here, there = (attend_with_weights(*parts, **functions)[1] for parts in turned)
    assert close(here, there, 1e-6)  # tables of angles are float32
    if kind == "rotary":
        assert not torch.allclose(turned[0][0], turned[1][0])


@EACH_KIND
def test_order_is_seen_by_all_but_none(kind: str) -> None:
    layer, values = build(kind), draw(1, 5, WIDTH)
    moved = layer(values.flip(1)).flip(1)
    assert close(moved, layer(values)) == (kind in ("none", "alibi"))  # without a mask ALiBi sees |i - j| alone
    swapped = [1, 0, 2, 3, 4]
    assert close(layer(values[:, swapped])[:, swapped], layer(values)) == (kind == "none")


@EACH_KIND
def test_dropout_in_training_alone(kind: str) -> None:
    layer, values = build(kind, dropout=0.5), draw(2, 5, WIDTH)
    assert not torch.allclose(layer(values), layer(values))
    assert torch.equal(layer.eval()(values), layer(values))


@EACH_KIND
def test_bfloat16_autocast_is_near_float32(kind: str) -> None:
    layer, values = build(kind).float(), torch.randn(2, 5, WIDTH)
    mask = length_mask(torch.tensor([3, 5]), 5)[:, None, None]
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(values, mask, True)
    assert torch.allclose(half.float(), layer(values, mask, True), rtol=0.05, atol=0.03)


def test_rotary_is_a_rotation_matrix_for_each_position() -> None:
    layer, values = RotaryPositions(4).double(), draw(1, 1, 3, 4)
    turned = layer.rotate(values, 5)
    for row in range(3):
        for pair in range(2):
            angle = (5 + row) / 10000 ** (2 * pair / 4)
            matrix = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            right = torch.tensor(matrix, dtype=torch.float64) @ values[0, 0, row, 2 * pair : 2 * pair + 2]
            assert close(turned[0, 0, row, 2 * pair : 2 * pair + 2], right, 1e-6)
    with pytest.raises(ValueError, match="even width, not 3"):
        RotaryPositions(3)


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_alibi_slopes_are_a_geometric_row(heads: int) -> None:
    right = torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])
    assert torch.allclose(slopes(heads), right)


def test_alibi_slopes_for_other_numbers_of_heads() -> None:
    assert torch.equal(slopes(12)[:8], slopes(8))
    assert torch.equal(slopes(12)[8:], slopes(16)[0:8:2])


def test_alibi_scores_fall_with_distance() -> None:
    found = AlibiPositions(2).bias(2, 4)  # queries at positions 2 and 3
    right = [[[-2, -1, 0, -1], [-3, -2, -1, 0]]]
    assert torch.equal(found, slopes(2)[:, None, None] * torch.tensor(right, dtype=torch.float32))


def test_relative_beyond_the_clip_is_the_clip() -> None:
    layer = RelativePositions(4, clip=2)
    assert layer.buckets(5, 5).tolist() == [[max(-2, min(2, j - i)) + 2 for j in range(5)] for i in range(5)]


def test_given_distances_take_the_place_of_order() -> None:
    layer, values = build("relative"), draw(2, 4, WIDTH)
    apart = torch.randint(-4, 5, (2, 4, 4))
    slow = layer.with_weights(values, None, False, apart)[0]
    assert close(layer(values, distances=apart), slow)
    by_order = torch.arange(4) - torch.arange(4)[:, None]
    assert close(layer(values, distances=by_order.expand(2, 4, 4)), layer(values))
    assert not torch.allclose(slow, layer(values))
    block = EncoderBlock(WIDTH, HEADS, 8, positions=KINDS["relative"]()).double()
    assert not torch.allclose(block(values, None, apart), block(values, None))
