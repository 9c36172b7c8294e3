"""Corpora that the package makes for the other seq2seq jobs: the model of translation, other pairs.

    dates        "the 3rd of May, 1987"                     -> 1987-05-03
    arithmetic   "12 + 345 ="                               -> 357
    brackets     "the cat sleeps ."                         -> (S (NP the cat) (VP sleeps))
    code         "the sum of the squares of xs"             -> sum([i ** 2 for i in xs])
    extract      a paragraph                                -> the sentence that says what came of its subject

Every corpus is the same for the same seed, and no meaning is in two splits. A date can be written in many ways, so it
is not enough that no line comes twice: each corpus says what a pair means (`Maker.meaning`), and a meaning that
validation or test has is never drawn for training.

>>> corpus = load_made("dates", seed=1, train=5, valid=2, test=2)
>>> len(corpus.train), list(corpus.tests)
(5, ['test'])
>>> {pair.source for pair in corpus.train} & {pair.source for pair in corpus.tests["test"]}
set()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from random import Random

from harken.data.text.pairs import Corpus, Pair
from harken.errors import UserError

MADE = ("arithmetic", "brackets", "code", "dates", "extract")  # each a file of this folder, with a MAKER
HELD_OUT = 1000  # pairs of valid and of test
SIZE = 20000  # pairs of train where nothing is said
TIRED = 1000  # draws in a row that brought nothing new: the corpus is used up


@dataclass(frozen=True)
class Maker:
    """One made corpus."""

    draw: Callable[[Random], Pair]
    meaning: Callable[[Pair], str]  # what must not stand in two splits
    source: str  # what the sides are called
    target: str


def maker_of(name: str) -> Maker:
    """The maker of a corpus of `MADE`."""
    maker: Maker = import_module(f"{__name__}.{name}").MAKER
    return maker


def load_made(name: str, seed: int = 1, train: int = SIZE, valid: int = HELD_OUT, test: int = HELD_OUT) -> Corpus:
    """The corpus `name`; no pair comes twice.

    Raises:
        UserError: no such corpus, or more pairs than it can make.
    """
    if name not in MADE:
        raise UserError(f"there is no made corpus {name!r}; choose {', '.join(MADE)}")
    maker = maker_of(name)
    exam = draw_split(maker, f"{name} {seed} test", test, unlike=set())
    held = {maker.meaning(pair) for pair in exam}
    dev = draw_split(maker, f"{name} {seed} valid", valid, unlike=held)
    held |= {maker.meaning(pair) for pair in dev}
    pairs = draw_split(maker, f"{name} {seed} train", train, unlike=held)
    return Corpus(name, maker.source, maker.target, pairs, dev, {"test": exam})


def draw_split(maker: Maker, stream: str, size: int, unlike: set[str]) -> list[Pair]:
    """Distinct pairs whose meaning is not in `unlike`."""
    random, pairs, sources, idle = Random(stream), list[Pair](), set[str](), 0
    while len(pairs) < size:
        pair = maker.draw(random)
        if pair.source in sources or maker.meaning(pair) in unlike:
            idle += 1
            if idle > TIRED:
                raise UserError(f"{stream.split()[0]} cannot make {size:,} different pairs; lower data.size")
            continue
        idle = 0
        sources.add(pair.source)
        pairs.append(pair)
    return pairs
