"""The class of every English word of the grammar, by the universal parts of speech (Petrov et al., 2012).

Nouns, verbs and adjectives bring their class with them from the lexicon as a `Word`, so that `clean` is known for what
it is in `a clean dress` and in `they clean the house`. The grammar's own small words have one class each, but for the
few that it marks where it makes them: the `to` of an infinitive, the `that` after `says`.

>>> class_of(Word("clean", "VERB")), class_of(Word("clean", "ADJ")), class_of("the")
('VERB', 'ADJ', 'DET')
"""

from __future__ import annotations

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
