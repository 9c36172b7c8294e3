"""The script that a text is written in, and its words, also where no spaces divide them.

>>> [script_of(text) for text in ("the cat", "東京の夜", "黑猫睡觉", "แมวดำ", "검은 고양이", "قطة", "12 !")]
['Latin', 'Japanese', 'Han', 'Thai', 'Hangul', 'Arabic', '']
>>> split_words("the cat OK?"), split_words("猫は ok だ。")
(['the', 'cat', 'OK?'], ['猫', 'は', 'ok', 'だ', '。'])
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

# First and last code points of the scripts that are told apart; all other letters are "Other".
RANGES = (
    (0x0041, 0x024F, "Latin"), (0x0370, 0x03FF, "Greek"), (0x0400, 0x052F, "Cyrillic"), (0x0530, 0x058F, "Armenian"),
    (0x0590, 0x05FF, "Hebrew"), (0x0600, 0x077F, "Arabic"), (0x08A0, 0x08FF, "Arabic"), (0x0900, 0x097F, "Devanagari"),
    (0x0980, 0x09FF, "Bengali"), (0x0A00, 0x0A7F, "Gurmukhi"), (0x0A80, 0x0AFF, "Gujarati"), (0x0B80, 0x0BFF, "Tamil"),
    (0x0C00, 0x0C7F, "Telugu"), (0x0C80, 0x0CFF, "Kannada"), (0x0D00, 0x0D7F, "Malayalam"), (0x0D80, 0x0DFF, "Sinhala"),
    (0x0E00, 0x0E7F, "Thai"), (0x0E80, 0x0EFF, "Lao"), (0x0F00, 0x0FFF, "Tibetan"), (0x1000, 0x109F, "Myanmar"),
    (0x10A0, 0x10FF, "Georgian"), (0x1100, 0x11FF, "Hangul"), (0x1200, 0x137F, "Ethiopic"), (0x1780, 0x17FF, "Khmer"),
    (0x1E00, 0x1EFF, "Latin"), (0x1F00, 0x1FFF, "Greek"), (0x3005, 0x3007, "Han"), (0x3040, 0x30FF, "Kana"),
    (0x3130, 0x318F, "Hangul"), (0x31F0, 0x31FF, "Kana"), (0x3400, 0x4DBF, "Han"), (0x4E00, 0x9FFF, "Han"),
    (0xA960, 0xA97F, "Hangul"), (0xAC00, 0xD7FF, "Hangul"), (0xF900, 0xFAFF, "Han"), (0xFB1D, 0xFB4F, "Hebrew"),
    (0xFB50, 0xFDFF, "Arabic"), (0xFE70, 0xFEFF, "Arabic"), (0xFF21, 0xFF5A, "Latin"), (0xFF66, 0xFF9F, "Kana"),
    (0x1B000, 0x1B16F, "Kana"), (0x20000, 0x323AF, "Han"),
)  # fmt: skip
STARTS = [first for first, _, _ in RANGES]
UNSPACED = {"Japanese", "Kana", "Han", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}  # words are not divided by spaces
_RANGES = "".join(f"{chr(first)}-{chr(last)}" for first, last, script in RANGES if script in UNSPACED)
UNSPACED_LETTER, SPACED_LETTER = f"[{_RANGES}]", rf"[^\W{_RANGES}]"  # regular expressions
UNSPACED_CHARACTER = re.compile(UNSPACED_LETTER)
KANA_SHARE = 0.05  # of the letters of a Japanese text, beside Han
CHARACTERS_PER_WORD = 2.0  # of unspaced scripts, for estimates
SPLIT = re.compile(r"\s+")


@lru_cache(maxsize=1 << 16)
def character_script(character: str) -> str:
    """The script of a letter; "" of digits, punctuation, marks, spaces and emoji."""
    code = ord(character)
    index = bisect_right(STARTS, code) - 1
    if index >= 0 and code <= RANGES[index][1]:
        return RANGES[index][2] if unicodedata.category(character)[0] in "LM" else ""
    return "Other" if character.isalpha() else ""


def script_of(texts: str | Iterable[str]) -> str:
    """The script of most letters of a text, or of many; "" where there are no letters.

    Han with kana is "Japanese". Where two scripts are mixed the more frequent one is returned.
    """
    shares = script_shares(texts)
    return max(shares, key=lambda script: shares[script], default="")


def script_shares(texts: str | Iterable[str]) -> dict[str, float]:
    """The share of each script in the letters of texts.

    >>> script_shares(["the cat", "猫が"])
    {'Latin': 0.75, 'Japanese': 0.25}
    """
    letters = Counter(map(character_script, texts if isinstance(texts, str) else "".join(texts)))
    del letters[""]
    if letters["Kana"] and letters["Kana"] >= KANA_SHARE * (letters["Han"] + letters["Kana"]):
        letters["Japanese"] = letters.pop("Kana") + letters.pop("Han", 0)
    total = letters.total()
    return {script: count / total for script, count in letters.items() if count}


def is_unspaced(character: str) -> bool:
    """Whether a letter is of a script that does not divide words by spaces."""
    return character_script(character) in UNSPACED


def has_unspaced(text: str) -> bool:
    """Whether a text has a character of a script that does not divide words by spaces."""
    return UNSPACED_CHARACTER.search(text) is not None


def split_words(text: str) -> list[str]:
    """The words of a text: what spaces divide, and every character of an unspaced script with its marks.

    Punctuation beside such a character is a word of its own.

    >>> split_words("ผมรัก pizza")
    ['ผ', 'ม', 'รั', 'ก', 'pizza']
    """
    words: list[str] = []
    for chunk in SPLIT.split(text.strip()):
        if not has_unspaced(chunk):
            words += [chunk] if chunk else []
            continue
        previous = ""  # "unspaced", "spaced" or "mark": the kind of the last character
        for character in chunk:
            if unicodedata.category(character)[0] == "M" and previous:
                words[-1] += character
                continue
            kind = "unspaced" if is_unspaced(character) else "spaced" if character.isalnum() else "mark"
            if kind == previous == "spaced":
                words[-1] += character
            else:
                words.append(character)
            previous = kind
    return words


def chunk_numbers(words: Sequence[str], text: str) -> list[int]:
    """The number of the chunk between spaces that each word of a text, in order, is part of.

    >>> chunk_numbers(["黒い", "猫", "ok"], "黒い猫 ok")
    [0, 0, 1]
    """
    ends = list(accumulate(map(len, text.split())))
    starts = accumulate(map(len, words), initial=0)
    return [bisect_right(ends, start) for start, _ in zip(starts, words, strict=False)]


def spaces_before(words: Sequence[str], text: str) -> list[bool]:
    """Whether there is a space before each word of a text.

    >>> spaces_before(["the", "猫", "は"], "the 猫は")
    [False, True, False]
    """
    chunks = chunk_numbers(words, text)
    return [index > 0 and chunk > chunks[index - 1] for index, chunk in enumerate(chunks)]


def estimate_words(text: str) -> float:
    """About how many words a text has; characters of unspaced scripts count as half a word.

    >>> estimate_words("the black cat"), estimate_words("黒い猫が眠る")
    (3.0, 3.0)
    """
    unspaced = sum(map(is_unspaced, text)) if has_unspaced(text) else 0
    if not unspaced:
        return float(len(text.split()))
    spaced = re.sub(r"\s+", " ", "".join(" " if is_unspaced(character) else character for character in text))
    return unspaced / CHARACTERS_PER_WORD + sum(any(map(str.isalnum, word)) for word in spaced.split())
