"""Exponential smoothing as a layer: four simple forecasts from one window, and a learned mixture of them.

    level     l  = sum_k w_k y_{t-k},  w_k ~ (1 - a)^k                      a flat forecast
    line      the least-squares line with weights (1 - b)^k; damped by f: sum_{i<=k} f^i slopes ahead
    season    l + mean over earlier seasons j of (y_{t+k-jm} - l_{t-jm}),  weights g^(j-1)
    both      season + damped slope

    y_{t+k} = sum_e softmax(mixture)_e forecast_e(k)

a, b, f, g and the mixture are trained by gradient with whatever reads the window, as in Smyl (2020); a network may
shift the mixture for every window. The layer has eight numbers, so it does not overfit where a series is short.
A window too short for a season leaves its two forecasts out.

>>> layer = Smoothing(horizon=2, season=4)
>>> lags = torch.tensor([[4.0, 3.0, 2.0, 1.0] * 5])  # the newest first
>>> forecasts, possible = layer.forecasts(lags, torch.ones(1, 20, dtype=torch.bool))
>>> [round(value, 1) for value in forecasts[0, :, 2].tolist()], possible.tolist()
([1.0, 2.0], [[True, True, True, True]])
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FORECASTS = ("level", "line", "season", "both")
SEASONS = 3  # how many are looked back at
QUICKER = 10.0  # these few numbers move that much faster than a network's weights


class Smoothing(nn.Module):
    """Lags (B, S), the newest first, and which of them are real -> forecasts (B, T)."""

    def __init__(self, horizon: int, season: int) -> None:
        super().__init__()
        self.horizon, self.season = horizon, season
        starts = {"level": 0.0, "line": -2.0, "damping": 2.0, "seasons": 0.0}  # through a sigmoid
        self.rates = nn.ParameterDict(
            {name: nn.Parameter(torch.tensor(value / QUICKER)) for name, value in starts.items()}
        )
        self.rates["seasons"].requires_grad_(season > 1)  # nothing depends on it without a season
        self.mixture = nn.Parameter(torch.zeros(len(FORECASTS)))

    def forward(self, lags: Tensor, mask: Tensor, shift: Tensor | None = None) -> Tensor:
        """`shift` (B, 4) is added to the mixture before the softmax."""
        forecasts, possible = self.forecasts(lags, mask)  # (B, T, 4), (B, 4)
        scores = self.mixture * QUICKER if shift is None else self.mixture * QUICKER + shift
        scores = scores.expand_as(possible).masked_fill(~possible, -torch.inf)
        return (forecasts * torch.softmax(scores, -1)[:, None]).sum(-1)

    def forecasts(self, lags: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Every simple forecast (B, T, 4), and which of them can be made of each window (B, 4)."""
        rows, steps = lags.shape[0], torch.arange(1, self.horizon + 1, device=lags.device)
        level = (self._weights("level", mask) * lags).sum(1)[:, None]  # (B, 1)
        now, slope = self._line(lags, mask)
        ahead = slope[:, None] * torch.cumsum(self._rate("damping") ** steps, 0)  # (B, T)
        season, has_season = self._season(lags, mask)
        flat = level.expand(rows, self.horizon)
        forecasts = torch.stack([flat, now[:, None] + ahead, flat + season, flat + ahead + season], -1)
        always = torch.ones(rows, 2, dtype=torch.bool, device=lags.device)
        return forecasts, torch.cat([always, has_season[:, None].expand(rows, 2)], 1)

    def _rate(self, name: str) -> Tensor:
        return torch.sigmoid(self.rates[name] * QUICKER)

    def _weights(self, name: str, mask: Tensor) -> Tensor:
        """(1 - rate)^k over the real lags, made to sum to 1; 0 where there are none."""
        age = torch.arange(mask.shape[1], device=mask.device)
        weights = torch.exp(F.logsigmoid(-self.rates[name] * QUICKER) * age) * mask
        return weights / weights.sum(1, keepdim=True).clamp_min(1e-9)

    def _line(self, lags: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Where the weighted least-squares line stands now, and its slope a step (B,)."""
        weights = self._weights("line", mask)
        age = torch.arange(lags.shape[1], device=lags.device, dtype=lags.dtype).expand_as(lags)
        mean_age, mean = (weights * age).sum(1, keepdim=True), (weights * lags).sum(1, keepdim=True)
        spread = (weights * (age - mean_age) ** 2).sum(1) + 0.5  # a short window tells little of its slope
        slope = -(weights * (age - mean_age) * (lags - mean)).sum(1) / spread
        return mean[:, 0] + slope * mean_age[:, 0], slope

    def _season(self, lags: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """How far each coming step lay above the level in earlier seasons (B, T), and whether one was seen (B,)."""
        total, weight = lags.new_zeros(len(lags), self.horizon), lags.new_zeros(len(lags), 1)
        for number in range(1, SEASONS + 1):
            back = number * self.season
            if self.season < 2 or back >= lags.shape[1]:
                break
            level = (self._weights("level", mask[:, back:]) * lags[:, back:]).sum(1, keepdim=True)
            places = [back - 1 - step % self.season for step in range(self.horizon)]
            share = self._rate("seasons") ** (number - 1) * mask[:, back : back + 1]  # (B, 1)
            total = total + share * (lags[:, places] - level)
            weight = weight + share
        return total / weight.clamp_min(1e-9), weight[:, 0] > 0
