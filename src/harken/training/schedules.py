"""How the learning rate goes: up in the warm-up, then down as the schedule says.

inverse_sqrt   sqrt(warmup / step)              Vaswani et al. (2017)
cosine         (1 + cos(pi progress)) / 2       Loshchilov and Hutter (2017)
linear         1 - progress
plateau        times a factor whenever validation stalls
constant       1

`progress` is the share of the budget that is spent, whichever of steps, epochs and minutes is furthest; so a run of
"ten minutes" ends with its learning rate at 0, however quick the machine is.

>>> [round(factor("inverse_sqrt", step, progress=0, warmup=100), 3) for step in (1, 50, 100, 400)]
[0.01, 0.5, 1.0, 0.5]
>>> [round(factor("cosine", 1000, progress=p, warmup=100), 3) for p in (0, 0.5, 1)]
[1.0, 0.5, 0.0]
"""

from __future__ import annotations

import math


def factor(schedule: str, step: int, progress: float, warmup: int, reduced: float = 1.0) -> float:
    """What the highest learning rate is multiplied by at `step` (from 1); `reduced` is what plateau has come to."""
    rise = min(1.0, step / warmup) if warmup else 1.0
    progress = min(1.0, max(0.0, progress))
    if schedule == "inverse_sqrt":
        return rise if step < warmup else math.sqrt(max(warmup, 1) / step)
    if schedule == "cosine":
        return rise * (1 + math.cos(math.pi * progress)) / 2
    if schedule == "linear":
        return rise * (1 - progress)
    if schedule == "plateau":
        return rise * reduced
    return rise
