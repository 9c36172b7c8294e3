"""English sentences of the grammar with the class of every word, for tagging.

>>> from random import Random
>>> sentence = tag_tokens(Grammar(Random("phrasebook")).sentence().words[0])
>>> len(sentence.words) == len(sentence.tags)
True
"""

from __future__ import annotations

from random import Random

from harken.data.synthetic.phrasebook.classes import class_of
from harken.data.synthetic.phrasebook.english import takes_an
from harken.data.synthetic.phrasebook.grammar import Grammar
from harken.data.synthetic.phrasebook.links import Tokens
from harken.data.text.tagged import Tagged

LONGEST = 24  # words
HELD_OUT = 500  # sentences of valid and of test


def load_tagged_phrasebook(seed: int = 1, train: int = 6000) -> dict[str, list[Tagged]]:
    """The splits train, valid and test, the same for the same arguments; no sentence stands in two of them."""
    seen: set[tuple[str, ...]] = set()
    sizes = {"test": HELD_OUT, "valid": HELD_OUT, "train": train}
    return {split: _draw(f"phrasebook {seed} tags {split}", size, seen) for split, size in sizes.items()}


def tag_tokens(english: Tokens) -> Tagged:
    """The English side of a sentence: punctuation and 's are words of their own."""
    texts = [text for text, _, _ in english]
    words, tags = [], []
    for index, text in enumerate(texts):
        clinging = text[0] == "+"
        plain = text[1:] if clinging else text
        tags.append(class_of(plain))
        following = texts[index + 1] if index + 1 < len(texts) else ""
        words.append("an" if plain == "a" and following and takes_an(following) else str(plain))
    return Tagged(tuple(words), tuple(tags))


def _draw(stream: str, size: int, seen: set[tuple[str, ...]]) -> list[Tagged]:
    grammar = Grammar(Random(stream))
    found: list[Tagged] = []
    while len(found) < size:
        sentence = tag_tokens(grammar.sentence().words[0])
        if len(sentence.words) <= LONGEST and sentence.words not in seen:
            seen.add(sentence.words)
            found.append(sentence)
    return found
