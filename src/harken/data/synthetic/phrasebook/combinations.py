"""The combinations kept for `test-novel`: an adjective and a noun, or a verb and its object, never together in train.

About one in thirty of those that the grammar allows is held out, chosen by a checksum of the two words, so that the
choice is the same for every seed, size and platform.

>>> held_out(ADJECTIVE["red"], NOUN["car"])
False
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from harken.data.synthetic.phrasebook.modifiers import ADJECTIVE, SUITING, Adjective
from harken.data.synthetic.phrasebook.nouns import NOUN, Noun
from harken.data.synthetic.phrasebook.verbs import VERBS, Verb

ONE_IN = 30
Modifier = Adjective | Verb


def _chosen(kind: str, modifier: str, noun: str) -> bool:
    return crc32(f"{kind} {modifier} {noun}".encode()) % ONE_IN == 0


def _table() -> dict[Modifier, frozenset[Noun]]:
    nouns_of: dict[Modifier, list[Noun]] = {}
    for noun, adjectives in SUITING.items():
        for adjective in adjectives:
            if len(adjectives) >= 4 and _chosen("adjective", adjective.english, noun.english):
                nouns_of.setdefault(adjective, []).append(noun)
    for verb in VERBS:
        for noun in verb.objects:
            if len(verb.objects) >= 6 and _chosen("verb", verb.name, noun.english):
                nouns_of.setdefault(verb, []).append(noun)
    return {modifier: frozenset(nouns) for modifier, nouns in nouns_of.items()}


HELD_OUT = _table()
NOTHING: frozenset[Noun] = frozenset()


def held_out(modifier: Modifier, noun: Noun) -> bool:
    """Whether the two words are kept for test-novel."""
    return noun in HELD_OUT.get(modifier, NOTHING)


def count() -> int:
    """How many combinations are held out."""
    return sum(len(nouns) for nouns in HELD_OUT.values())


def any_together(modifiers: Iterable[Modifier], nouns: list[Noun]) -> bool:
    """Whether some held-out combination stands in one sentence, related or not."""
    return any(not HELD_OUT.get(modifier, NOTHING).isdisjoint(nouns) for modifier in modifiers)


__all__ = ["ADJECTIVE", "HELD_OUT", "NOUN", "any_together", "count", "held_out"]
