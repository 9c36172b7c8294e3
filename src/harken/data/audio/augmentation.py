"""The same words said otherwise: louder, in noise, faster, by another voice, with parts that cannot be heard.

gain, noise        on samples: x <- g x + n, white or pink, so many decibels below x
speed              on samples: x(t) <- x(r t), which moves pitch and formants as well; Ko et al. (2015)
stretch            on log energies: frame t of the new is frame t r of the old, between two frames their mix
equaliser          on log energies: a smooth curve over the bands is added, the same at all times
masks              bands or moments set to the mean of the utterance; Park et al. (2019), "SpecAugment"

Everything is drawn from a generator that the caller seeds, so that it is the same for the same (seed, epoch, example).

>>> config = AugmentConfig(time_masks=1, time_width=4)
>>> plain = np.arange(20.0, dtype=np.float32).reshape(10, 2)
>>> changed = spec_augment(plain, config, np.random.default_rng(1))
>>> sorted(set(np.flatnonzero((changed != plain).any(1)).tolist()))
[5]
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from harken.data.audio.config import AugmentConfig

COLOURS = 5  # points of an equaliser's curve


def perturb_speed(samples: np.ndarray, config: AugmentConfig, random: np.random.Generator) -> np.ndarray:
    """(n,) -> (n / r,) with r drawn around 1: played faster or slower."""
    if not config.speed:
        return samples
    faster = random.uniform(1 - config.speed, 1 + config.speed)
    whole = fast_fft_length(len(samples))  # silence behind the end, which is cut off again
    count = fast_fft_length(max(2, round(whole / faster)))
    # As many frequencies as the new length has: band-limited, and one transform there and back.
    changed = np.fft.irfft(np.fft.rfft(samples, whole), count) * (count / whole)
    return changed[: max(2, round(len(samples) * count / whole))].astype(np.float32)


@lru_cache(maxsize=1)
def fast_fft_lengths() -> np.ndarray:
    """All even 2^a 3^b 5^c up to 2^24, rising: a Fourier transform of another length can take ten times as long.

    >>> fast_fft_lengths()[:8].tolist()
    [2, 4, 6, 8, 10, 12, 16, 18]
    """
    top = 1 << 24
    lengths = [2**a * 3**b * 5**c for a in range(1, 25) for b in range(16) for c in range(11)]
    return np.array(sorted(length for length in lengths if length <= top))


def fast_fft_length(count: int) -> int:
    """The least such length that is not below `count`, or `count` itself beyond them.

    >>> fast_fft_length(997), fast_fft_length(8000)
    (1000, 8000)
    """
    index = int(np.searchsorted(fast_fft_lengths(), count))
    return int(fast_fft_lengths()[index]) if index < len(fast_fft_lengths()) else count


def add_gain_and_noise(samples: np.ndarray, config: AugmentConfig, random: np.random.Generator) -> np.ndarray:
    """Gain and noise (n,) -> (n,)."""
    if config.gain_db:
        samples = samples * decibels(random.uniform(-config.gain_db, config.gain_db))
    if config.noise_db is not None:
        samples = add_noise(samples, random.uniform(*config.noise_db), random)
    return samples.astype(np.float32, copy=False)


def add_noise(samples: np.ndarray, below: float, random: np.random.Generator) -> np.ndarray:
    """White or pink noise under everything, `below` decibels below the loudness of the whole."""
    loudness = float(np.sqrt(np.mean(np.square(samples))))
    return samples + decibels(-below) * loudness * noise(len(samples), random)


def noise(count: int, random: np.random.Generator) -> np.ndarray:
    """(count,) of loudness 1: as often white as pink, whose power falls as 1 / f."""
    white = random.standard_normal(count).astype(np.float32)
    if random.random() < 0.5 or count < 2:
        return white
    size = fast_fft_length(count)
    spectrum = np.fft.rfft(white, size)
    pink = np.fft.irfft(spectrum / np.sqrt(np.arange(len(spectrum)) + 1), size)[:count]
    return (pink / max(float(np.sqrt(np.mean(pink**2))), 1e-12)).astype(np.float32)


def decibels(value: float) -> float:
    """The factor on amplitudes."""
    return float(10 ** (value / 20))


def stretch_time(energies: np.ndarray, config: AugmentConfig, random: np.random.Generator) -> np.ndarray:
    """(T, C) -> (T', C), T' = T / r with r drawn around 1."""
    if not config.stretch:
        return energies
    faster = random.uniform(1 - config.stretch, 1 + config.stretch)
    count = max(1, round(len(energies) / faster))
    places = np.linspace(0, len(energies) - 1, count)
    before = np.minimum(places.astype(np.int64), max(len(energies) - 2, 0))
    share = (places - before)[:, None].astype(np.float32)
    after = np.minimum(before + 1, len(energies) - 1)
    return (1 - share) * energies[before] + share * energies[after]


def equalise(energies: np.ndarray, config: AugmentConfig, random: np.random.Generator) -> np.ndarray:
    """(T, C) as another microphone or room would colour it: lines between a few drawn points over the bands."""
    if not config.equaliser_db:
        return energies
    points = random.normal(0, config.equaliser_db, COLOURS) * np.log(10) / 10  # decibels to natural logarithms
    bands = np.linspace(0, COLOURS - 1, energies.shape[1])
    return energies + np.interp(bands, np.arange(COLOURS), points).astype(np.float32)


def spec_augment(energies: np.ndarray, config: AugmentConfig, random: np.random.Generator) -> np.ndarray:
    """(T, C) with bands and moments set to the mean of each channel."""
    if not (config.frequency_masks or config.time_masks):
        return energies
    changed, mean = energies.copy(), energies.mean(0)
    time, channels = energies.shape
    for _ in range(config.frequency_masks):
        width = int(random.integers(0, min(config.frequency_width, channels) + 1))
        start = int(random.integers(0, channels - width + 1))
        changed[:, start : start + width] = mean[start : start + width]
    for _ in range(config.time_masks):
        width = int(random.integers(0, min(config.time_width, time // 4) + 1))  # never most of a short recording
        start = int(random.integers(0, time - width + 1))
        changed[start : start + width] = mean
    return changed
