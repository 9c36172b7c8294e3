"""Sound as frames that a network can read: the logarithm of the energy in bands as wide as the ear's.

X_t(k) = | sum_n w(n) x(t hop + n) e^{-2 pi i k n / N} |^2 / (sum_n w(n))^2       Hann window w
e_t(m) = log max(floor, sum_k H_m(k) X_t(k))                                      triangles H_m, even on the mel scale
mel(f) = 2595 log10(1 + f / 700)

With `range_db` energies are taken relative to the loudest of the recording and cut so far below it: how loud it was
recorded, and how silent its silence is, then says nothing.

Then optionally differences over time, mean 0 and deviation 1, and several frames joined into one, which makes the
sequence shorter. Reference: Davis and Mermelstein (1980).

>>> config = FeatureConfig(stack=1, skip=1)
>>> tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000).astype(np.float32)
>>> frames = log_mel(tone, config)
>>> frames.shape, bool(abs(band_centres(config)[frames[50].argmax()] - 1000) < 60)
((98, 40), True)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from harken.data.audio.config import FeatureConfig

FLOOR = 1e-12  # below the noise of 16 bits


def frames_of(samples: np.ndarray, config: FeatureConfig) -> np.ndarray:
    """Samples (n,) at `config.rate` -> what the network reads (T, `config.channels`)."""
    return finished(log_mel(samples, config), config)


def frame_count(samples: int, config: FeatureConfig) -> int:
    """Frames before any are joined, of so many samples; at least one."""
    return max(1, 1 + (samples - config.window_samples) // config.hop_samples)


def joined_count(frames: int, config: FeatureConfig) -> int:
    """Frames after `stack` and `skip`."""
    return -(-frames // config.skip)


def log_mel(samples: np.ndarray, config: FeatureConfig) -> np.ndarray:
    """(n,) -> (T, mels); a recording shorter than a window is filled up with silence."""
    window, hop = config.window_samples, config.hop_samples
    if len(samples) < window:
        samples = np.pad(samples, (0, window - len(samples)))
    pieces = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop]  # (T, window)
    shape = _window(window)
    power = np.abs(np.fft.rfft(pieces * shape, config.fft, axis=1)) ** 2 / shape.sum() ** 2  # (T, N / 2 + 1)
    energies = power.astype(np.float32) @ triangles(config).T
    if config.range_db is None:
        return np.log(np.maximum(energies, FLOOR)).astype(np.float32)
    relative = energies / max(float(energies.max()), FLOOR)
    return np.log(np.maximum(relative, 10 ** (-config.range_db / 10))).astype(np.float32)


def finished(energies: np.ndarray, config: FeatureConfig) -> np.ndarray:
    """Differences, normalisation and joining of log energies (T, mels) -> (T', channels)."""
    parts = [energies]
    for _ in range(config.deltas):
        parts.append(differences(parts[-1]))
    values = np.concatenate(parts, axis=1)
    if config.normalise == "utterance":
        values = (values - values.mean(0)) / np.maximum(values.std(0), 1e-3)
    return joined(values, config.stack, config.skip).astype(np.float32)


def differences(values: np.ndarray, reach: int = 2) -> np.ndarray:
    """The slope of each channel over 2 reach + 1 frames: sum_n n (x_{t+n} - x_{t-n}) / (2 sum_n n^2)."""
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    total = np.zeros_like(values)
    for distance in range(1, reach + 1):
        later = padded[reach + distance : reach + distance + len(values)]
        total += distance * (later - padded[reach - distance : reach - distance + len(values)])
    return total / (2 * sum(distance**2 for distance in range(1, reach + 1)))


def joined(values: np.ndarray, stack: int, skip: int) -> np.ndarray:
    """Every `skip`-th frame with the `stack` - 1 after it, (T, C) -> (ceil(T / skip), stack C); the last repeats."""
    starts = np.arange(0, len(values), skip)
    rows = np.minimum(starts[:, None] + np.arange(stack), len(values) - 1)  # (T', stack)
    return values[rows].reshape(len(starts), -1)


@lru_cache(maxsize=8)
def _window(size: int) -> np.ndarray:
    return (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(size) + 0.5) / size)).astype(np.float32)


def band_centres(config: FeatureConfig) -> np.ndarray:
    """(mels,) the frequency in Hz that each band hears best."""
    return _edges(config)[1:-1]


def triangles(config: FeatureConfig) -> np.ndarray:
    """(mels, N / 2 + 1): how much of each frequency a band takes, 1 at its centre and 0 at its neighbours'."""
    return _triangles(config.rate, config.fft, tuple(_edges(config)))


@lru_cache(maxsize=8)
def _triangles(rate: int, size: int, edges: tuple[float, ...]) -> np.ndarray:
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    low, centre, high = (np.array(edges)[start : len(edges) - 2 + start, None] for start in range(3))
    rising, falling = (frequencies - low) / (centre - low), (high - frequencies) / (high - centre)
    bands = np.maximum(0, np.minimum(rising, falling))
    # A band narrower than the distance of two frequencies may hold none: it takes the nearest.
    for band in np.flatnonzero(bands.sum(1) == 0):
        bands[band, np.abs(frequencies - centre[band]).argmin()] = 1
    return bands.astype(np.float32)


def _edges(config: FeatureConfig) -> np.ndarray:
    low, high = (2595 * np.log10(1 + frequency / 700) for frequency in (config.low, config.high or config.rate / 2))
    return 700 * (10 ** (np.linspace(low, high, config.mels + 2) / 2595) - 1)
