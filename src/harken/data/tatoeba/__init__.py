"""tatoeba: 62,000 English-French sentence pairs that people wrote, shipped with the package. Nothing is downloaded.

The pairs are a selection of Tatoeba (CC BY 2.0 FR; see ATTRIBUTION.txt beside this file) that `make.py` made. No
sentence has more than 12 words, none comes twice, and the test and validation sentences differ by more than one word
from every training sentence, on both sides.

>>> corpus = load_tatoeba(train=5)
>>> len(corpus.train), len(corpus.valid), len(corpus.tests["test"])
(5, 1000, 1000)
"""

from __future__ import annotations

import lzma
from pathlib import Path

from harken.data.text.pairs import Corpus, Pair
from harken.errors import UserError

FILE = Path(__file__).with_name("en-fr.tsv.xz")  # English, tab, French: the test pairs, then valid, then train
HELD_OUT = 1000  # pairs of test and of valid
TRAIN = 60_000
DIRECTIONS = ("en-fr", "fr-en")


def load_tatoeba(train: int = TRAIN, direction: str = "en-fr") -> Corpus:
    """The corpus with its first `train` training pairs, which are in random order.

    Raises:
        UserError: for an unknown direction, or more pairs than there are.
    """
    if direction not in DIRECTIONS:
        raise UserError(f'data.direction is "{direction}", which the tatoeba corpus does not have: use en-fr or fr-en')
    if not 0 < train <= TRAIN:
        raise UserError(f"data.size is {train}, but the tatoeba corpus has {TRAIN} training pairs: use 1 to {TRAIN}")
    source, target = direction.split("-")
    sides = slice(None) if source == "en" else slice(None, None, -1)
    lines = lzma.decompress(FILE.read_bytes()).decode("utf-8").splitlines()[: 2 * HELD_OUT + train]
    columns = (line.split("\t")[sides] for line in lines)
    pairs = [Pair(first, second) for first, second in columns]
    test, valid = pairs[:HELD_OUT], pairs[HELD_OUT : 2 * HELD_OUT]
    return Corpus("tatoeba", source, target, pairs[2 * HELD_OUT :], valid, {"test": test})
