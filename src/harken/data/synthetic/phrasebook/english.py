"""English word forms: plurals, the third person, past tenses, comparatives and the choice of a or an.

>>> plural("cherry"), third_person("wash"), past("carry"), comparative("big")
('cherries', 'washes', 'carried', 'bigger')
"""

from __future__ import annotations

from functools import cache

VOWELS = "aeiou"
IRREGULAR_PLURALS = {
    "man": "men", "woman": "women", "child": "children", "policeman": "policemen", "fisherman": "fishermen",
    "mouse": "mice", "goose": "geese", "wolf": "wolves", "knife": "knives", "shelf": "shelves", "leaf": "leaves",
    "scarf": "scarves", "thief": "thieves", "hero": "heroes", "tomato": "tomatoes",
}  # fmt: skip
IRREGULAR_THIRD_PERSONS = {"have": "has", "be": "is", "go": "goes", "do": "does"}
DOUBLED = {"stop", "big", "fat", "sad", "hot"}  # the last consonant is doubled
SOUNDS_LIKE_CONSONANT = ("uni", "use", "euro", "one")
SILENT_H = ("hour", "honest")


def _with_s(word: str) -> str:
    if word.endswith(("s", "sh", "ch", "x", "z")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def plural(noun: str) -> str:
    """The plural of a noun."""
    return IRREGULAR_PLURALS.get(noun) or _with_s(noun)


def third_person(verb: str) -> str:
    """The form after he, she and it."""
    return IRREGULAR_THIRD_PERSONS.get(verb) or _with_s(verb)


def past(verb: str) -> str:
    """The past tense of a regular verb; irregular ones stand in the lexicon."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return (verb + verb[-1] if verb in DOUBLED else verb) + "ed"


def comparative(adjective: str) -> str:
    """bigger, older, nicer, heavier: for the short adjectives only."""
    if adjective.endswith("e"):
        return adjective + "r"
    if adjective.endswith("y"):
        return adjective[:-1] + "ier"
    return (adjective + adjective[-1] if adjective in DOUBLED else adjective) + "er"


@cache
def takes_an(word: str) -> bool:
    """Whether the indefinite article before the word is `an`."""
    if word.startswith(SILENT_H):
        return True
    return word[0] in VOWELS and not word.startswith(SOUNDS_LIKE_CONSONANT)
