"""The words of a text that pieces of a tokenizer belong to, in any script.

What spaces divide is a word. Where it has letters of a script without spaces (`harken.data.text.scripts`), its pieces
are the words: marks stay with their letter, and letters of spaced scripts beside each other stay together.

>>> from harken.data.tokenizers.plain import CharacterTokenizer
>>> text = "the cat 黒い猫 ok"
>>> tokenizer = CharacterTokenizer.train([text], size=100)
>>> words_of(tokenizer, tokenizer.encode(text), text)[0]
['the', 'cat', '黒', 'い', '猫', 'ok']
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from harken.data.text.scripts import has_unspaced, is_unspaced
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.subword import SPACE
from harken.data.tokenizers.word import JOINED


def words_of(
    tokenizer: Tokenizer, ids: Sequence[int], text: str, shown: str | None = None
) -> tuple[list[str], list[int]]:
    """The words of a text, and for every id the number of its word.

    Args:
        ids: those of `text`.
        shown: the text as it is shown, which may have other capitals and more at the end of it.
    """
    owners = tokenizer.word_of(ids, text)
    shown_words = (text if shown is None else shown).split()
    if not has_unspaced(text):
        return shown_words, owners
    chunks, pieces = text.split(), [_surface(piece) for piece in tokenizer.pieces(ids)]
    words: list[str] = []
    numbers: list[int] = []
    for number, chunk in enumerate(chunks):
        starts, word_indices = _split(chunk, pieces[bisect_left(owners, number) : bisect_right(owners, number)])
        numbers += [len(words) + index for index in word_indices]
        whole = shown_words[number] if number < len(shown_words) else ""
        whole = whole if len(whole) >= len(chunk) else chunk
        ends = [*starts[1:], len(whole)]
        words += [whole[start:end] for start, end in zip(starts, ends, strict=True)]
    return [*words, *shown_words[len(chunks) :]], numbers


def unseen_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text with parts that the tokenizer's training text did not have, each once.

    >>> from harken.data.tokenizers.word import WordTokenizer
    >>> unseen_words(WordTokenizer.train(["the cat"], size=100), "the dog and the cat")
    ['dog', 'and']
    """
    ids = tokenizer.encode(text)
    if tokenizer.fallback_ids.isdisjoint(ids):
        return []
    words, owners = words_of(tokenizer, ids, text)
    unseen = (words[owner] for owner, index in zip(owners, ids, strict=True) if index in tokenizer.fallback_ids)
    return list(dict.fromkeys(unseen))


def joins(before: str, after: str) -> bool:
    """Whether two neighbouring characters belong to one word.

    >>> joins("a", "b"), joins("猫", "が"), joins("す", "。")
    (True, False, False)
    """
    if unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf") or unicodedata.category(before) == "Cf":
        return True
    return not (is_unspaced(before) or is_unspaced(after))


def _split(chunk: str, pieces: Sequence[str]) -> tuple[list[int], list[int]]:
    """The starts of the words of a chunk without spaces, and the number of the word of each of its pieces."""
    if not has_unspaced(chunk):
        return [0], [0] * len(pieces)
    cuts, positions, position = {0}, [], 0
    for piece in pieces:
        start = chunk.find(piece, position) if piece else -1
        positions.append(position if start < 0 else start)  # a byte or an unknown piece stands where the last one ended
        if start >= 0:
            position = start + len(piece)
            cuts |= {start, position}
    starts = [cut for cut in sorted(cuts) if cut == 0 or (cut < len(chunk) and not joins(chunk[cut - 1], chunk[cut]))]
    return starts, [bisect_right(starts, position) - 1 for position in positions]


def _surface(piece: str) -> str:
    return piece.replace(SPACE, "").replace(JOINED, "")
