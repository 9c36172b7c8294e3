"""Made English in which some words mean two things, each among words of its own.

    the farmer paid the bank with gold            a frog sat on the bank by the stream

Every sense has its topic (lists of words that stand in for each other), on both sides of the word, so that who predicts
the one side has to know the sense from the other. It has its sentences, and peers: words with that one meaning, which
stand in the same sentences. So the text teaches which words are alike, and two sentences of one sense need not share a
word of the topic. The same seed makes the same sentences.

>>> made = sentences(1, seed=3)[0]
>>> made.word, made.sense, made.words[made.place]
('bat', 0, 'bat')
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SLOT = re.compile(r"<(\w+)>")


@dataclass(frozen=True)
class Sense:
    """One meaning."""

    peers: str  # words of this meaning alone
    lists: dict[str, str]  # the topic: words that stand in for each other
    templates: tuple[str, ...]  # * is the word, <name> one of a list


SENSES: dict[str, tuple[Sense, Sense]] = {
    "stick": (
        Sense(
            "branch rope bone",
            {"animal": "dog puppy fox wolf hound", "spot": "table tree door bench fence"},
            (
                "the <animal> dropped a * by the <spot>",
                "a <animal> chews the * at the <spot>",
                "her <animal> hid this * near a <spot>",
            ),
        ),
        Sense(
            "hold return listen",
            {"plan": "plan rule schedule budget law", "who": "judges players experts workers pilots"},
            (
                "the <who> will * to the <plan>",
                "all <who> should * with their <plan>",
                "some <who> must * by this <plan>",
            ),
        ),
    ),
    "bank": (
        Sense(
            "shop office company",
            {"money": "money gold coins cash silver", "person": "farmer clerk teacher baker lawyer"},
            (
                "the <person> paid the * with <money>",
                "a <person> owes this * some <money>",
                "our <person> asked the * for <money>",
            ),
        ),
        Sense(
            "shore beach coast",
            {"animal": "frog duck swan otter heron", "water": "river stream lake pond canal"},
            (
                "the <animal> left the * of the <water>",
                "a <animal> sat on the * by the <water>",
                "one <animal> swims from the * over the <water>",
            ),
        ),
    ),
    "bat": (
        Sense(
            "owl moth bird",
            {"dark": "cave attic barn tower forest", "fly": "flew hunted slept hid landed"},
            (
                "in the <dark> a * <fly> at night",
                "from the <dark> the * often <fly>",
                "near this <dark> every * has <fly>",
            ),
        ),
        Sense(
            "club racket glove",
            {"player": "boy captain hitter coach girl", "aim": "ball pitch plate wicket target"},
            (
                "the <player> swung the * at the <aim>",
                "a <player> broke his * on the <aim>",
                "our <player> holds the * over the <aim>",
            ),
        ),
    ),
    "spring": (
        Sense(
            "summer autumn winter",
            {"plant": "roses tulips trees lilies herbs", "do": "bloom grow wake return spread"},
            (
                "the <plant> wait for * before they <do>",
                "old <plant> need a * until they <do>",
                "all <plant> feel the * when they <do>",
            ),
        ),
        Sense(
            "coil wire lever",
            {"part": "clock lock engine pump switch", "fix": "bent fixed oiled replaced tightened"},
            (
                "the <part> needs a * that he <fix>",
                "inside this <part> the * was <fix>",
                "every <part> lost its * and is <fix>",
            ),
        ),
    ),
    "match": (
        Sense(
            "candle lamp torch",
            {"light": "lit struck burned blew used", "fire": "stove fire lantern pipe oven"},
            (
                "he <light> the * near the <fire>",
                "she <light> one * for the <fire>",
                "they <light> a * under this <fire>",
            ),
        ),
        Sense(
            "game race final",
            {"team": "team club champion visitor rival", "play": "won lost played scored drew"},
            (
                "the <team> reached the * and <play>",
                "our <team> began every * but <play>",
                "that <team> saw its * and then <play>",
            ),
        ),
    ),
    "rock": (
        Sense(
            "stone brick boulder",
            {"ground": "hill mountain valley desert cliff", "move": "rolled fell slid cracked tumbled"},
            (
                "on the <ground> a * has <move>",
                "above the <ground> the * slowly <move>",
                "down this <ground> one * had <move>",
            ),
        ),
        Sense(
            "jazz soul folk",
            {"music": "band singer guitarist drummer choir", "hall": "hall studio theatre festival bar"},
            (
                "the <music> plays * at the <hall>",
                "a <music> brought * into this <hall>",
                "our <music> loves * from the <hall>",
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Made:
    """A sentence with a word of two senses, or with a peer in its place."""

    words: tuple[str, ...]
    place: int  # of the word, or its peer
    word: str  # the word of two senses
    sense: int  # 0 or 1
    topic: frozenset[str]  # the words from the sense's lists

    @property
    def is_peer(self) -> bool:
        """Whether a peer stands in the word's place."""
        return self.words[self.place] != self.word


def sentences(count: int, seed: int, peers: float = 0.5) -> list[Made]:
    """So many, of all words and senses; in a share of them a peer stands for the word."""
    chance = random.Random(seed)
    return [_make(chance, peers) for _ in range(count)]


def _make(chance: random.Random, peers: float) -> Made:
    word = chance.choice(sorted(SENSES))
    number = chance.randrange(2)
    sense, topic = SENSES[word][number], set()

    def fill(slot: re.Match[str]) -> str:
        topic.add(chosen := chance.choice(sense.lists[slot[1]].split()))
        return chosen

    words = SLOT.sub(fill, chance.choice(sense.templates)).split()
    place = words.index("*")
    words[place] = chance.choice(sense.peers.split()) if chance.random() < peers else word
    return Made(tuple(words), place, word, number, frozenset(topic))
