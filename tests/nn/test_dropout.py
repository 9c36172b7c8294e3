"""Dropout zeroes the share it says, keeps the mean, and sends gradients through the same mask."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from harken.nn import Dropout, VariationalDropout
from harken.nn.dropout import random_keep

MANY = 200_000


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_of_zeros_and_mean(p: float) -> None:
    torch.manual_seed(1)
    rounded = round(p * 256) / 256
    dropped = Dropout(p)(torch.ones(MANY))
    spread = 5 * (rounded * (1 - rounded) / MANY) ** 0.5
    assert (dropped == 0).float().mean().item() == pytest.approx(rounded, abs=spread)
    assert dropped.mean().item() == pytest.approx(1.0, abs=spread / (1 - rounded))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - rounded)])


@pytest.mark.parametrize("threshold", [26, 128, 230])
def test_every_byte_of_a_draw_is_fair(threshold: int) -> None:
    """Eight values share 64 bits; the sign and top byte must be as random as the rest, and all lanes independent."""
    torch.manual_seed(2)
    keep = random_keep(torch.Size([MANY, 8]), threshold).double()
    share = 1 - threshold / 256
    spread = 5 * (share * (1 - share) / MANY) ** 0.5
    assert keep.mean(0).tolist() == pytest.approx([share] * 8, abs=spread)
    together = torch.corrcoef(keep.t()) - torch.eye(8)
    assert together.abs().max() < 5 / MANY**0.5


@given(st.lists(st.integers(0, 5), max_size=3), st.integers(1, 255))
def test_masks_of_any_shape(shape: list[int], threshold: int) -> None:
    keep = random_keep(torch.Size(shape), threshold)
    assert keep.shape == tuple(shape)
    assert keep.dtype == torch.bool


def test_gradient_has_the_mask_of_the_values() -> None:
    torch.manual_seed(3)
    values = torch.randn(7, 9).t().requires_grad_()  # not contiguous, and no multiple of 8
    dropped = Dropout(0.4)(values)
    pull = torch.randn(9, 7)
    (gradient,) = torch.autograd.grad(dropped, values, pull)
    scale = 256 / (256 - round(0.4 * 256))
    assert 5 < (dropped == 0).sum() < 55
    assert torch.allclose(gradient, pull * (dropped != 0) * scale)
    assert torch.allclose(dropped, values * (dropped != 0) * scale)


@pytest.mark.parametrize("kind", [Dropout, VariationalDropout])
def test_nothing_happens_in_eval_mode_or_at_zero(kind: type[nn.Module]) -> None:
    values = torch.randn(2, 3, 4)
    assert kind(0.5).eval()(values) is values
    assert kind(0.0).train()(values) is values


@pytest.mark.parametrize("kind", [Dropout, VariationalDropout])
def test_seeded(kind: type[nn.Module]) -> None:
    values, layer = torch.ones(4, 5, 16), kind(0.5)
    torch.manual_seed(4)
    first, second = layer(values), layer(values)
    torch.manual_seed(4)
    assert torch.equal(layer(values), first)
    assert not torch.equal(first, second)


def test_shares_too_small_or_large_for_a_byte() -> None:
    torch.manual_seed(5)
    assert 0 < (Dropout(0.001)(torch.ones(MANY)) == 0).sum() < MANY / 500
    assert 0 < (Dropout(0.999)(torch.ones(MANY)) != 0).sum() < MANY / 500


def test_bfloat16_stays() -> None:
    dropped = Dropout(0.5)(torch.ones(64, dtype=torch.bfloat16))
    assert dropped.dtype == torch.bfloat16
    assert set(dropped.tolist()) == {0.0, 2.0}


def test_variational_drops_the_same_features_at_every_step() -> None:
    torch.manual_seed(6)
    dropped = VariationalDropout(0.25)(torch.ones(50, 6, 40))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(dropped[0], dropped[1])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.05)
    assert dropped.unique().tolist() == pytest.approx([0.0, 4 / 3])


def test_variational_mask_is_for_a_loop() -> None:
    layer, like = VariationalDropout(0.5), torch.zeros(1, dtype=torch.float64)
    mask = layer.mask(3, 200, like)
    assert mask.shape == (3, 200)
    assert mask.dtype == torch.float64
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    assert layer.eval().mask(3, 200, like) is None


@pytest.mark.parametrize("kind", [Dropout, VariationalDropout])
@pytest.mark.parametrize("value", [True, -0.1, 1.5])
def test_what_is_no_probability_is_refused(kind: type[torch.nn.Module], value: float) -> None:
    with pytest.raises(ValueError, match=f"p is {value}, but it is a probability"):
        kind(value)
