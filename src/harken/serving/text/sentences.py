"""Sentences: where a word ends one.

A word that ends with . ! ? or … ends a sentence where the next word begins with a capital, a digit or a quotation mark;
after ! and ? any next word will do. Abbreviations and initials do not. Long sentences are cut at commas, and no model
gets more words or characters at a time than `MOST_WORDS` and `MOST_CHARACTERS`.

>>> words = "Dr. Smith reads no. 5. He sleeps! and so on".split()
>>> [" ".join(part) for part in split_sentences(words)]
['Dr. Smith reads no. 5.', 'He sleeps!', 'and so on']
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harken.serving.text.atoms import Atom

LONGEST = 120  # words after which a sentence is cut at a comma
MOST_WORDS, MOST_CHARACTERS = 240, 2000  # of a sentence
MARKS = ".!?…。！？"
MARK = re.compile(f"[{MARKS}]")
CLOSING = "\"'”’»)]}」』"
OPENING = "\"'“‘«([{¿¡「『-–—"
ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "cf", "fig", "no", "vol", "pp"),
        *("inc", "ltd", "co", "corp", "dept", "est", "approx", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep"),
        *("sept", "oct", "nov", "dec", "gen", "col", "capt", "lt", "sgt", "rev", "hon"),  # English
        *("m", "mm", "mme", "mlle", "bd", "av", "env", "ex"),  # French
        *("z.b", "d.h", "u.a", "bzw", "ca", "evtl", "ggf", "nr", "str", "usw", "vgl", "tel", "abs", "art", "hr", "fr"),
        *("sra", "srta", "ud", "uds", "pág", "núm", "ing", "sig", "dott"),  # Spanish, Italian
    )
)


def ends_sentence(word: str, following: str | None) -> bool:
    """Whether a word is the last of its sentence, before the word that follows it."""
    if following is None:
        return True
    bare = word.rstrip(CLOSING)
    if not bare or bare[-1] not in MARKS:
        return False
    if bare[-1] in "!?。！？":
        return True
    stem = bare.rstrip(".…").lstrip(OPENING)
    if bare[-1] == "." and (stem.lower() in ABBREVIATIONS or (len(stem) == 1 and stem.isalpha())):
        return False
    first = following.lstrip(OPENING)[:1]
    return not first or not (first.islower() or first in ",;:")


def split_sentences(words: Sequence[str]) -> list[list[str]]:
    """Words as sentences."""
    return [[words[index] for index in part] for part in spans(words)]


def spans(words: Sequence[str], split: bool = True) -> list[list[int]]:
    """The indices of the words of every sentence.

    Args:
        split: at the ends of sentences; otherwise only where there is too much for a model.
    """
    is_short = len(words) <= LONGEST and sum(map(len, words)) <= MOST_CHARACTERS
    if is_short and not (split and MARK.search(" ".join(words[:-1]))):
        return [list(range(len(words)))] if words else []
    parts: list[list[int]] = [[]]
    characters = 0  # of the last part
    for index, word in enumerate(words[:-1]):
        following = words[index + 1]
        parts[-1].append(index)
        characters += len(word)
        count = len(parts[-1])
        is_full = count >= MOST_WORDS or characters + len(following) > MOST_CHARACTERS
        is_end = split and (ends_sentence(word, following) or (count >= LONGEST and word[-1:] in ",;:，、；"))
        if is_full or is_end:
            parts.append([])
            characters = 0
    parts[-1].append(len(words) - 1)
    return parts


def sentences_of(atoms: Sequence[Atom], split: bool = True) -> list[list[Atom]]:
    """Atoms as sentences; an opaque piece counts as a word."""
    return [[atoms[index] for index in part] for part in spans([atom.text for atom in atoms], split)]


def cut_words(atoms: Sequence[Atom]) -> list[Atom]:
    """Atoms whose words have at most `MOST_CHARACTERS`, so that each piece of a longer one is a sentence."""
    pieces: list[Atom] = []
    for atom in atoms:
        if atom.opaque or len(atom.text) <= MOST_CHARACTERS:
            pieces.append(atom)
            continue
        for start in range(0, len(atom.text), MOST_CHARACTERS):
            text = atom.text[start : start + MOST_CHARACTERS]
            pieces.append(atom._replace(text=text, space=atom.space and not start))
    return pieces
