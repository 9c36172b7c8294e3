"""gestures: movements of a hand in the plane that harken makes, as noisy signals of two channels.

Six classes in three pairs; the two of a pair pass the same places in another order:

    circle-left, circle-right     around, one way or the other
    swipe-left, swipe-right       along a line
    tick, hook                    down then up, or up then down

Each has its own size, tilt, speed, length (24 to 48 frames), a rest before and after, a slow drift, and noise.

>>> splits = make_splits(60, seed=1)
>>> splits.train.values[0].shape[1], len(set(splits.train.labels))
(2, 6)
"""

from __future__ import annotations

import numpy as np

from harken.data.text.examples import Labelled, LabelledSplits

SIZE, HELD_OUT = 1200, 300
CLASSES = ("circle-left", "circle-right", "swipe-left", "swipe-right", "tick", "hook")
NOISE = 0.12


def make_splits(size: int | None, seed: int) -> LabelledSplits:
    """`size` gestures to train on, and 300 each to validate and to test on; the same for the same seed."""
    parts = [_draw(count, seed, part) for part, count in enumerate((size or SIZE, HELD_OUT, HELD_OUT))]
    return LabelledSplits("gestures", parts[0], parts[1], {"test": parts[2]})


def _draw(count: int, seed: int, part: int) -> Labelled:
    numbers = np.random.default_rng([seed, part])
    labels = [CLASSES[int(number)] for number in numbers.integers(0, len(CLASSES), count)]
    return Labelled([gesture(label, numbers) for label in labels], labels)


def gesture(label: str, numbers: np.random.Generator) -> np.ndarray:
    """One gesture, (T, 2)."""
    length = int(numbers.integers(24, 49))
    rest = numbers.uniform(0.05, 0.3, 2)  # before and after, as shares
    time = np.clip((np.linspace(0, 1, length) - rest[0]) / (1 - rest.sum()), 0, 1)
    time = time ** numbers.uniform(0.7, 1.4)  # faster at first, or later
    if label.startswith("circle"):
        turn = 2 * np.pi * time * (1 if label == "circle-left" else -1) + numbers.uniform(0, 2 * np.pi)
        path = np.stack([np.cos(turn), np.sin(turn)], 1)
    elif label.startswith("swipe"):
        across = (2 * time - 1) * (1 if label == "swipe-right" else -1)
        path = np.stack([across, 0.2 * np.sin(np.pi * time)], 1)
    else:
        depth = 1 - np.abs(2 * time - 1)  # there and back
        path = np.stack([time - 0.5, -depth if label == "tick" else depth], 1)
    tilt = numbers.normal(0, 0.25)
    rotation = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    drift = np.linspace(0, 1, length)[:, None] * numbers.normal(0, 0.2, 2)
    noise = numbers.normal(0, NOISE, (length, 2))
    return (numbers.uniform(0.6, 1.4) * path @ rotation.T + drift + noise).astype(np.float32)
