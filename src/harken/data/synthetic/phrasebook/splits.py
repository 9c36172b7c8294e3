"""The corpora and their splits, drawn from the grammar: sentence pairs, and English sentences with tagged words.

Each split has its own random stream, so a split does not change with the size of another; none shares a sentence
with another, on either side. Train, valid and test hold no two words of a held-out combination in one sentence;
every sentence of test-novel holds such a combination. Every sentence of test-long is longer, on both sides, than any
in train.

>>> corpus = load_phrasebook(seed=1, train=5, valid=2, test=2)
>>> len(corpus.train), sorted(corpus.tests)
(5, ['test', 'test-long', 'test-novel'])
>>> sentence = tag_tokens(Grammar(Random("phrasebook")).sentence().words[0])
>>> len(sentence.words) == len(sentence.tags)
True
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import TypeVar

from harken.data.synthetic.phrasebook.english import class_of, takes_an
from harken.data.synthetic.phrasebook.grammar import Drawn, Grammar
from harken.data.synthetic.phrasebook.links import Tokens
from harken.data.text.pairs import Alignment, Corpus, Pair
from harken.data.text.tagged import Tagged
from harken.errors import UserError

SHORTEST = 3  # English words
LONGEST = 24  # words on either side of a pair in train, valid, test and test-novel
LONG = (27, 45)  # words on either side of a pair in test-long
LONG_PAIRS = 500
NOVEL_PAIRS = 500
DIRECTIONS = ("en-fr", "fr-en")
Row = TypeVar("Row")


def generate(seed: int | str = 1) -> Iterator[Pair]:
    """Distinct pairs without end, of every length up to LONGEST; no English and no French sentence comes twice."""
    pairs = (sentence.pair for sentence in _sentences(f"{seed} generate"))
    return _unseen(filter(_is_short, pairs), _both_sides, set())


def _sentences(stream: str, novel: bool = False, long: bool = False) -> Iterator[Drawn]:
    """Sentences without end; `novel` leans towards held-out combinations, `long` chains clauses."""
    grammar = Grammar(Random(f"phrasebook {stream}"), novel)
    while True:
        yield grammar.sentence(long)


def _unseen(rows: Iterator[Row], keys: Callable[[Row], Sequence[Hashable]], used: set[Hashable]) -> Iterator[Row]:
    """The rows none of whose keys was seen; remembers their keys."""
    for row in rows:
        own = keys(row)
        if used.isdisjoint(own):
            used.update(own)
            yield row


def load_phrasebook(
    seed: int = 1, train: int = 60000, valid: int = 1000, test: int = 1000, direction: str = "en-fr"
) -> Corpus:
    """The synthetic English-French corpus; the same for the same arguments.

    Raises:
        UserError: for an unknown direction or a negative size.
    """
    if direction not in DIRECTIONS:
        raise UserError(f"The phrasebook has no direction {direction!r}; choose en-fr or fr-en.")
    for name, size in (("train", train), ("valid", valid), ("test", test)):
        if size < 0:
            raise UserError(f"The phrasebook cannot make {size} pairs for {name}; give a number that is not negative.")
    collecting = gc.isenabled()
    gc.disable()  # the pairs hold no cycles, and walking over them again and again takes a third of the time
    try:
        return _load(seed, train, valid, test, direction)
    finally:
        if collecting:
            gc.enable()


def _load(seed: int, train: int, valid: int, test: int, direction: str) -> Corpus:
    used: set[Hashable] = set()

    def draw(split: str, size: int, accept: Callable[[Drawn], bool], **leaning: bool) -> list[Pair]:
        sentences = filter(accept, _sentences(f"{seed} {split}", **leaning))
        return list(islice(_unseen((sentence.pair for sentence in sentences), _both_sides, used), size))

    def is_familiar(sentence: Drawn) -> bool:
        return not sentence.together and _is_short(sentence.pair)

    def is_long(sentence: Drawn) -> bool:
        pair = sentence.pair
        return not sentence.novel and min(_lengths(pair)) >= LONG[0] and max(_lengths(pair)) <= LONG[1]

    def is_novel(sentence: Drawn) -> bool:
        return sentence.novel and _is_short(sentence.pair)

    tests: dict[str, Sequence[Pair]] = {"test": draw("test", test, is_familiar)}
    dev = draw("valid", valid, is_familiar)
    tests["test-long"] = draw("test-long", LONG_PAIRS, is_long, long=True)
    tests["test-novel"] = draw("test-novel", NOVEL_PAIRS, is_novel, novel=True)
    pairs = draw("train", train, is_familiar)
    source, target = direction.split("-")
    if direction == "fr-en":
        pairs, dev = [_turned(pair) for pair in pairs], [_turned(pair) for pair in dev]
        tests = {name: [_turned(pair) for pair in split] for name, split in tests.items()}
    return Corpus("phrasebook", source, target, pairs, dev, tests)


def _lengths(pair: Pair) -> tuple[int, int]:
    """Words of the English and of the French sentence."""
    return pair.source.count(" ") + 1, pair.target.count(" ") + 1


def _is_short(pair: Pair) -> bool:
    english, french = _lengths(pair)
    return english >= SHORTEST and max(english, french) <= LONGEST


def _both_sides(pair: Pair) -> tuple[str, str]:
    """The keys of a pair; English and French are told apart by a mark."""
    return "e" + pair.source, "f" + pair.target


def _turned(pair: Pair) -> Pair:
    """The pair read the other way."""
    alignment = pair.alignment
    if alignment is not None:
        sure = frozenset((j, i) for i, j in alignment.sure)
        alignment = Alignment(sure, frozenset((j, i) for i, j in alignment.possible))
    return Pair(pair.target, pair.source, alignment)


TAGGED_HELD_OUT = 500  # sentences of valid and of test


def load_tagged_phrasebook(seed: int = 1, train: int = 6000) -> dict[str, list[Tagged]]:
    """The splits train, valid and test, the same for the same arguments; no sentence stands in two of them."""
    used: set[Hashable] = set()

    def draw(split: str, size: int) -> list[Tagged]:
        tagged = (tag_tokens(sentence.words.english) for sentence in _sentences(f"{seed} tags {split}"))
        short = (sentence for sentence in tagged if len(sentence.words) <= LONGEST)
        return list(islice(_unseen(short, lambda sentence: [sentence.words], used), size))

    return {
        split: draw(split, size)
        for split, size in (("test", TAGGED_HELD_OUT), ("valid", TAGGED_HELD_OUT), ("train", train))
    }


def tag_tokens(english: Tokens) -> Tagged:
    """The English side of a sentence: punctuation and 's are words of their own."""
    texts = [text for text, _, _ in english]
    words, tags = [], []
    for index, text in enumerate(texts):
        clinging = text[0] == "+"
        plain = text[1:] if clinging else text
        tags.append(class_of(plain))
        following = texts[index + 1] if index + 1 < len(texts) else ""
        words.append("an" if plain == "a" and following and takes_an(following) else str(plain))
    return Tagged(tuple(words), tuple(tags))
