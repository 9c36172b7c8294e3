"""Every generated corpus is the same, bit for bit, for the same seed: digests of what earlier versions made."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from harken.data.synthetic import gestures, opinions, seasons, stories, two_senses
from harken.data.synthetic.penfont import penfont
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.synthetic.phrasebook.splits import load_tagged_phrasebook
from harken.data.synthetic.scenes.splits import load_scenes
from harken.data.synthetic.seq2seq import MADE, load_made

DIGESTS = {
    1: {
        "phrasebook": "803ec0a1ae9438ac",
        "phrasebook fr-en": "554bab3bb50390f5",
        "tagged phrasebook": "fc03ca22f2805a32",
        "arithmetic": "485edf685d6781f0",
        "brackets": "674f327641204f94",
        "code": "14c333b06bd1fd96",
        "dates": "5bc6a253a0297d7e",
        "extract": "48075a0fa32ede38",
        "opinions": "d4d1135ab0ac4ddf",
        "gestures": "6362b416825951b5",
        "stories": "a25ce8524abdc006",
        "seasons": "35c17effe6f5f07b",
        "two senses": "437139263400c901",
        "penfont": "05cc3aea34144d37",
        "scenes": "2466af48535139f1",
    },
    7: {
        "phrasebook": "c4691a962a988ad5",
        "phrasebook fr-en": "446088f8244853fc",
        "tagged phrasebook": "5ec3a4bf3416aa0b",
        "arithmetic": "1028d6a1d46da231",
        "brackets": "dedb979173114d01",
        "code": "0a989ad99cca2a52",
        "dates": "d596b031ffb4a10a",
        "extract": "9067025bedf3ca85",
        "opinions": "6570ccf375bfb7e8",
        "gestures": "543aa4c41e43b79b",
        "stories": "b76ddad0865e95fa",
        "seasons": "a6a7431ee752ddc3",
        "two senses": "fb1e58a1350438a2",
        "penfont": "b0f164c93e992627",
        "scenes": "ecc456a49adae008",
    },
}


def corpora(seed: int) -> Iterator[tuple[str, Any]]:
    yield "phrasebook", load_phrasebook(seed, 300, 50, 50)
    yield "phrasebook fr-en", load_phrasebook(seed, 50, 20, 20, "fr-en")
    yield "tagged phrasebook", load_tagged_phrasebook(seed, 200)
    for name in MADE:
        yield name, load_made(name, seed, 300, 50, 50)
    yield "opinions", opinions.make_splits(300, seed).digests()
    yield "gestures", gestures.make_splits(60, seed).digests()
    yield "stories", stories.load_stories(seed, 200, 50, 50)
    yield "seasons", [series.content for series in seasons.make_seasons(seed=seed)]
    yield "two senses", two_senses.sentences(300, seed)
    yield "penfont", penfont(40, seed, 10)
    yield "scenes", load_scenes(seed, 20, 5, 5, 32)


def update(digest: Any, value: Any) -> None:
    """Feed a value of nested dataclasses, containers, arrays and texts into a digest."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        update(digest, list(value.items()))
    elif isinstance(value, frozenset):
        update(digest, sorted(value, key=repr))
    elif isinstance(value, list | tuple):
        digest.update(b"[")
        for item in value:
            update(digest, item)
        digest.update(b"]")
    elif hasattr(value, "__dataclass_fields__"):
        update(digest, [getattr(value, name) for name in value.__dataclass_fields__])
    else:
        digest.update((str(value) if isinstance(value, str) else repr(value)).encode() + b"\0")


@pytest.mark.parametrize("seed", [1, 7])
def test_corpora_are_the_same_for_the_same_seed(seed: int) -> None:
    digests = {}
    for name, corpus in corpora(seed):
        digest = hashlib.sha256()
        update(digest, corpus)
        digests[name] = digest.hexdigest()[:16]
    assert digests == DIGESTS[seed]
