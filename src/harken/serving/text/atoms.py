"""Words with their tags, and opaque pieces that must survive a translation as they are.

>>> [(atom.text, atom.opaque) for atom in atoms_of("Hello {name}, see https://a.org/x?y=1 or mail me@a.org 😀!")]
... # doctest: +NORMALIZE_WHITESPACE
[('Hello', False), ('{name},', True), ('see', False), ('https://a.org/x?y=1', True), ('or', False), ('mail', False),
 ('me@a.org', True), ('😀!', True)]
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from harken.data.text.placeholders import BRACES, EMAIL, PRINTF, URL

Tags = tuple[int, ...]  # numbers of the open tags, the outermost first
EMOJI = (
    "[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55\u2122\u2139\u231a-\u23ff]"
    "(?:[\ufe0f\u200d\U0001f3fb-\U0001f3ff\u20e3]|(?<=\u200d)[\U0001f300-\U0001faff\u2600-\u27bf])*"
)
PLACEHOLDER = re.compile(f"{URL}|{EMAIL}|{BRACES}|{PRINTF}|(?:{EMOJI})+")
WIDE_END = re.compile(r"(?<=[。！？])(?=[^。！？」』）])")  # scripts without spaces: a sentence may end within a word


class Atom(NamedTuple):
    """A word, or an opaque piece.

    Args:
        text: as the model reads it; of an opaque piece as it is written into the result.
        tags: that are open around it.
        space: whether there is a space before it.
        opaque: not for the model.
        is_placeholder: an opaque piece of the text itself, which a model may be able to copy.
        tail_tags: tags around the punctuation at its end, where those are others.
    """

    text: str
    tags: Tags = ()
    space: bool = True
    opaque: bool = False
    is_placeholder: bool = False
    tail_tags: Tags | None = None


def atoms_of(text: str, tags: Tags = (), space: bool = True) -> list[Atom]:
    """The words of a text without line breaks; words with placeholders are opaque.

    Letters beside a placeholder, as in scripts without spaces, are words of their own.
    """
    atoms: list[Atom] = []
    if (text.isascii() or not WIDE_END.search(text)) and not PLACEHOLDER.search(text):  # as most texts
        atoms = [Atom(word, tags) for word in text.split()]
    else:
        for word in text.split():
            for number, part in enumerate(WIDE_END.split(word)):
                atoms += _parts(part, tags, number == 0)
    if atoms and not space and not text[:1].isspace():
        atoms[0] = atoms[0]._replace(space=False)
    return atoms


def _parts(word: str, tags: Tags, space: bool) -> list[Atom]:
    matches = [(match.start(), match.end()) for match in PLACEHOLDER.finditer(word)]
    if not matches:
        return [Atom(word, tags, space)]
    cuts = [0]
    for start, end in matches:  # a part without letters stays with its placeholder
        cuts += [start] if has_letters(word[cuts[-1] : start]) else []
        cuts += [end]
    cuts = [*cuts, len(word)] if has_letters(word[cuts[-1] :]) else [*cuts[:-1], len(word)]
    parts = [(start, end) for start, end in pairwise(cuts) if start < end]
    starts = [start for start, _ in matches]
    atoms = []
    for number, (start, end) in enumerate(parts):
        is_held = bisect_left(starts, start) < bisect_left(starts, end)  # whether a placeholder begins in it
        atoms.append(Atom(word[start:end], tags, space and number == 0, is_held, is_held))
    return atoms


def has_letters(text: str) -> bool:
    """Whether there is anything to translate.

    >>> has_letters("12:30"), has_letters("a.m.")
    (False, True)
    """
    return any(character.isalpha() for character in text)
