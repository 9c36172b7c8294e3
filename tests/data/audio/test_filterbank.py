"""Sound as frames: resampling keeps tones, bands hear their own frequency, joining and augmenting are what they say."""

import numpy as np
import pytest
import torch

from harken.data.audio import filterbank
from harken.data.audio.augmentation import (
    add_gain_and_noise,
    add_noise,
    equalise,
    noise,
    perturb_speed,
    spec_augment,
    stretch_time,
)
from harken.data.audio.config import AugmentConfig, FeatureConfig
from harken.data.audio.filterbank import (
    FLOOR,
    band_centres,
    differences,
    frame_count,
    frames_of,
    log_mel,
    log_mels,
    mel_filters,
    pad_rows,
    postprocess,
    stack_frames,
    stacked_count,
)
from harken.data.audio.recordings import resample


def energies_of(samples: np.ndarray, config: FeatureConfig) -> np.ndarray:
    return log_mels([samples], config)[0].numpy()


def tone(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize(("old", "new"), [(16000, 8000), (44100, 8000), (8000, 16000), (11025, 8000), (8000, 11025)])
def test_a_tone_stays_what_it_is_at_another_rate(old: int, new: int) -> None:
    found = resample(tone(700, old), old, new)
    wanted = tone(700, new)
    assert abs(len(found) - len(wanted)) <= 1
    inside = slice(new // 20, new * 9 // 20)
    np.testing.assert_allclose(found[inside], wanted[inside], atol=2e-3)


@pytest.mark.parametrize(
    ("frequency", "old"), [(4100, 16000), (6000, 16000), (7900, 16000), (5000, 44100), (20000, 44100)]
)
def test_aliasing_is_60_decibels_below_the_tone(frequency: float, old: int) -> None:
    assert np.abs(resample(tone(frequency, old), old, 8000)[200:-200]).max() < 1e-3


@pytest.mark.parametrize("rate", [44101, 767_999])
def test_rates_without_a_small_common_ratio_are_resampled_by_the_nearest(rate: int) -> None:
    found = resample(tone(700, rate), rate, 8000)
    assert len(found) == pytest.approx(4000, rel=0.001)
    np.testing.assert_allclose(found[200:1000], tone(700, 8000)[200:1000], atol=0.02)


def test_a_constant_stays_and_the_same_rate_changes_nothing() -> None:
    np.testing.assert_allclose(resample(np.ones(20000), 44100, 8000)[100:-100], 1.0, atol=1e-3)
    np.testing.assert_array_equal(resample(np.arange(5.0), 8000, 8000), np.arange(5.0, dtype=np.float32))


@pytest.mark.parametrize("frequency", [300, 1000, 2500, 3500])
def test_the_band_of_a_tones_frequency_is_the_loudest(frequency: float) -> None:
    config = FeatureConfig()
    loudest = energies_of(tone(frequency, 8000).astype(np.float32), config)[10].argmax()
    assert loudest == np.abs(band_centres(config) - frequency).argmin()


def test_the_energy_of_a_tone_is_its_definition() -> None:
    """A full-scale tone on a frequency of the transform has |X|^2 = 1/4 in units of the window's sum."""
    config = FeatureConfig(
        window=32.0, mels=40, range_db=None
    )  # 256 samples: 1,000 Hz is frequency 32 of the transform
    samples = tone(1000, 8000).astype(np.float32)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(256) + 0.5) / 256)).astype(np.float64)
    power = np.abs(np.fft.rfft(samples[:256] * window)) ** 2 / window.sum() ** 2
    assert power[32] == pytest.approx(0.25, rel=1e-4)
    np.testing.assert_allclose(
        np.exp(energies_of(samples, config)[0]), np.maximum(mel_filters(config) @ power, FLOOR), rtol=1e-3, atol=1e-8
    )


def test_mel_filters_are_one_at_their_centre_and_sum_to_one_between() -> None:
    config = FeatureConfig(window=256.0, mels=20)
    bands, frequencies = mel_filters(config), np.fft.rfftfreq(config.fft, 1 / 8000)
    between = (frequencies > band_centres(config)[0]) & (frequencies < band_centres(config)[-1])
    np.testing.assert_allclose(bands.sum(0)[between], 1.0, atol=1e-5)
    assert bands.max() > 0.95


