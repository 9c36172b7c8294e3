"""Lines that are longer than a model reads: cut into parts that are translated one by one and joined again.

A text is cut between sentences; a sentence that is too long itself between clauses, then between words, then anywhere.
The parts put together are the text.

>>> split_text("One two. Three four, five. Six.", limit=3, target=3, count=lambda text: len(text.split()))
['One two. ', 'Three four, five. ', 'Six.']
>>> split_text("One two three, four. Five", limit=3, target=3, count=lambda text: len(text.split()))
['One two three, ', 'four. ', 'Five']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from harken.tasks.translate.translation import LinkedTranslation, Translation

PART = 64  # pieces of a part: models are trained on sentences, so parts are not as long as they may be
BOUNDARIES = (
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])"),  # sentences
    re.compile(r"(?<=[,;:–—])\s+|(?<=[，、；：])"),  # clauses
    re.compile(r"\s+"),  # words
)


def split_text(text: str, limit: int, target: int, count: Callable[[str], int], level: int = 0) -> list[str]:
    """Consecutive parts of a text, each with at most `limit` pieces.

    Args:
        target: shorter neighbours are put together up to so many pieces.
        count: the pieces of a text.
        level: the boundaries of `BOUNDARIES` to begin with; past the last one a text is halved.
    """
    if level == len(BOUNDARIES):
        if len(text) < 2 or count(text) <= limit:
            return [text]
        half = len(text) // 2
        return [part for side in (text[:half], text[half:]) for part in split_text(side, limit, target, count, level)]
    parts: list[str] = []
    size = target + 1  # pieces of the last part; none may be added to a part that had to be cut further
    for segment in _segments(text, BOUNDARIES[level]):
        pieces = count(segment)
        if pieces > limit:
            parts += split_text(segment, limit, target, count, level + 1)
            size = target + 1
        elif size + pieces <= target:
            parts[-1] += segment
            size += pieces
        else:
            parts.append(segment)
            size = pieces
    # A tokenizer may have more pieces for a whole than for its parts together; that is checked once for each part.
    return [
        piece
        for part in parts
        for piece in ([part] if count(part) <= limit else split_text(part, limit, target, count, level + 1))
    ]


def _segments(text: str, boundary: re.Pattern[str]) -> list[str]:
    """The text cut after each boundary."""
    edges = [0, *(found.end() for found in boundary.finditer(text) if 0 < found.end() < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]


def join_translations(
    source: str, parts: Sequence[str], found: Sequence[Sequence[Translation]], tokens: Sequence[Sequence[int]]
) -> list[Translation]:
    """The translations of a text from those of its parts: the best of each part together, then the second best ...

    The score is the mean of the parts' scores by their number of tokens, which is the score of the whole under the
    default length normalisation. There is no attention, as its size would be the product of the lengths, but where the
    parts have some, there are links.

    Args:
        parts: what `split_text` made of `source`.
        found: translations of each part, best first.
        tokens: the number of tokens of each of them, EOS included.
    """
    spaces = [before[-1:].isspace() or after[:1].isspace() for before, after in pairwise(parts)]
    results: list[Translation] = []
    for rank in range(max(len(some) for some in found)):
        chosen = [min(rank, len(some) - 1) for some in found]  # a part may have fewer
        best = [some[index] for some, index in zip(found, chosen, strict=True)]
        sizes = [some[index] for some, index in zip(tokens, chosen, strict=True)]
        text = best[0].text
        for space, one in zip(spaces, best[1:], strict=True):
            text += (" " if space and text and one.text else "") + one.text
        sources, targets = first_words(parts, spaces), first_words([one.text for one in best], spaces)
        unknown = sorted({first + word for first, one in zip(sources, best, strict=True) for word in one.unknown})
        score = float(np.average([one.score for one in best], weights=sizes))
        if not all(one.is_aligned for one in best):
            results.append(Translation(source, text, score, unknown=unknown))
            continue
        each = zip(best, sources, targets, strict=True)
        links = [(i + first, j + second) for one, first, second in each for i, j in one.alignment()]
        results.append(LinkedTranslation(source, text, score, unknown=unknown, links=links))
    return results


def copied(line: str) -> Translation:
    """A line as its own translation, each word linked to itself."""
    return LinkedTranslation(line, line, 0.0, links=[(word, word) for word in range(len(line.split()))])


def first_words(parts: Sequence[str], spaces: Sequence[bool]) -> list[int]:
    """The number of the first word of each part in the whole; a part after no space continues the word before it.

    >>> first_words(["a b ", "c d", "ef g"], [True, False])
    [0, 2, 3]
    """
    starts, words = [], 0
    for part, space in zip(parts, [True, *spaces], strict=True):
        count = len(part.split())
        starts.append(words if space or not words or not count else words - 1)
        words = starts[-1] + count
    return starts
