"""Made English in which some words mean two things, each among words of its own.

    the farmer paid the bank with gold            a frog sat on the bank by the stream

Every sense has its topic (lists of words that stand in for each other), on both sides of the word, so that who predicts
the one side has to know the sense from the other. It has its sentences, and peers: words with that one meaning, which
stand in the same sentences. So the text teaches which words are alike, and two sentences of one sense need not share a
word of the topic. The same seed makes the same sentences.

>>> made = sentences(1, seed=3)[0]
>>> made.word, made.sense, made.words[made.position]
('bat', 0, 'bat')
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from harken.data.synthetic.vocabulary import load_vocabulary

SLOT = re.compile(r"<(\w+)>")


SENSES = load_vocabulary("two_senses")  # word -> two senses, each with peers, lists and templates


@dataclass(frozen=True)
class Made:
    """A sentence with a word of two senses, or with a peer in its place."""

    words: tuple[str, ...]
    position: int  # of the word, or its peer
    word: str  # the word of two senses
    sense: int  # 0 or 1
    topic: frozenset[str]  # the words from the sense's lists


def sentences(count: int, seed: int, peers: float = 0.5) -> list[Made]:
    """So many, of all words and senses; in a share of them a peer stands for the word."""
    chance = random.Random(seed)
    return [_make(chance, peers) for _ in range(count)]


def _make(chance: random.Random, peers: float) -> Made:
    word = chance.choice(sorted(SENSES))
    number = chance.randrange(2)
    sense, topic = SENSES[word][number], set[str]()

    def fill(slot: re.Match[str]) -> str:
        topic.add(chosen := chance.choice(sense["lists"][slot[1]].split()))
        return chosen

    words = SLOT.sub(fill, chance.choice(sense["templates"])).split()
    position = words.index("*")
    words[position] = chance.choice(sense["peers"].split()) if chance.random() < peers else word
    return Made(tuple(words), position, word, number, frozenset(topic))
