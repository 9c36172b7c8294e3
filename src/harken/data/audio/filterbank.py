"""Log-mel features of a batch of recordings, by `torch.stft`.

X_t(k) = | sum_n w(n) x(t hop + n) e^{-2 pi i k n / N} |^2 / (sum_n w(n))^2       Hann window w
e_t(m) = log max(floor, sum_k H_m(k) X_t(k))                                      triangular filters H_m, even in mel
mel(f) = 2595 log10(1 + f / 700)

With `range_db` energies are relative to the loudest of the recording and limited to that range below it, so that
neither the recording's level nor its background noise matters. `postprocess` adds differences over time, normalises and
stacks frames, which makes the sequence shorter. Reference: Davis and Mermelstein (1980).

A recording has the same features alone and in a padded batch, bit by bit; see `_mel_energies`.

>>> config = FeatureConfig(stack=1, skip=1)
>>> tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000).astype(np.float32)
>>> [energies] = log_mels([tone], config)
>>> energies.shape, bool(abs(band_centres(config)[int(energies[50].argmax())] - 1000) < 60)
(torch.Size([98, 40]), True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from harken.data.audio.config import FeatureConfig

FLOOR = 1e-12  # below the noise of 16 bits
BLOCK = 64  # frames that are multiplied by the filters at once
BATCH_SAMPLES = 1 << 18  # padded samples that are transformed at once: larger spectra leave the processor's cache


def frames_of(recordings: Sequence[np.ndarray], config: FeatureConfig) -> list[Tensor]:
    """The features that the network reads, (T, `config.channels`) for each recording (n,) at `config.rate`."""
    return _map(recordings, lambda samples, lengths: postprocess(*log_mel(samples, lengths, config), config))


def log_mels(recordings: Sequence[np.ndarray], config: FeatureConfig) -> list[Tensor]:
    """Log energies before `postprocess`, (T, mels) for each recording."""
    return _map(recordings, lambda samples, lengths: log_mel(samples, lengths, config))


def _map(
    recordings: Sequence[np.ndarray], transform: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> list[Tensor]:
    """The results of recordings in batches of similar length, no more than `BATCH_SAMPLES` when padded."""
    outputs: list[Tensor] = [torch.empty(0)] * len(recordings)
    waiting: list[int] = []

    def run() -> None:
        values, lengths = transform(*pad_rows([recordings[row] for row in waiting]))
        for number, row in enumerate(waiting):
            outputs[row] = values[number, : lengths[number]].clone()
        waiting.clear()

    for row in sorted(range(len(recordings)), key=lambda row: len(recordings[row])):
        if waiting and (len(waiting) + 1) * len(recordings[row]) > BATCH_SAMPLES:
            run()
        waiting.append(row)
    if waiting:
        run()
    return outputs


def pad_rows(rows: Sequence[np.ndarray | Tensor]) -> tuple[Tensor, Tensor]:
    """(rows (B, T, ...) padded with 0, lengths (B,))."""
    tensors = [torch.as_tensor(row, dtype=torch.float32) for row in rows]
    lengths = torch.tensor([len(row) for row in tensors])
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths


def frame_count(samples: int, config: FeatureConfig) -> int:
    """Frames of so many samples before any are stacked; at least one."""
    return max(1, 1 + (samples - config.window_samples) // config.hop_samples)


def stacked_count(frames: int, config: FeatureConfig) -> int:
    """Frames after `stack` and `skip`."""
    return -(-frames // config.skip)


def log_mel(samples: Tensor, lengths: Tensor, config: FeatureConfig) -> tuple[Tensor, Tensor]:
    """Padded samples (B, n) and their lengths -> (log energies (B, T, mels), frames of each (B,)).

    A recording shorter than a window is padded with silence. Frames beyond the length of a recording are undefined.
    """
    rows = max(1, BATCH_SAMPLES // max(1, samples.shape[1]))
    if len(samples) > rows:
        parts = [log_mel(*part, config) for part in zip(samples.split(rows), lengths.split(rows), strict=True)]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    window, hop = config.window_samples, config.hop_samples
    frames = (1 + (lengths - window) // hop).clamp_min(1)
    inside = torch.arange(samples.shape[1], device=samples.device) < lengths[:, None]
    # stft takes frames of N samples where ours have `window`: zeros at the end of both change no sum.
    longer = max(config.fft - window, config.fft - samples.shape[1])
    shape = _window(window).to(samples.device)
    spectrum = torch.stft(
        F.pad(torch.where(inside, samples, 0.0), (0, longer)),
        config.fft,
        hop_length=hop,
        window=F.pad(shape, (0, config.fft - window)),
        center=False,
        return_complex=True,
    )  # (B, N / 2 + 1, T)
    power = (spectrum.real.square() + spectrum.imag.square()) / shape.sum().square()
    energies = _mel_energies(power.transpose(1, 2), config)  # (B, T, mels)
    if config.range_db is None:
        return energies.clamp_min(FLOOR).log(), frames
    real = torch.arange(energies.shape[1], device=samples.device) < frames[:, None]  # (B, T)
    loudest = torch.where(real[..., None], energies, 0.0).amax((1, 2), keepdim=True).clamp_min(FLOOR)
    return (energies / loudest).clamp_min(10 ** (-config.range_db / 10)).log(), frames


def _mel_energies(power: Tensor, config: FeatureConfig) -> Tensor:
    """(B, T, N / 2 + 1) -> (B, T, mels).

    The order in which a matrix product sums may depend on the number of its rows. Whole blocks of rows keep it the
    same, whatever a recording is batched with.
    """
    batch, time, bins = power.shape
    rows = F.pad(power, (0, 0, 0, -time % BLOCK)).reshape(-1, bins)
    filters = torch.from_numpy(mel_filters(config)).to(power.device)
    with torch.autocast(power.device.type, enabled=False):  # logarithms of small energies need float32
        return (rows @ filters.T).view(batch, -1, config.mels)[:, :time]


def postprocess(energies: Tensor, lengths: Tensor, config: FeatureConfig) -> tuple[Tensor, Tensor]:
    """Differences, normalisation and stacking: (B, T, mels) -> (frames (B, T', channels) padded with 0, lengths)."""
    parts = [energies]
    for _ in range(config.deltas):
        parts.append(differences(parts[-1], lengths))
    values = torch.cat(parts, dim=2)
    if config.normalise == "utterance":
        values = values.clone()
        for row, length in zip(values, lengths.tolist(), strict=True):  # alone: a sum's order depends on its length
            real = row[:length]
            row[:length] = (real - real.mean(0)) / real.std(0, correction=0).clamp_min(1e-3)
    values, lengths = stack_frames(values, lengths, config.stack, config.skip)
    inside = torch.arange(values.shape[1], device=values.device) < lengths[:, None]
    return torch.where(inside[..., None], values, 0.0), lengths


def differences(values: Tensor, lengths: Tensor, reach: int = 2) -> Tensor:
    """The slope of each channel over 2 reach + 1 frames: sum_n n (x_{t+n} - x_{t-n}) / (2 sum_n n^2)."""
    time, last = torch.arange(values.shape[1], device=values.device), (lengths - 1)[:, None]
    total = torch.zeros_like(values)
    for distance in range(1, reach + 1):
        later = _take(values, torch.minimum(time + distance, last))
        total += distance * (later - _take(values, torch.minimum((time - distance).clamp_min(0), last)))
    return total / (2 * sum(distance**2 for distance in range(1, reach + 1)))


def stack_frames(values: Tensor, lengths: Tensor, stack: int, skip: int) -> tuple[Tensor, Tensor]:
    """Every `skip`-th frame with the `stack` - 1 after it; the last repeats: (B, T, C) -> (B, T / skip, stack C)."""
    batch, time, channels = values.shape
    starts = torch.arange(0, time, skip, device=values.device)
    rows = (starts[:, None] + torch.arange(stack, device=values.device)).flatten()  # (T' stack,)
    stacked = _take(values, torch.minimum(rows, (lengths - 1)[:, None]))
    return stacked.view(batch, len(starts), stack * channels), -(-lengths // skip)


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """Frames (B, T', C) of values (B, T, C) at places (B, T')."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[2]))


@lru_cache(maxsize=8)
def _window(size: int) -> Tensor:
    return (0.5 - 0.5 * torch.cos(2 * np.pi * (torch.arange(size, dtype=torch.float64) + 0.5) / size)).float()


def band_centres(config: FeatureConfig) -> np.ndarray:
    """(mels,) the frequency in Hz at which each filter is 1."""
    return _edges(config)[1:-1]


def mel_filters(config: FeatureConfig) -> np.ndarray:
    """(mels, N / 2 + 1): the weight of each frequency in a band, 1 at its centre and 0 at its neighbours'."""
    return _mel_filters(config.rate, config.fft, tuple(_edges(config)))


@lru_cache(maxsize=8)
def _mel_filters(rate: int, size: int, edges: tuple[float, ...]) -> np.ndarray:
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
