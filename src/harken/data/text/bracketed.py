"""Bracketed trees with a label on every phrase, as the Stanford Sentiment Treebank writes them.

Socher et al. (2013). The whole sentence comes first, then its phrases from left to right, each a text of its own.

>>> phrases_of("(3 (2 It) (4 (2 's) (4 lovely)))")
[("It 's lovely", '3'), ('It', '2'), ("'s lovely", '4'), ("'s", '2'), ('lovely', '4')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harken.data.io.files import read_lines
from harken.data.text.examples import Example
from harken.errors import UserError

PIECES = re.compile(r"\(\s*(\S+)\s|\)|([^\s()]+)")
SIGNS = {"-LRB-": "(", "-RRB-": ")"}


def phrases_of(tree: str) -> list[tuple[str, str]]:
    """(text, label) of the sentence and of every phrase and word in it.

    Raises:
        ValueError: brackets that do not close.
    """
    found: list[tuple[str, str]] = []
    open_phrases: list[tuple[int, int]] = []  # place in `found`, first word
    words: list[str] = []
    for piece in PIECES.finditer(tree):
        label, word = piece.groups()
        if label is not None:
            open_phrases.append((len(found), len(words)))
            found.append(("", label))
        elif word is not None:
            words.append(SIGNS.get(word, word).replace("\\/", "/"))
        elif not open_phrases:
            raise ValueError("a bracket closes that was not opened")
        else:
            place, first = open_phrases.pop()
            found[place] = (" ".join(words[first:]), found[place][1])
    if open_phrases or not found:
        raise ValueError("a bracket is not closed" if open_phrases else "there is no bracket")
    return found


def read_trees(path: Path) -> Iterator[Example]:
    """A tree a line; its phrases are parts of its sentence and stay with it when a split is drawn."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            phrases = phrases_of(line)
        except ValueError as problem:
            raise UserError(f"{path}, line {number} is no bracketed tree ({problem}); fix or remove it") from None
        for place, (text, label) in enumerate(phrases):
            yield Example(text, label, group=phrases[0][0], part=place > 0)
