"""Words as labels: cut to a length, wrapped, measured in columns, taken apart into letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

NARROW, BROAD = frozenset("fijlrtI.,:;!|'()[]- "), frozenset("mwMW@%&…")  # letters


def columns(text: str) -> int:
    """How many terminal columns `text` takes: two for wide letters, none for accents that combine.

    >>> columns("chat"), columns("猫")
    (4, 2)
    """
    return sum(_columns_of(letter) for letter in text)


def cut(word: str, width: int) -> str:
    """The word, or as much of it as fits into `width` columns with an ellipsis.

    >>> cut("anticonstitutionnellement", 8)
    'anticon…'
    """
    word = printable(word)
    if columns(word) <= width:
        return word
    kept = ""
    for letter in letters(word):
        if columns(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…" if width > 0 else ""


def breadth(text: str) -> float:
    """How wide bold text is at most, as a multiple of the font's size: a share for each kind of letter.

    >>> round(breadth("ill"), 2), round(breadth("WOW"), 2)
    (1.2, 3.02)
    """
    return sum(_breadth_of(letter) for letter in text)


def wrap(text: str, width: float, measure: Callable[[str], float] = columns) -> list[str]:
    """Lines of at most `width` as `measure` has it, broken between words, and inside those longer than a line.

    >>> wrap("a long title of many words", 12)
    ['a long title', 'of many', 'words']
    >>> wrap("猫猫猫猫猫", 4)
    ['猫猫', '猫猫', '猫']
    """
    lines = [""]
    for word in printable(text).split(" "):
        if lines[-1] and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for letter in letters(word):
            if lines[-1] and measure(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines


def fill(word: str, width: int, align: str = "<") -> str:
    """`cut`, then padded to exactly `width` columns: "<" left, ">" right, "^" in the middle."""
    word = cut(word, width)
    space = width - columns(word)
    before = {"<": 0, ">": space, "^": space // 2}[align]
    return " " * before + word + " " * (space - before)


def letters(word: str) -> list[str]:
    """Letters with the accents that belong to them.

    >>> letters("été")
    ['é', 't', 'é']
    """
    found: list[str] = []
    for letter in unicodedata.normalize("NFC", word):
        if found and _columns_of(letter) == 0:
            found[-1] += letter
        else:
            found.append(letter)
    return found


def printable(word: str) -> str:
    """Control characters shown as `�`: a word must not move the cursor or break an XML file."""
    return "".join("�" if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in word)


def _columns_of(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def _breadth_of(letter: str) -> float:
    if letter in NARROW:
        return 0.4
    if letter in BROAD or _columns_of(letter) == 2:
        return 1.1
    return _columns_of(letter) * (0.82 if letter.isupper() else 0.7)
