"""The density of the next point: it is one, it is torch's, its derivatives are right, and what is drawn follows it."""

import math

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from harken.nn.mixture import LARGEST_CORRELATION, PenMixture, parameters_of


def numbers(rows: int, mixtures: int, marks: int = 2, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return 0.7 * torch.randn(rows, parameters_of(mixtures, marks), dtype=torch.float64)


def test_it_is_torchs_mixture_times_bernoullis() -> None:
    head = PenMixture.of(numbers(5, 4), marks=2)
    places, marks = torch.randn(5, 2, dtype=torch.float64), torch.tensor([[0, 1]] * 5, dtype=torch.float64)
    sx, sy = head.deviations.unbind(-1)
    cross = head.correlations * sx * sy
    covariance = torch.stack([torch.stack([sx**2, cross], -1), torch.stack([cross, sy**2], -1)], -2)
    peer = MixtureSameFamily(Categorical(logits=head.log_weights), MultivariateNormal(head.means, covariance))
    bernoulli = torch.distributions.Bernoulli(logits=head.mark_logits).log_prob(marks).sum(-1)
    torch.testing.assert_close(head.log_density(places, marks), peer.log_prob(places) + bernoulli)


def test_it_integrates_to_one() -> None:
    side = torch.linspace(-14, 14, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    head = PenMixture.of(numbers(1, 3, marks=1, seed=2).expand(len(grid), -1), marks=1)
    step = float(side[1] - side[0])
    total = 0.0
    for mark in (0.0, 1.0):
        density = head.log_density(grid, torch.full((len(grid), 1), mark, dtype=torch.float64)).exp()
        total += float(density.sum()) * step**2
    assert total == pytest.approx(1.0, abs=1e-4)


def test_gradients() -> None:
    values = numbers(3, 2, seed=3).requires_grad_()
    places = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    marks = torch.tensor([[0, 1], [1, 0], [1, 1]], dtype=torch.float64)
    torch.autograd.gradcheck(lambda v, p: PenMixture.of(v, 2).log_density(p, marks), (values, places))


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_wild_numbers_stay_finite(size: float) -> None:
    values = (size * torch.randn(20, parameters_of(3, 2))).requires_grad_()
    density = PenMixture.of(values, 2).log_density(torch.zeros(20, 2), torch.ones(20, 2))
    density.sum().backward()
    assert torch.isfinite(density).all() and torch.isfinite(values.grad).all()  # type: ignore[arg-type]


def test_samples_follow_the_density() -> None:
    values = torch.zeros(1, parameters_of(2, 1))
    values[0, :2] = torch.tensor([0.8, 0.2]).log()
    values[0, 2:6] = torch.tensor([1.0, -1.0, -3.0, 2.0])  # means
    values[0, 6:10] = torch.tensor([0.5, 0.25, 0.5, 0.25]).log()
    values[0, 10:12] = math.atanh(0.6 / LARGEST_CORRELATION)
    values[0, 12] = math.log(0.3 / 0.7)
    head = PenMixture.of(values.expand(40_000, -1), marks=1, floor=0.0)
    places, marks = head.sample(torch.Generator().manual_seed(1))
    first = places[places[:, 0] > -1]
    assert len(first) / 40_000 == pytest.approx(0.8, abs=0.01)
    assert marks.mean().item() == pytest.approx(0.3, abs=0.01)
    assert first.mean(0).tolist() == pytest.approx([1.0, -1.0], abs=0.01)
    assert first.std(0).tolist() == pytest.approx([0.5, 0.25], abs=0.01)
    assert torch.corrcoef(first.t())[0, 1].item() == pytest.approx(0.6, abs=0.02)


def test_a_bias_makes_it_sharper() -> None:
    plain, sharp = (PenMixture.of(numbers(50, 5, seed=4), 2, bias=bias, floor=0.0) for bias in (0.0, 2.0))
    torch.testing.assert_close(sharp.deviations, plain.deviations * math.exp(-2.0))
    assert (sharp.log_weights.amax(-1) > plain.log_weights.amax(-1)).all()
    torch.testing.assert_close(sharp.mark_logits, 3 * plain.mark_logits)
    torch.testing.assert_close(sharp.means, plain.means)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="14 numbers are not 6 for each Gaussian and 1 marks"):
        PenMixture.of(torch.zeros(1, 14), marks=1)
