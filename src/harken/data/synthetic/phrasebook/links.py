"""From the fine tokens of the grammar to whitespace words and their gold alignment.

The grammar works on fine tokens (`l'` and `eau`, `de` and `le`). A token is its text, a level and its keys: tokens of
the two languages that share a key translate each other. The level says how surely:

    CONTENT  a word with a meaning of its own      both sides at least FUNCTION: a sure link
    FUNCTION a grammatical word with a counterpart
    WEAK     a word without a counterpart          a possible link

Where tokens melt into one word (`l'eau`, `du`), the content token keeps its level and the others become WEAK;
where all are grammatical (`s'il`, `du`) each keeps its own. Punctuation starts with `+` and clings to the word before.

>>> english = [("the", FUNCTION, (1,)), ("water", CONTENT, (2,))]
>>> make_pair(english, [("la", FUNCTION, (1,)), ("eau", CONTENT, (2,))]).alignment.to_pharaoh()
'0?0 1-0'
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from harken.data.synthetic.phrasebook.english import takes_an
from harken.data.synthetic.phrasebook.french import FORMS, starts_with_vowel
from harken.data.text.pairs import Alignment, Link, Pair

Token = tuple[str, int, tuple[int, ...]]  # text, level, keys
Tokens = list[Token]
CONTENT, FUNCTION, WEAK = 2, 1, 0


class Words(NamedTuple):
    """The tokens of some part of a sentence in both languages, linked by shared keys."""

    english: Tokens
    french: Tokens

    def __add__(self, other: Words) -> Words:  # type: ignore[override]
        return Words(self.english + other.english, self.french + other.french)


NO_WORDS = Words([], [])

ELIDED: dict[str, str] = FORMS["elided"]
CONTRACTED = {tuple(words.split()): contraction for words, contraction in FORMS["contracted"].items()}


def join_english(tokens: Tokens) -> tuple[list[str], list[int]]:
    """English words, and for each token the word that it went into."""
    words: list[str] = []
    word_of: list[int] = []
    last = len(tokens) - 1
    for index, (text, _, _) in enumerate(tokens):
        if text[0] == "+":
            words[-1] += text[1:]
        elif text == "a" and index < last and takes_an(tokens[index + 1][0]):
            words.append("an")
        else:
            words.append(text)
        word_of.append(len(words) - 1)
    return words, word_of


def join_french(tokens: Tokens) -> tuple[list[str], list[int]]:
    """French words after elision and contraction, and for each token the word that it went into."""
    words: list[str] = []
    word_of: list[int] = []
    last = len(tokens) - 1
    clings = False
    before = ""
    for index, (text, _, _) in enumerate(tokens):
        if text in ELIDED:
            if index < last and starts_with_vowel(tokens[index + 1][0]):
                text = ELIDED[text]
        elif text == "si" and index < last and tokens[index + 1][0] in ("il", "ils"):
            text = "s'"
        elif text[0] == "+":
            text = text[1:]
            clings = True
        if clings:
            words[-1] += text
        elif (before, text) in CONTRACTED:
            words[-1] = CONTRACTED[before, text]
        else:
            words.append(text)
        word_of.append(len(words) - 1)
        clings = text[-1] == "'"
        before = text
    return words, word_of


def _melted(tokens: Tokens, word_of: list[int]) -> set[int]:
    """The words made of a content token and others."""
    if word_of[-1] == len(word_of) - 1:
        return set()
    together = {word for word, following in pairwise(word_of) if word == following}
    return {word for word, (_, level, _) in zip(word_of, tokens, strict=True) if level == CONTENT and word in together}


def make_pair(english: Tokens, french: Tokens) -> Pair:
    """Join both sides and link the words whose tokens share a key."""
    source, source_of = join_english(english)
    target, target_of = join_french(french)
    melted = _melted(english, source_of)
    carriers: dict[int, list[tuple[int, int]]] = {}  # key -> (source word, level)
    for i, (_, level, keys) in zip(source_of, english, strict=True):
        if level == FUNCTION and i in melted:
            level = WEAK
        for key in keys:
            if key in carriers:
                carriers[key].append((i, level))
            else:
                carriers[key] = [(i, level)]
    melted = _melted(french, target_of)
    sure: list[Link] = []
    possible: list[Link] = []
    for j, (_, level, keys) in zip(target_of, french, strict=True):
        if level == FUNCTION and j in melted:
            level = WEAK
        for key in keys:
            for i, source_level in carriers.get(key, ()):
                (sure if level and source_level else possible).append((i, j))
    links = frozenset(sure)
    return Pair(" ".join(source), " ".join(target), Alignment(links, links.union(possible)))
