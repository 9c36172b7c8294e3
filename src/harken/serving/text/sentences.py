"""Sentences: where a word ends one.

A word that ends with . ! ? or … ends a sentence where the next word begins with a capital, a digit or a quotation mark;
after ! and ? any next word will do. Abbreviations and initials do not. Long sentences are cut at commas.

>>> words = "Dr. Smith reads no. 5. He sleeps! and so on".split()
>>> [" ".join(part) for part in split_sentences(words)]
['Dr. Smith reads no. 5.', 'He sleeps!', 'and so on']
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harken.serving.text.atoms import Atom

LONGEST = 120  # words of a sentence
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


def spans(words: Sequence[str], longest: int = LONGEST) -> list[list[int]]:
    """The indices of the words of every sentence."""
    if len(words) <= longest and not MARK.search(" ".join(words[:-1])):
        return [list(range(len(words)))] if words else []
    parts: list[list[int]] = [[]]
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        parts[-1].append(index)
        is_long = len(parts[-1]) >= longest and (word[-1:] in ",;:，、；" or len(parts[-1]) >= 2 * longest)
        if following is not None and (ends_sentence(word, following) or is_long):
            parts.append([])
    return [part for part in parts if part]


def sentences_of(atoms: Sequence[Atom]) -> list[list[Atom]]:
    """Atoms as sentences; an opaque piece counts as a word."""
    return [[atoms[index] for index in part] for part in spans([atom.text for atom in atoms])]
