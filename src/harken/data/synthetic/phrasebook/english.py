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

from harken.data.synthetic.vocabulary import load_vocabulary

FORMS = load_vocabulary("phrasebook")["english"]
VOWELS = "aeiou"
CLASS = {word: kind for kind, words in FORMS["classes"].items() for word in words.split()}


def _with_s(word: str) -> str:
    if word.endswith(("s", "sh", "ch", "x", "z")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def _stem(word: str) -> str:
    return word + word[-1] if word in FORMS["doubled"] else word


def plural(noun: str) -> str:
    """The plural of a noun."""
    return FORMS["plurals"].get(noun) or _with_s(noun)


def third_person(verb: str) -> str:
    """The form after he, she and it."""
    return FORMS["third_persons"].get(verb) or _with_s(verb)


def past(verb: str) -> str:
    """The past tense of a regular verb; irregular ones stand in the lexicon."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return _stem(verb) + "ed"


def comparative(adjective: str) -> str:
    """bigger, older, nicer, heavier: for the short adjectives only."""
    if adjective.endswith("e"):
        return adjective + "r"
    return adjective[:-1] + "ier" if adjective.endswith("y") else _stem(adjective) + "er"


@cache
def takes_an(word: str) -> bool:
    """Whether the indefinite article before the word is `an`."""
    if word.startswith(tuple(FORMS["silent_h"])):
        return True
    return word[0] in VOWELS and not word.startswith(tuple(FORMS["sounds_like_consonant"]))


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
