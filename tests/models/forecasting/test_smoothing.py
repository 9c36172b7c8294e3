"""Exponential smoothing as a layer is its formulas."""

import torch

from harken.models.forecasting.smoothing import QUICKER, Smoothing


def made(level: float = 0.5, line: float = 0.2, damping: float = 0.9, horizon: int = 5, season: int = 4) -> Smoothing:
    layer = Smoothing(horizon, season)
    wanted = {"level": level, "line": line, "damping": damping}
    with torch.no_grad():
        for name, rate in wanted.items():
            layer.rates[name].fill_(float(torch.logit(torch.tensor(rate))) / QUICKER)
    return layer


def every(lags: torch.Tensor) -> torch.Tensor:
    return torch.ones(lags.shape, dtype=torch.bool)


def test_the_level_is_a_weighted_mean() -> None:
    lags = torch.tensor([[5.0, 3.0, 2.0]])
    weights = [0.7**k for k in range(3)]
    wanted = sum(w * y for w, y in zip(weights, [5.0, 3.0, 2.0], strict=True)) / sum(weights)
    found, possible = made(level=0.3).forecasts(lags, every(lags))
    assert torch.allclose(found[0, :, 0], torch.full((5,), wanted))
    assert possible.tolist() == [[True, True, False, False]]


def test_a_line_goes_on_as_far_as_damping_lets_it() -> None:
    lags = torch.arange(60.0, 0.0, -1.0)[None]
    found, _ = made(damping=0.9).forecasts(lags, every(lags))
    shrunk = 1.0 - 0.5 / (0.8 / 0.2**2 + 0.5)  # the spread of weights 0.8^k is 20; 0.5 is added to it
    slopes = found[0, :, 1].diff()
    assert torch.allclose(slopes, shrunk * 0.9 ** torch.arange(2, 6), atol=1e-3)


def test_a_pure_season_comes_back() -> None:
    pattern = torch.tensor([2.0, -1.0, 0.0, -1.0])
    series = pattern.repeat(12)
    lags = series.flip(0)[None]
    found, possible = made().forecasts(lags, every(lags))
    assert torch.allclose(found[0, :, 2], pattern[torch.arange(5) % 4], atol=1e-3)
    assert possible.all()


def test_what_is_masked_counts_nothing() -> None:
    lags = torch.randn(1, 9)
    mask = torch.arange(9)[None] < 6
    layer = made()
    other = torch.where(mask, lags, 1000.0)
    assert torch.equal(layer(torch.where(mask, other, 0.0), mask), layer(torch.where(mask, lags, 0.0), mask))
    assert torch.allclose(layer(lags[:, :6], mask[:, :6]), layer(torch.where(mask, lags, 0.0), mask), atol=1e-6)


def test_the_mixture_is_a_mean_of_what_can_be_made() -> None:
    lags = torch.randn(2, 9)
    layer = made()
    found, _ = layer.forecasts(lags, every(lags))
    assert torch.allclose(layer(lags, every(lags)), found.mean(-1), atol=1e-6)
    only = torch.tensor([[0.0, 100.0, 0.0, 0.0]]).expand(2, 4)
    assert torch.allclose(layer(lags, every(lags), only), found[..., 1], atol=1e-5)


def test_without_a_season_its_rate_is_not_trained() -> None:
    """A run would warn of weights that no gradient reaches."""
    for season, trained in ((1, False), (4, True)):
        layer = made(season=season)
        layer(torch.randn(2, 13), torch.ones(2, 13, dtype=torch.bool)).sum().backward()
        assert layer.rates["seasons"].requires_grad is trained
        assert all(value.grad is not None for value in layer.parameters() if value.requires_grad)