def test_counts_are_those_of_the_arrays() -> None:
    for samples in (10, 200, 279, 280, 281, 4000):
        for stack, skip in ((1, 1), (3, 3), (4, 2)):
            config = FeatureConfig(stack=stack, skip=skip)
            [frames] = frames_of([np.random.default_rng(0).normal(size=samples).astype(np.float32)], config)
            assert frames.shape == (stacked_count(frame_count(samples, config), config), config.channels)


def test_stacking_repeats_the_last_frame() -> None:
    values, lengths = torch.arange(5.0)[None, :, None], torch.tensor([5])
    assert stack_frames(values, lengths, 3, 3)[0].tolist() == [[[0, 1, 2], [3, 4, 4]]]
    assert stack_frames(values, lengths, 3, 2)[0].tolist() == [[[0, 1, 2], [2, 3, 4], [4, 4, 4]]]


def test_differences_are_slopes_and_normalising_is_per_band() -> None:
    line = torch.arange(10.0)[None, :, None] * torch.tensor([2.0, -1.0])
    found = differences(line, torch.tensor([10]))[0, 2:-2].numpy()
    np.testing.assert_allclose(found, np.broadcast_to([2.0, -1.0], (6, 2)), rtol=1e-6)
    config = FeatureConfig(deltas=1, stack=1, skip=1, normalise="utterance")
    energies = torch.from_numpy(np.random.default_rng(1).normal(3, 5, (1, 50, 40)).astype(np.float32))
    values = postprocess(energies, torch.tensor([50]), config)[0][0].numpy()
    assert values.shape == (50, 80)
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-3)


@pytest.mark.parametrize(
    "config",
    [
        FeatureConfig(),
        FeatureConfig(range_db=None, deltas=2, stack=4, skip=2),
        FeatureConfig(rate=16000, mels=23, normalise="utterance", deltas=1, stack=1, skip=1),
    ],
    ids=["relative", "absolute", "utterance"],
)
def test_a_recording_has_the_same_features_alone_and_in_a_padded_batch(config: FeatureConfig) -> None:
    random = np.random.default_rng(3)
    recordings = [random.normal(0, 0.1, int(size)).astype(np.float32) for size in random.integers(20, 9000, 40)]
    padded, lengths = pad_rows(recordings)
    batch, counts = postprocess(*log_mel(torch.nn.functional.pad(padded, (0, 777), value=9.0), lengths, config), config)
    together = frames_of(recordings, config)
    for number, samples in enumerate(recordings):
        [alone] = frames_of([samples], config)
        count = int(counts[number])
        assert count == len(alone) == stacked_count(frame_count(len(samples), config), config)
        assert torch.equal(batch[number, :count], alone) and torch.equal(together[number], alone)
        assert not batch[number, count:].any()


def test_features_are_in_float32_where_a_model_is_trained_in_bfloat16() -> None:
    samples, lengths = pad_rows([tone(300, 8000), tone(700, 8000, 0.3)])
    expected, _ = log_mel(samples, lengths, FeatureConfig())
    with torch.autocast("cpu", torch.bfloat16):
        energies, _ = log_mel(samples, lengths, FeatureConfig())
    assert energies.dtype == torch.float32 and torch.equal(energies, expected)


def test_batches_are_bounded_and_keep_the_order_of_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    config = FeatureConfig()
    recordings = [tone(300 + 40 * number, 8000, 0.1 + 0.05 * (number % 7)).astype(np.float32) for number in range(20)]
    whole = log_mels(recordings, config)
    sizes = []

    def counting(samples: torch.Tensor, lengths: torch.Tensor, config: FeatureConfig) -> object:
        sizes.append(samples.numel())
        return log_mel(samples, lengths, config)

    monkeypatch.setattr(filterbank, "BATCH_SAMPLES", 10_000)
    monkeypatch.setattr(filterbank, "log_mel", counting)
    assert all(torch.equal(one, other) for one, other in zip(log_mels(recordings, config), whole, strict=True))
    assert len(sizes) > 3 and max(sizes) <= 10_000


def test_loudness_drops_out_and_silence_is_cut_where_a_range_is_set() -> None:
    samples = np.random.default_rng(2).normal(0, 0.1, 4000).astype(np.float32)
    samples[2000:] = 0.0
    found = energies_of(samples, FeatureConfig(range_db=40.0))
    np.testing.assert_allclose(found, energies_of(4 * samples, FeatureConfig(range_db=40.0)), atol=1e-4)
    assert found.max() == 0.0 and found.min() == pytest.approx(-4 * np.log(10))
    assert energies_of(samples, FeatureConfig(range_db=None)).min() == pytest.approx(np.log(FLOOR))


