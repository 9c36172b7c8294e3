"""English word forms (plurals, the third person, past tenses, comparatives, a or an) and the class of every word.

Classes are the universal parts of speech (Petrov et al., 2012). Nouns, verbs and adjectives bring theirs from the
lexicon as a `Word`, so that `clean` has the right one in `a clean dress` and in `they clean the house`. The grammar's
function words have one class each, but for the few that it marks where it makes them: the `to` of an infinitive, the
`that` after `says`.

>>> plural("cherry"), third_person("wash"), past("carry"), comparative("big")
('cherries', 'washes', 'carried', 'bigger')
>>> class_of(Word("clean", "VERB")), class_of(Word("clean", "ADJ")), class_of("the")
('VERB', 'ADJ', 'DET')
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


SMALL_WORDS = {
    "DET": "the a an some this these every all any no which",
    "PRON": "my your his her our their who what that",
    "ADJ": "many several last next hungry thirsty cold hot afraid right wrong sleepy",
    "NUM": "two three four five six seven eight nine ten twelve twenty thirty",
    "AUX": "am is are was were be do does did will can must",
    "VERB": "going",
    "ADV": "never longer now soon ago how where why more very too quite far back",
    "SCONJ": "because when if while as so",
    "CCONJ": "and but",
    "PART": "not 's",
    "ADP": "in under near behind of to at from with without for about up out off on than",
    "NOUN": (
        "today tonight yesterday tomorrow day days morning afternoon evening night week weeks month year summer winter "
        "fun bed front"
    ),
    "PROPN": "monday friday sunday",
    "PUNCT": "? ,",
}
CLASS = {word: kind for kind, words in SMALL_WORDS.items() for word in words.split()}


class Word(str):
    """A word that knows its class; equal to the plain text."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, text: str, kind: str) -> Word:
        word = super().__new__(cls, text)
        word.kind = kind
        return word


def class_of(text: str) -> str:
    """The class that a token of the grammar has; a KeyError tells of a word that nobody gave one."""
    return text.kind if isinstance(text, Word) else CLASS[text]
