"""The corpus of scenes and its splits, the same for the same seed and sizes.

Which things stand together decides the split: the hash of a scene's phrases sends a tenth of all pairs and triples to
the test and a tenth to validation, so that no test scene of two or three things shows a combination seen in training.
Of a single thing there are only 60 kinds; there the places, colours and backgrounds differ.

>>> corpus = load_scenes(seed=1, train=6, valid=2, test=2, size=32)
>>> len(corpus.train), len(corpus.train[0].captions), corpus.train[0].image.shape
(6, 1, (32, 32, 3))
>>> len(load_scenes(seed=1, train=6, valid=2, test=2, size=32, most=1).tests["test"][0].regions)
1
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.synthetic.scenes.scene import Thing, draw_things, picture_of
from harken.errors import UserError

NAMES = ("train", "valid", "test")
COUNTS = (0.3, 0.4, 0.3)  # share of scenes with one, two and three things ...
TO_LEARN = (0.5, 0.3, 0.2)  # ... and in training, where what a thing is called is learnt from single ones first
SMALLEST, MOST = 32, 3  # pixels of a side below which a small star is a blot; things in a scene


def load_scenes(
    seed: int = 1, train: int = 12000, valid: int = 500, test: int = 1000, size: int = 64, most: int = MOST
) -> CaptionCorpus:
    """Scenes of 1 to `most` things.

    Raises:
        UserError: a picture too small, or no scene at all.
    """
    if size < SMALLEST:
        raise UserError(f"data.image_size is {size}; scenes need at least {SMALLEST} pixels")
    if not 1 <= most <= MOST:
        raise UserError(f"a scene has 1 to {MOST} things, not {most}; choose a number between")
    for name, count in zip(NAMES, (train, valid, test), strict=True):
        if count < 1:
            raise UserError(f"{count} scenes for {name} are too few; ask for at least one")
    splits = [_draw(seed, name, count, size, most) for name, count in zip(NAMES, (train, valid, test), strict=True)]
    return CaptionCorpus("scenes", splits[0], splits[1], {"test": splits[2]})


def split_of(things: Sequence[Thing]) -> str | None:
    """The only split these things may stand in together; None for a single one, which may stand in each."""
    if len(things) == 1:
        return None
    tenth = crc32(" ".join(sorted(thing.phrase for thing in things)).encode()) % 10
    return {0: "test", 1: "valid"}.get(tenth, "train")


def _draw(seed: int, name: str, count: int, size: int, most: int) -> list[Captioned]:
    random = np.random.default_rng([seed, NAMES.index(name)])
    counts_drawn = (TO_LEARN if name == "train" else COUNTS)[:most]
    shares = np.array(counts_drawn) / sum(counts_drawn)
    counts = random.choice(np.arange(1, most + 1), size=count, p=shares)
    scenes = []
    for things_wanted in counts:
        things = draw_things(random, int(things_wanted), size)
        while split_of(things) not in (None, name):
            things = draw_things(random, int(things_wanted), size)
        scenes.append(picture_of(things, random, size))
    return scenes
