"""Another sampling rate: the band-limited signal read at other moments.

y(n) = sum_k x(k) h(n M / L - k),   h(t) = c sinc(c t) w(t),   L / M = new / old rate,   c = min(1, L / M)

w is a Hann window over so many zeros of the sinc on either side. Only L different sets of weights occur, one for each
phase, so that all outputs of a phase are one product (polyphase). Weights of a phase are made to sum to 1.
Reference: Crochiere and Rabiner (1983), "Multirate Digital Signal Processing", chapter 2.

>>> tone = np.sin(2 * np.pi * 440 * np.arange(4000) / 16000)
>>> half = resample(tone, 16000, 8000)
>>> wanted = np.sin(2 * np.pi * 440 * np.arange(2000) / 8000)
>>> len(half), bool(np.abs(half - wanted)[50:-50].max() < 1e-3)
(2000, True)
"""

from __future__ import annotations

import math

import numpy as np

ZEROS = 24  # of the sinc that the window keeps on either side


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Samples (n,) at `rate` a second -> (ceil(n new / old),) at `new_rate`, float32."""
    if rate < 1 or new_rate < 1:
        raise ValueError(f"rates must be positive, not {rate} and {new_rate}")
    if rate == new_rate:
        return np.asarray(samples, dtype=np.float32)
    shared = math.gcd(rate, new_rate)
    up, down = new_rate // shared, rate // shared  # L, M
    cut = min(1.0, up / down)  # nothing above half of the lower rate may stay
    half = math.ceil(ZEROS / cut)
    count = -(-len(samples) * up // down)
    padded = np.pad(np.asarray(samples, dtype=np.float32), (half, half + down + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    made = np.empty(count, dtype=np.float32)
    for phase in range(min(up, count)):
        whole, rest = divmod(phase * down, up)  # output `phase` lies at whole + rest / up
        distance = np.arange(2 * half) - half + 1 - rest / up
        weights = np.sinc(cut * distance) * (0.5 + 0.5 * np.cos(np.pi * np.clip(distance / half, -1, 1)))
        outputs = len(range(phase, count, up))
        made[phase::up] = windows[whole + 1 :: down][:outputs] @ (weights / weights.sum()).astype(np.float32)
    return made