def test_noise_lies_as_far_below_as_is_said() -> None:
    sound = tone(500, 8000, 2.0)
    added = add_noise(sound, 20.0, np.random.default_rng(1)) - sound
    assert 20 * np.log10(sound.std() / added.std()) == pytest.approx(20.0, abs=0.5)
    kinds = [noise(8192, np.random.default_rng(seed)) for seed in range(8)]
    low = [np.square(np.abs(np.fft.rfft(one))[:400]).sum() / np.square(np.abs(np.fft.rfft(one))).sum() for one in kinds]
    assert min(low) < 0.15 < 0.5 < max(low)  # white, and pink with most of its power below


def test_augmenting_is_drawn_from_the_generator_alone() -> None:
    config = AugmentConfig(gain_db=6, noise_db=(10, 20), stretch=0.2, frequency_masks=2, time_masks=2)
    samples, energies = tone(500, 8000), np.random.default_rng(0).normal(size=(60, 40))
    for _ in range(2):
        one, other = (np.random.default_rng(5) for _ in range(2))
        np.testing.assert_array_equal(
            add_gain_and_noise(samples, config, one), add_gain_and_noise(samples, config, other)
        )
        np.testing.assert_array_equal(stretch_time(energies, config, one), stretch_time(energies, config, other))
        np.testing.assert_array_equal(equalise(energies, config, one), equalise(energies, config, other))
        np.testing.assert_array_equal(spec_augment(energies, config, one), spec_augment(energies, config, other))
    nothing = AugmentConfig()
    np.testing.assert_array_equal(stretch_time(energies, nothing, np.random.default_rng(1)), energies)
    np.testing.assert_array_equal(spec_augment(energies, nothing, np.random.default_rng(1)), energies)


def test_another_speed_moves_the_pitch_and_keeps_the_loudness() -> None:
    sound = tone(500, 8000, 1.0)
    rates = set()
    for seed in range(20):
        found = perturb_speed(sound, AugmentConfig(speed=0.2), np.random.default_rng(seed))
        heard = np.abs(np.fft.rfft(found)).argmax() * 8000 / len(found)
        assert heard == pytest.approx(500 * 8000 / len(found), abs=2)
        assert found.std() == pytest.approx(sound.std(), rel=0.01)
        rates.add(round(heard))
    assert min(rates) < 440 and max(rates) > 560 and min(rates) >= 399 and max(rates) <= 601


def test_stretching_keeps_both_ends_and_straight_lines() -> None:
    line = np.linspace(0, 1, 50)[:, None].astype(np.float32)
    lengths = set()
    for seed in range(20):
        found = stretch_time(line, AugmentConfig(stretch=0.2), np.random.default_rng(seed))
        np.testing.assert_allclose(found[:, 0], np.linspace(0, 1, len(found)), atol=1e-5)
        lengths.add(len(found))
    assert min(lengths) < 46 and max(lengths) > 55 and min(lengths) >= 41 and max(lengths) <= 63


def test_an_equaliser_adds_one_smooth_curve_to_every_frame() -> None:
    energies = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    curves = []
    for seed in range(200):
        added = equalise(energies, AugmentConfig(equaliser_db=6.0), np.random.default_rng(seed)) - energies
        np.testing.assert_allclose(added, np.broadcast_to(added[:1], added.shape), atol=1e-5)
        curves.append(added[0])
    found = np.array(curves) * 10 / np.log(10)  # decibels
    assert found[:, [0, -1]].std() == pytest.approx(6.0, rel=0.1)
    assert np.abs(np.diff(found, axis=1)).max() < 6.0  # no jump from one band to the next
    np.testing.assert_array_equal(equalise(energies, AugmentConfig(), np.random.default_rng(1)), energies)


def test_masks_are_bounded_and_set_to_the_mean() -> None:
    energies = np.random.default_rng(0).normal(size=(100, 40))
    config = AugmentConfig(frequency_masks=1, frequency_width=5, time_masks=1, time_width=8)
    for seed in range(30):
        found = spec_augment(energies, config, np.random.default_rng(seed))
        changed = found != energies
        assert changed.all(0).sum() <= 5 and changed.all(1).sum() <= 8
        np.testing.assert_array_equal(found[changed], np.broadcast_to(energies.mean(0), energies.shape)[changed])
