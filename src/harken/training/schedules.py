"""Learning rate schedules: a linear warm-up, then

inverse_sqrt   sqrt(warmup / step)              Vaswani et al. (2017)
cosine         (1 + cos(pi progress)) / 2       Loshchilov and Hutter (2017)
linear         1 - progress
wsd            1, and in the last share `cooldown` of the budget (1 - progress) / cooldown       Hu et al. (2024)
plateau        multiplied by a factor whenever validation stalls
constant       1

`progress` is the fraction of the budget that is spent, of steps, epochs or minutes whichever is largest; so a run of
"ten minutes" ends with a learning rate of 0 on any machine.

>>> [round(factor("inverse_sqrt", step, progress=0, warmup=100), 3) for step in (1, 50, 100, 400)]
[0.01, 0.5, 1.0, 0.5]
>>> [round(factor("wsd", 1000, progress=p, warmup=100, cooldown=0.2), 3) for p in (0, 0.8, 0.9, 1)]
[1.0, 1.0, 0.5, 0.0]
>>> [round(factor("cosine", 1000, progress=p, warmup=100), 3) for p in (0, 0.5, 1)]
[1.0, 0.5, 0.0]
"""

from __future__ import annotations

import math


def factor(
    schedule: str, step: int, progress: float, warmup: int, reduced: float = 1.0, cooldown: float = 0.2
) -> float:
    """The factor of the peak learning rate at `step` (from 1); `reduced` is the product of plateau's reductions."""
    rise = min(1.0, step / warmup) if warmup else 1.0
    progress = min(1.0, max(0.0, progress))
    if schedule == "inverse_sqrt":
        return rise if step < warmup else math.sqrt(max(warmup, 1) / step)
    if schedule == "cosine":
        return rise * (1 + math.cos(math.pi * progress)) / 2
    if schedule == "linear":
        return rise * (1 - progress)
    if schedule == "wsd":
        return rise * min(1.0, (1 - progress) / cooldown)
    if schedule == "plateau":
        return rise * reduced
    return rise
