"""Make the corpus file from the English-French pairs of manythings.org/anki, a selection of tatoeba.org.

    python -m harken.data.tatoeba.make fra.txt.xz --out en-fr.tsv.xz

Sentences are compared by their words: lower case, without punctuation. Of several translations of a sentence the one
that shares most words with the others is taken. The pairs are put in the order of a digest, so the same file always
gives the same corpus. Two sentences are near-duplicates where replacing, adding or removing one word makes them equal.

>>> choose(["Va au lit !", "Allez au lit !", "Couche-toi."])
'Va au lit !'
>>> near_duplicates([("a", "b"), ("a", "c"), ("a", "b", "d"), ("x", "y", "z")])
[True, True, True, False]
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harken.data.io.files import read_lines
from harken.data.tatoeba import FILE, HELD_OUT, TRAIN

LONGEST = 12  # words on either side, as spaces separate them
WORD = re.compile(r"[^\W_]+")
Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """The words by which sentences are compared.

    >>> words_of("Où est-il ?")
    ('où', 'est', 'il')
    """
    return tuple(WORD.findall(text.lower()))


def normalise(text: str) -> str:
    """One form of apostrophes, spaces and accents; invisible characters are removed."""
    composed = unicodedata.normalize("NFC", text).replace("’", "'").replace("‘", "'")
    return " ".join("".join(char for char in composed if unicodedata.category(char) != "Cf").split())


def normalise_french(text: str) -> str:
    """`normalise`, with a plain space before ! ? ; : and inside « ».

    >>> normalise_french("Il dit\\u202f: «Où?!»")
    'Il dit : « Où ?! »'
    """
    spaced = re.sub(r"\s*([!?]+|[;»]|:(?!\d))", r" \1", re.sub(r"«\s*", "« ", text))
    return normalise(spaced)


def choose(translations: Sequence[str]) -> str:
    """The translation that shares most words with the others; the first of equals.

    Shared words are counted against the words of both, so that length does not decide.
    """
    bags = [Counter(words_of(text)) for text in translations]

    def agreement(number: int) -> float:
        bag = bags[number]
        return sum(2 * (bag & other).total() / max(1, bag.total() + other.total()) for other in bags)

    return translations[max(range(len(bags)), key=agreement)]


def near_duplicates(sentences: Sequence[Words]) -> list[bool]:
    """Whether each sentence is equal to or a near-duplicate of another one."""
    counts = Counter(sentences)
    replaced = Counter(key for words in counts for key in _replacements(words))
    shortened = Counter(key for words in counts for key in _removals(words))
    return [
        counts[words] > 1
        or words in shortened
        or any(replaced[key] > 1 for key in _replacements(words))
        or any(key in counts for key in _removals(words))
        for words in sentences
    ]


def _replacements(words: Words) -> Iterator[Words]:
    return ((*words[:at], "", *words[at + 1 :]) for at in range(len(words)))


def _removals(words: Words) -> set[Words]:
    return {words[:at] + words[at + 1 :] for at in range(len(words))}


def select(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of the corpus in the order of its file, out of lines of English, tab, French."""
    translations = defaultdict[Words, dict[str, None]](dict)
    sources: dict[Words, str] = {}
    for line in lines:
        english, french = line.split("\t")[:2]
        english, french = normalise(english), normalise_french(french)
        key, length = words_of(english), max(len(english.split()), len(french.split()))
        if key and words_of(french) and length <= LONGEST and sources.setdefault(key, english) == english:
            translations[key][french] = None
    pairs = [(english, choose(list(translations[key]))) for key, english in sources.items()]
    pairs.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    pairs = pairs[: 2 * HELD_OUT + TRAIN]
    near = zip(*(near_duplicates([words_of(pair[side]) for pair in pairs]) for side in (0, 1)), strict=True)
    apart = [pair for pair, sides in zip(pairs, near, strict=True) if not any(sides)][: 2 * HELD_OUT]
    held_out = set(apart)
    return apart + [pair for pair in pairs if pair not in held_out]


def main() -> None:
    """Write the corpus file from FRA.TXT, plain or compressed."""
    parser = argparse.ArgumentParser(prog="python -m harken.data.tatoeba.make", description=main.__doc__)
    parser.add_argument("pairs", type=Path, metavar="FRA.TXT", help="lines of English, tab, French")
    parser.add_argument("--out", type=Path, default=FILE, help="the file to write")
    arguments = parser.parse_args()
    text = "".join(f"{english}\t{french}\n" for english, french in select(read_lines(arguments.pairs)))
    arguments.out.write_bytes(lzma.compress(text.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
