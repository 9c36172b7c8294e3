"""Installed fonts for letters that the font of our pictures lacks: Chinese, Japanese, Thai, Devanagari, emoji ...

>>> choose_fonts({1, 2, 3}, {"Latin": {1}, "Wide": {2, 3}, "Thai": {3}})
(['Wide', 'Latin'], set())
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

MISSING = re.compile(r"Glyph (\d+) ")  # matplotlib's warning, with the code point
PLACEHOLDERS = "Last Resort"  # begins the name of a font that has a box for every letter
CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")  # begin the names of letters
SHOWN = 5  # letters in a warning


def missing_letters(messages: Sequence[str]) -> set[int]:
    """The code points that matplotlib's warnings name."""
    return {int(match[1]) for message in messages if (match := MISSING.match(message))}


@cache
def installed_fonts() -> dict[str, frozenset[int]]:
    """The code points of every font of this machine, those that were installed since matplotlib's list was made too."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in set(font_manager.findSystemFonts()) - known:
        try:
            font_manager.fontManager.addfont(path)
        except (RuntimeError, OSError, KeyError):  # a file that freetype cannot read, or without a name
            continue
    fonts: dict[str, frozenset[int]] = {}
    for entry in font_manager.fontManager.ttflist:
        if not entry.name.startswith(PLACEHOLDERS) and entry.name not in fonts:
            try:
                fonts[entry.name] = frozenset(FT2Font(entry.fname).get_charmap())
            except (RuntimeError, OSError):  # removed since
                continue
    return fonts


def choose_fonts(letters: Collection[int], fonts: Mapping[str, Collection[int]]) -> tuple[list[str], set[int]]:
    """The fonts that have most of the letters, and the letters that none has."""
    chosen, left = [], set(letters)
    while left:
        name = max(sorted(fonts), key=lambda name: len(left.intersection(fonts[name])), default="")
        if not name or left.isdisjoint(fonts[name]):
            break
        chosen.append(name)
        left.difference_update(fonts[name])
    return chosen, left


def advice(letters: Collection[int]) -> str:
    """A sentence on letters that no font has, with the package of one that does."""
    text = "".join(map(chr, sorted(letters)))
    is_cjk = any(unicodedata.name(letter, "").startswith(CJK) for letter in text)
    package = "fonts-noto-cjk" if is_cjk else "fonts-noto-core"
    return (
        f"no installed font has the letters {' '.join(text[:SHOWN])}{' ...' * (len(text) > SHOWN)}, so the picture has "
        f"boxes in their place: install a font that has them, such as the package {package}, or save .svg or .html"
    )
