"""A forecaster: a window of the past in, quantiles of all coming steps out.

    z_s = (y_s - y_t) / d                    d: deviation of the window, so that no level or scale is learned
    h_1 .. h_S = encoder(z, covariates)      any encoder
    q_k = query_k + W x_{t+k}                a query for every coming step, with what is known of it ahead
    c_k = sum_s softmax(q_k . h_s / sqrt W)_s h_s
    median   y_{t+k} = y_t + d (base_k + r_k),  r = V tanh(U [c_k; h_S])
    others   the median plus and minus sums of softplus, so that no two quantiles cross

The base is the forecast of a simple method (`harken.models.forecasting.smoothing`); r and the mixture's shift start at
0, so training starts from it. Normalising by the window follows Kim et al. (2022), quantiles Wen et al. (2017).

>>> from harken.models.forecasting.config import RecurrentForecasterConfig
>>> model = ForecastNetwork(RecurrentForecasterConfig(base="last"), channels=1, known=0, horizon=3, season=1)
>>> quantiles = model(torch.tensor([[[1.0], [2.0], [4.0]]]), None, torch.zeros(1, 3, 0))
>>> quantiles.shape, quantiles[0, :, 1].tolist()  # the median of an untrained network on the last value
(torch.Size([1, 3, 3]), [4.0, 4.0, 4.0])
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.models.base import Memory
from harken.models.build import build_encoder
from harken.models.forecasting.config import AnyForecasterConfig
from harken.models.forecasting.smoothing import FORECASTS, Smoothing
from harken.models.reader import FrameInput
from harken.nn.attention.functional import attend_with_weights
from harken.nn.masks import length_mask


class Window(NamedTuple):
    """The target of a window, made independent of level and scale."""

    values: Tensor  # (B, S) in reading order, 0 where there is padding
    lags: Tensor  # (B, S) the same, the newest first
    mask: Tensor  # (B, S) which lags are real
    last: Tensor  # (B, 1) y_t
    deviation: Tensor  # (B, 1)


class ForecastNetwork(nn.Module):
    """Past (B, S, C), the target first, and known covariates of the coming steps (B, T, F) -> quantiles (B, T, Q)."""

    def __init__(self, config: AnyForecasterConfig, *, channels: int, known: int, horizon: int, season: int) -> None:
        super().__init__()
        self.quantiles = list(config.quantiles)
        self.horizon = 1 if config.strategy == "recursive" else horizon
        self.known = known
        self.floor = nn.Parameter(torch.tensor(1e-6), requires_grad=False)  # of a window's deviation
        self.members = nn.ModuleList(
            Member(config, channels, known, self.horizon, season) for _ in range(config.members)
        )

    def fit_inputs(self, frames: Tensor, floor: float) -> None:
        """Take means and deviations of covariates from the training rows (N, C); the target's are each window's own."""
        with torch.no_grad():
            self.floor.fill_(floor)
            for member in self.networks:
                member.inputs.fit(frames)
                member.inputs.mean[0], member.inputs.deviation[0] = 0.0, 1.0
                member.ahead_mean.copy_(member.inputs.mean[len(member.inputs.mean) - self.known :])
                member.ahead_deviation.copy_(member.inputs.deviation[len(member.inputs.mean) - self.known :])

    @property
    def networks(self) -> list[Member]:
        """The members, typed."""
        return [member for member in self.members if isinstance(member, Member)]

    def forward(self, past: Tensor, lengths: Tensor | None, future: Tensor) -> Tensor:
        """The mean over the members of one pass, as many steps as the model makes at once."""
        return self.each(past, lengths, future).mean(0)

    def each(self, past: Tensor, lengths: Tensor | None, future: Tensor) -> Tensor:
        """Quantiles by every member, (M, B, T, Q)."""
        window = self.window(past, lengths)
        frames = torch.cat([window.values[..., None], past[..., 1:]], -1)
        outputs = torch.stack([member(frames, lengths, window, future) for member in self.networks])
        return window.last[:, :, None] + window.deviation[:, :, None] * outputs

    def window(self, past: Tensor, lengths: Tensor | None) -> Window:
        """The target of a window without its level and scale."""
        rows, steps = past.shape[:2]
        if lengths is None:
            lengths = torch.full((rows,), steps, device=past.device)
        real = length_mask(lengths, steps)
        places = lengths[:, None] - 1 - torch.arange(steps, device=past.device)  # (B, S) of the lags
        mask = places >= 0
        target = torch.where(real, past[..., 0], 0.0)
        last = target.gather(1, (lengths - 1)[:, None])
        count = lengths[:, None].to(target.dtype)
        centred = torch.where(real, target - target.sum(1, keepdim=True) / count, 0.0)
        deviation = ((centred**2).sum(1, keepdim=True) / count).sqrt() + self.floor
        values = torch.where(real, (target - last) / deviation, 0.0)
        lags = torch.where(mask, values.gather(1, places.clamp_min(0)), 0.0)
        return Window(values, lags, mask, last, deviation)

    def loss(self, outputs: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
        """Pinball loss of (..., B, T, Q) against (B, T), summed over what `weight` (B, T) counts, mean over members.

        rho_q(e) = max(q e, (q - 1) e), twice: of a median it is the absolute error. Koenker and Bassett (1978).
        """
        levels = torch.tensor(self.quantiles, device=outputs.device, dtype=outputs.dtype)
        error = targets[..., None] - outputs
        pinball = 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1)  # (..., B, T)
        return (pinball * weight).sum((-2, -1)).mean()

    def unroll(self, past: Tensor, lengths: Tensor | None, future: Tensor) -> Tensor:
        """As many steps as `future` (B, T, F) has: beyond those made at once, medians are fed back.

        Fed-back steps are less sure: the widths of the blocks before are added in squares, as for independent errors.
        """
        middle, blocks = self.quantiles.index(0.5), []
        side = torch.sign(torch.arange(len(self.quantiles), device=past.device) - middle)  # below or above the median
        wider: Tensor | None = None
        for start in range(0, future.shape[1], self.horizon):
            ahead = future[:, start : start + self.horizon]
            short = self.horizon - ahead.shape[1]
            padded = F.pad(ahead, (0, 0, 0, short)) if short else ahead
            block = self(past, lengths, padded)[:, : ahead.shape[1]]  # (B, t, Q)
            median = block[..., middle : middle + 1]
            width = block - median
            if wider is not None:
                width = side * (width**2 + wider**2).sqrt()
            blocks.append(median + width)
            wider = width[:, -1:]
            past, lengths = self._fed_back(past, lengths, median, ahead)
        return torch.cat(blocks, 1)

    def _fed_back(
        self, past: Tensor, lengths: Tensor | None, median: Tensor, ahead: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The window moved on; covariates that are not known ahead stay as they were last."""
        rows, steps = past.shape[:2]
        last = past[:, -1:] if lengths is None else past[torch.arange(rows), lengths - 1][:, None]
        between = last[..., 1 : past.shape[2] - self.known].expand(-1, median.shape[1], -1)
        fresh = torch.cat([median, between, ahead], -1)  # (B, t, C)
        if lengths is None:
            return torch.cat([past, fresh], 1)[:, -steps:], None
        grown = torch.cat([past, torch.zeros_like(fresh)], 1)
        places = lengths[:, None] + torch.arange(fresh.shape[1], device=past.device)
        grown = grown.scatter(1, places[..., None].expand(-1, -1, past.shape[2]), fresh)
        longer = lengths + fresh.shape[1]
        surplus = (longer - steps).clamp_min(0)  # the oldest that no longer fit
        positions = surplus[:, None] + torch.arange(steps, device=past.device)
        return grown.gather(1, positions[..., None].expand(-1, -1, past.shape[2])), longer - surplus

    def influence(self, past: Tensor, lengths: Tensor | None, future: Tensor) -> Tensor:
        """How much each step of the past moves the forecast, (B, S): |d mean_k median_k / d y_s|, summing to 1."""
        middle = self.quantiles.index(0.5)
        past = past.detach().clone().requires_grad_()
        with torch.enable_grad():
            moved = self(past, lengths, future)[..., middle].mean(1).sum()
            (gradient,) = torch.autograd.grad(moved, past)
        strength = gradient[..., 0].abs()
        return strength / strength.sum(1, keepdim=True).clamp_min(1e-12)

    def dry_run(self, length: int) -> Tensor:
        """Quantiles (1, T, Q) after a window of `length` steps (`harken.models.sizing`)."""
        member = self.networks[0]
        past, future = member.inputs.dummy(length), self.floor.new_zeros(1, self.horizon, self.known)
        return self(past, None, future)

    def attention(self, past: Tensor, lengths: Tensor | None, future: Tensor) -> Tensor:
        """How much each coming step looks at each step of the past, (B, T, S), mean over the members."""
        window = self.window(past, lengths)
        frames = torch.cat([window.values[..., None], past[..., 1:]], -1)
        return torch.stack([member.read(frames, lengths, future)[2] for member in self.networks]).mean(0)


