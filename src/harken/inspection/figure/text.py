"""Words as they fit: control characters made visible, terminal columns counted by rich, lines broken between words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size


def printable(word: str) -> str:
    """Control characters shown as `�`: a word must not move the cursor or break an XML file."""
    return "".join(
        "�" if unicodedata.category(letter) in ("Cc", "Cs") or letter in "\ufffe\uffff" else letter for letter in word
    )


def cut(word: str, width: int) -> str:
    """The word, or as much of it as fits into `width` columns with an ellipsis.

    >>> cut("anticonstitutionnellement", 8), cut("猫猫猫", 4)
    ('anticon…', '猫…')
    """
    word = printable(word)
    if cell_len(word) <= width:
        return word
    return set_cell_size(word, width - 1).rstrip() + "…" if width > 0 else ""


def fill(word: str, width: int, align: str = "<") -> str:
    """`cut`, then padded to exactly `width` columns: "<" left, ">" right, "^" in the middle."""
    word = cut(word, width)
    space = width - cell_len(word)
    before = {"<": 0, ">": space, "^": space // 2}[align]
    return " " * before + word + " " * (space - before)


def letters(word: str) -> list[str]:
    """Letters with the accents that belong to them.

    >>> letters("été")
    ['é', 't', 'é']
    """
    clusters: list[str] = []
    for letter in unicodedata.normalize("NFC", word):
        if clusters and cell_len(letter) == 0:
            clusters[-1] += letter
        else:
            clusters.append(letter)
    return clusters


def wrap(text: str, width: float, measure: Callable[[str], float] = cell_len) -> list[str]:
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
        if measure(word) <= width:
            lines[-1] = word
            continue
        for letter in letters(word):
            if lines[-1] and measure(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, every cell as wide as the longest of its column.

    >>> columns([["cell", "verdict"], ["LSTM", "healthy"], ["vanilla RNN", "vanishing"]])
    ['cell         verdict', 'LSTM         healthy', 'vanilla RNN  vanishing']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]
