"""Speech that the package makes itself: every letter a sound of its own, in many voices and in noise.

A vowel or a voiced consonant is a buzz at the pitch of the voice, shaped by two resonances (formants); s and t are
noise in a band. Letters glide into each other by fading; a space is a short silence. Texts are one to four words of a
small dictionary, so that a language model has something to know. An utterance is a function of (seed, epoch, index).
Reference: Fant (1960), "Acoustic Theory of Speech Production": source and filter.

>>> speech = ToneSpeech(size=3, seed=1)
>>> speech.text(0, 0) in " ".join(speech.texts()), len(speech.samples(0, 0)) == speech.length(0, 0)
(True, True)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from harken.data.audio.augmentation import decibels, noise
from harken.data.audio.utterances import Utterances
from harken.errors import UserError

RATE = 8000
FORMANTS = {  # letter -> two resonances in Hz, and how strong the second is
    "a": (750, 1250, 0.8),
    "e": (450, 1900, 0.8),
    "i": (280, 2400, 0.9),
    "o": (480, 850, 0.8),
    "u": (300, 1600, 0.3),
    "l": (350, 2900, 0.5),
    "m": (250, 1100, 0.15),
    "n": (250, 2000, 0.15),
    "r": (550, 1500, 0.4),
}
NOISES = {"s": (2600, 3900), "t": (1200, 2600)}  # letter -> the band of its noise in Hz
LETTERS = "".join(sorted([*FORMANTS, *NOISES]))
DICTIONARY = (
    *("a", "in", "at", "on", "no", "me", "so", "it", "use", "sea", "tea", "ten", "sun", "son", "one", "too"),
    *("man", "men", "rain", "moon", "noon", "sail", "tree", "stone", "lion", "train", "east", "mouse", "letter"),
    *("summer", "lemon", "onion", "tunnel", "minute", "season", "tomato", "lantern", "instant", "listen", "silent"),
)
FADE = 120  # samples in which a letter comes and goes


class ToneSpeech(Utterances):
    """Made utterances at 8,000 samples a second."""

    def __init__(self, size: int, seed: int, rate: int = RATE, noise_db: tuple[float, float] = (12.0, 30.0)) -> None:
        """
        Raises:
            UserError: another rate.
        """
        if rate != RATE:
            raise UserError(f"features.rate is {rate}, but made speech has {RATE}; set features.rate = {RATE}")
        self.size, self.seed, self.noise_db = size, seed, noise_db

    def __len__(self) -> int:
        return self.size

    def _plan(self, epoch: int, index: int) -> tuple[str, np.ndarray, np.random.Generator]:
        """Text, samples of each letter and of the silence at both ends, and the generator for the rest."""
        random = np.random.default_rng([self.seed, epoch, index])
        words = random.choice(len(DICTIONARY), int(random.integers(1, 5)))
        text = " ".join(DICTIONARY[word] for word in words)
        pace = random.uniform(0.8, 1.25)
        seconds = random.uniform(0.07, 0.13, len(text) + 2) * pace
        return text, (seconds * RATE).astype(int), random

    def text(self, epoch: int, index: int) -> str:
        return self._plan(epoch, index)[0]

    def length(self, epoch: int, index: int) -> int:
        return int(self._plan(epoch, index)[1].sum())

    def samples(self, epoch: int, index: int) -> np.ndarray:
        text, lengths, random = self._plan(epoch, index)
        total = int(lengths.sum())
        pitch = random.uniform(90, 220) * (1 + 0.1 * np.sin(np.linspace(0, random.uniform(2, 9), total)))
        phase = np.cumsum(pitch / RATE)
        buzz = (phase - np.floor(phase) - 0.5).astype(np.float32)  # a sawtooth has all harmonics
        tract = round(float(random.uniform(0.92, 1.08)), 2)  # a shorter vocal tract has all its resonances higher
        samples, start = np.zeros(total, np.float32), int(lengths[0])
        by_size: dict[int, list[tuple[str, int, np.ndarray]]] = {}  # of the transform: letters, their starts, sources
        for letter, count in zip(text, lengths[1:-1].tolist(), strict=True):
            if letter != " ":
                source = random.standard_normal(count).astype(np.float32) if letter in NOISES else buzz[start:][:count]
                by_size.setdefault(1 << (count - 1).bit_length(), []).append((letter, start, source))
            start += count
        for size, letters in by_size.items():
            _add_sounds(samples, size, letters, tract)
        loudness = float(np.sqrt(np.mean(np.square(samples))))
        return 0.1 * (samples / loudness + decibels(-random.uniform(*self.noise_db)) * noise(total, random))

    def name(self, index: int) -> str:
        return f"utterance {index}"


def _add_sounds(samples: np.ndarray, size: int, letters: list[tuple[str, int, np.ndarray]], tract: float) -> None:
    """Write the sources into `made` through the filters of their letters, faded in and out, each of loudness 1."""
    sources = np.zeros((len(letters), size), np.float32)
    for row, (_, _, source) in zip(sources, letters, strict=True):
        row[: len(source)] = source
    responses = np.stack([_response(letter, size, tract) for letter, _, _ in letters])
    filtered = np.fft.irfft(np.fft.rfft(sources) * responses, size).astype(np.float32)
    for row, (_, start, source) in zip(filtered, letters, strict=True):
        count = len(source)
        sound = row[:count] * _fade(count)
        loudness = float(np.sqrt(np.add.reduce(sound * sound) / count))
        samples[start : start + count] = sound / max(loudness, 1e-9)


@lru_cache(maxsize=1024)
def _fade(count: int) -> np.ndarray:
    """The envelope of a sound: it fades in and out."""
    fade = np.minimum(1.0, (np.arange(count) + 1) / min(FADE, count // 3)).astype(np.float32)
    return fade * fade[::-1]


@lru_cache(maxsize=1024)
def _response(letter: str, size: int, tract: float) -> np.ndarray:
    """The share of each frequency that passes."""
    frequencies = np.fft.rfftfreq(size, 1 / RATE)
    if letter in NOISES:
        low, high = NOISES[letter]
        return ((frequencies > low * tract) & (frequencies < high * tract)).astype(np.float64)
    first, second, strength = FORMANTS[letter]
    return _resonance(frequencies, first * tract) + strength * _resonance(frequencies, second * tract)


def _resonance(frequencies: np.ndarray, centre: float) -> np.ndarray:
    """1 at the centre, half of it 90 Hz away."""
    return 1 / (1 + ((frequencies - centre) / 90) ** 2)
