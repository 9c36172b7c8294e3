"""Strings of spoken digits, mixed from single recordings as they are read: one speaker, silences, noise over all.

The Free Spoken Digit Dataset as one NumPy archive (`train.npz.xz`): `samples` of all recordings one after another,
`lengths`, `digit`, `speaker` and `take`. Takes divide it: some are kept for validation and others for testing, so that
no recording of a test string was heard in training. Some recordings are 30 dB softer than others of their speaker, and
would drown in the noise: in a string all are about as loud. A string is a function of (seed, epoch, index).

>>> digits = DigitRecordings(np.ones(60, np.int16), np.full(6, 10), np.arange(6), np.array(["a"] * 6), np.arange(6))
>>> mixed = MixedDigits(digits, [0, 1, 2, 3], MixConfig(silence=(0.0, 0.0), ends=(0.0, 0.0)), rate=8000, size=5, seed=1)
>>> mixed.text(0, 3) == mixed.text(0, 3), set("".join(mixed.texts())) <= set("0123")
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harken.data.audio.augmentation import decibels, noise
from harken.data.audio.utterances import Utterances
from harken.data.io.files import read_arrays
from harken.errors import UserError
from harken.files import expand_user

RATE = 8000
LOUDNESS = 0.05  # root mean square of a digit in a string
ARCHIVE = "train.npz.xz"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLUMNS = ("samples", "lengths", "digit", "speaker", "take")


@dataclass(frozen=True)
class MixConfig:
    """The settings by which strings are put together."""

    shortest: int = 3  # digits
    longest: int = 7
    silence: tuple[float, float] = (0.05, 0.4)  # seconds between two digits
    ends: tuple[float, float] = (0.1, 0.5)  # seconds before the first and after the last
    noise_db: tuple[float, float] = (10.0, 30.0)  # how far the noise lies below the digits
    level_db: float = 3.0  # how much louder or softer than the others a digit may be
    clip: float = 0.0  # the most that is cut off either end of a digit, as a share of it
    words: bool = False  # "three one" in place of "31"


@dataclass(frozen=True)
class DigitRecordings:
    """Single digits."""

    samples: np.ndarray  # all, one after another, int16
    lengths: np.ndarray
    digit: np.ndarray
    speaker: np.ndarray
    take: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The end of each recording."""
        return np.cumsum(self.lengths)


def read_digits(folder: str | Path) -> DigitRecordings:
    """The archive of a folder.

    Raises:
        UserError: it is not there, or is something else.
    """
    path = expand_user(folder) / ARCHIVE
    needed = f"it needs the arrays {', '.join(COLUMNS)}"
    arrays = read_arrays(path, needed)
    if not arrays.keys() >= set(COLUMNS):
        raise UserError(f"{path} is no archive of spoken digits ({', '.join(arrays)}); {needed}")
    columns = {name: arrays[name] for name in COLUMNS}
    if int(columns["lengths"].sum()) != len(columns["samples"]):
        raise UserError(
            f"{path} has lengths that do not add up to its {len(columns['samples']):,} samples; copy it anew"
        )
    return DigitRecordings(**columns)


@dataclass(frozen=True)
class Plan:
    """One string before it is mixed."""

    recordings: list[int]
    gaps: list[int]  # samples of silence before each and after the last
    levels: list[float]  # decibels of each digit
    cuts: list[tuple[int, int]]  # samples that are cut off the start and the end of each digit
    below: float  # decibels from speech to noise
    noise_seed: int


class MixedDigits(Utterances):
    """Strings of digits out of some takes."""

    def __init__(
        self, digits: DigitRecordings, takes: Sequence[int], config: MixConfig, rate: int, size: int, seed: int
    ) -> None:
        """
        Raises:
            UserError: no recording has such a take, or the rate is not that of the recordings.
        """
        if rate != RATE:
            raise UserError(f"features.rate is {rate}, but the spoken digits have {RATE}; set features.rate = {RATE}")
        self.digits, self.config, self.size, self.seed = digits, config, size, seed
        is_chosen = np.isin(digits.take, list(takes))
        names = sorted(set(digits.speaker[is_chosen].tolist()))
        self.groups = [np.flatnonzero(is_chosen & (digits.speaker == name)) for name in names]
        if not self.groups:
            raise UserError(
                f"no spoken digit has a take of {list(takes)}; there are {sorted(set(digits.take.tolist()))}"
            )
        self.starts = digits.ends - digits.lengths
        squares = np.add.reduceat(np.square(digits.samples.astype(np.float64) / 32768), self.starts)
        self.loudness = np.sqrt(np.maximum(squares / digits.lengths, 1e-12))  # of every recording

    def __len__(self) -> int:
        return self.size

    def plan(self, epoch: int, index: int) -> Plan:
        """The recordings of a string, and the pauses between them."""
        random, config = np.random.default_rng([self.seed, epoch, index]), self.config
        group = self.groups[random.integers(len(self.groups))]
        count = int(random.integers(config.shortest, config.longest + 1))
        recordings = [int(number) for number in group[random.integers(0, len(group), count)]]
        ends, inside = random.uniform(*config.ends, 2), random.uniform(*config.silence, count - 1)
        gaps = [int(seconds * RATE) for seconds in (ends[0], *inside, ends[1])]
        levels = random.uniform(-config.level_db, config.level_db, count).tolist()
        shares = random.uniform(0, config.clip, (count, 2)) * self.digits.lengths[recordings][:, None]
        cuts = [(int(start), int(end)) for start, end in shares]
        return Plan(
            recordings, gaps, levels, cuts, float(random.uniform(*config.noise_db)), int(random.integers(2**31))
        )

    def text(self, epoch: int, index: int) -> str:
        digits = [int(self.digits.digit[number]) for number in self.plan(epoch, index).recordings]
        return " ".join(WORDS[digit] for digit in digits) if self.config.words else "".join(map(str, digits))

    def length(self, epoch: int, index: int) -> int:
        plan = self.plan(epoch, index)
        return sum(plan.gaps) + int(self.digits.lengths[plan.recordings].sum()) - int(np.sum(plan.cuts))

    def samples(self, epoch: int, index: int) -> np.ndarray:
        plan = self.plan(epoch, index)
        parts: list[np.ndarray] = []
        for number, gap, level, (first, last) in zip(plan.recordings, plan.gaps, plan.levels, plan.cuts, strict=False):
            start, end = self.starts[number] + first, self.starts[number] + self.digits.lengths[number] - last
            sound = self.digits.samples[start:end].astype(np.float32) / 32768
            gain = LOUDNESS * decibels(level) / float(self.loudness[number])
            parts += [np.zeros(gap, np.float32), gain * sound]
        mixed = np.concatenate([*parts, np.zeros(plan.gaps[-1], np.float32)])
        return mixed + decibels(-plan.below) * LOUDNESS * noise(len(mixed), np.random.default_rng(plan.noise_seed))

    def name(self, index: int) -> str:
        return f"string {index}"