class Member(nn.Module):
    """One network, in units of the window."""

    def __init__(self, config: AnyForecasterConfig, channels: int, known: int, horizon: int, season: int) -> None:
        super().__init__()
        encoder = build_encoder(config)
        width, self.middle = encoder.width, config.quantiles.index(0.5)
        self.base, self.residual, self.horizon, self.season = config.base, config.residual, horizon, season
        self.inputs = FrameInput(channels, encoder.embedding)
        self.encoder = encoder
        self.queries = nn.Parameter(torch.randn(horizon, width) * width**-0.5)
        self.ahead = nn.Linear(known, width, bias=False) if known else None
        self.ahead_mean = nn.Parameter(torch.zeros(known), requires_grad=False)
        self.ahead_deviation = nn.Parameter(torch.ones(known), requires_grad=False)
        self.hidden = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, len(config.quantiles))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.smoothing = Smoothing(horizon, season) if config.base == "smoothing" else None
        self.shift = nn.Linear(width, len(FORECASTS)) if config.base == "smoothing" else None
        if self.shift is not None:
            nn.init.zeros_(self.shift.weight)
            nn.init.zeros_(self.shift.bias)

    def read(self, frames: Tensor, lengths: Tensor | None, future: Tensor) -> tuple[Memory, Tensor, Tensor]:
        """The encoded past, the context of every coming step (B, T, W), and its weights (B, T, S)."""
        memory: Memory = self.encoder(self.inputs(frames), lengths)
        queries = self.queries.expand(len(frames), -1, -1)
        if self.ahead is not None:
            queries = queries + self.ahead((future - self.ahead_mean) / self.ahead_deviation)
        mask = None if memory.mask is None else memory.mask[:, None]
        context, weights = attend_with_weights(queries, memory.values, memory.values, mask)
        return memory, context + queries, weights

    def forward(self, frames: Tensor, lengths: Tensor | None, window: Window, future: Tensor) -> Tensor:
        """Frames (B, S, C) -> quantiles (B, T, Q) above the last value."""
        memory, context, _ = self.read(frames, lengths, future)
        summary = memory.summary()
        joined = torch.cat([context, summary[:, None].expand(-1, self.horizon, -1)], -1)
        outputs = self.out(torch.tanh(self.hidden(joined)))  # (B, T, Q)
        median = self._base(window, summary)[..., None]
        if self.residual:
            median = median + outputs[..., self.middle : self.middle + 1]
        steps = F.softplus(outputs - 2.0)  # narrow at first: 0.13 of a deviation
        below = steps[..., : self.middle].flip(-1).cumsum(-1).flip(-1)
        above = steps[..., self.middle + 1 :].cumsum(-1)
        return torch.cat([median - below, median, median + above], -1)

    def _base(self, window: Window, summary: Tensor) -> Tensor:
        """The forecast of a simple method, (B, T)."""
        lags, mask = window.lags, window.mask
        if self.smoothing is not None and self.shift is not None:
            smoothed: Tensor = self.smoothing(lags, mask, self.shift(summary))
            return smoothed
        if self.base == "seasonal" and self.season <= lags.shape[1]:
            # 0, the last value, where the window does not reach back so far
            return lags[:, [self.season - 1 - step % self.season for step in range(self.horizon)]]
        if self.base == "none":
            return (lags.sum(1) / mask.sum(1))[:, None].expand(-1, self.horizon)
        return torch.zeros_like(lags[:, :1]).expand(-1, self.horizon)
