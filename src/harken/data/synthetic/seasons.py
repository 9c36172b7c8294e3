"""Series that harken makes: trend, two seasons, a covariate that is known ahead, one that is not, and noise.

    y_t = level + slope t + a sin(2 pi t / 7 + p) + b sin(2 pi t / 30 + q) + c sale_t + d heat_t + noise_t
    heat_t = 0.9 heat_{t-1} + shock_t        measured, so known up to now alone
    noise_t = 0.5 noise_{t-1} + shock_t

Every series has its own level, slope, strengths and phases; days of `sale` are drawn and known ahead.

>>> made = make_seasons(series=2, length=100, seed=1)
>>> [(series.name, len(series), series.known.shape) for series in made]
[('shop 1', 100, (100, 1)), ('shop 2', 100, (100, 1))]
>>> make_seasons(2, 100, 1)[1].target[50] == made[1].target[50]
np.True_
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from harken.data.series.series import Series

FIRST_DAY = datetime(2024, 1, 1)


def make_seasons(series: int = 8, length: int = 400, seed: int = 1) -> list[Series]:
    """Daily series, the same for the same seed."""
    return [_make(number, length, np.random.default_rng([seed, number])) for number in range(1, series + 1)]


def _make(number: int, length: int, random: np.random.Generator) -> Series:
    time = np.arange(length)
    level, slope = random.uniform(50, 150), random.uniform(-0.05, 0.1)
    week, month = random.uniform(5, 12), random.uniform(5, 15)
    phases = random.uniform(0, 2 * np.pi, 2)
    sale = (random.random(length) < 0.12).astype(np.float64)
    heat = _remembering(0.9, random.normal(size=length))
    noise = _remembering(0.5, random.normal(scale=1.5, size=length))
    seasons = week * np.sin(2 * np.pi * time / 7 + phases[0]) + month * np.sin(2 * np.pi * time / 30 + phases[1])
    target = level + slope * time + seasons + random.uniform(10, 20) * sale + 1.5 * heat + noise
    dates = [FIRST_DAY + timedelta(days=int(day)) for day in time]
    return Series(f"shop {number}", target, heat[:, None], sale[:, None], dates)


def _remembering(share: float, shocks: np.ndarray) -> np.ndarray:
    values = np.zeros_like(shocks)
    for step, shock in enumerate(shocks):
        values[step] = shock + (share * values[step - 1] if step else 0.0)
    return values
