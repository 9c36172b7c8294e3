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
from typing import Any

import numpy as np

from harken.data.tokenizers.words import joins
from harken.tasks.translate.translation import LinkedTranslation, Translation

PART = 64  # pieces of a part: models are trained on sentences, so parts are not as long as they may be
WIDE_MARKS = tuple("。！？，、；：")  # of scripts without spaces
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
    edges = [0, *(match.end() for match in boundary.finditer(text) if 0 < match.end() < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]


def join_translations(
    source: str, parts: Sequence[str], translations: Sequence[Sequence[Translation]], tokens: Sequence[Sequence[int]]
) -> list[Translation]:
    """The translations of a text from those of its parts: the best of each part together, then the second best ...

    The score is the mean of the parts' scores by their number of tokens, which is the score of the whole under the
    default length normalisation. There is no attention, as its size would be the product of the lengths, but where the
    parts have some, there are links.

    Args:
        parts: what `split_text` made of `source`.
        translations: those of each part, best first.
        tokens: the number of tokens of each of them, EOS included.
    """
    spaces = [before[-1:].isspace() or after[:1].isspace() for before, after in pairwise(parts)]
    results: list[Translation] = []
    for rank in range(max(map(len, translations))):
        chosen = [min(rank, len(row) - 1) for row in translations]  # a part may have fewer
        best = [row[index] for row, index in zip(translations, chosen, strict=True)]
        sizes = [row[index] for row, index in zip(tokens, chosen, strict=True)]
        text, target_spaces = best[0].text, []
        for before, space, part in zip(parts[:-1], spaces, best[1:], strict=True):
            divides = (space or before.endswith(WIDE_MARKS)) and text and part.text and joins(text[-1], part.text[0])
            text += (" " if divides else "") + part.text
            target_spaces.append(bool(divides))
        source_words, sources = join_words([part.source_words for part in best], spaces)
        target_words, targets = join_words([part.target_words for part in best], target_spaces)
        words: dict[str, Any] = {"source_words": source_words, "target_words": target_words}
        unknown = sorted({first + word for first, part in zip(sources, best, strict=True) for word in part.unknown})
        score = float(np.average([part.score for part in best], weights=sizes))
        if not all(part.is_aligned for part in best):
            results.append(Translation(source, text, score, unknown=unknown, **words))
            continue
        each = zip(best, sources, targets, strict=True)
        links = [(i + first, j + second) for part, first, second in each for i, j in part.alignment()]
        results.append(LinkedTranslation(source, text, score, unknown=unknown, links=links, **words))
    return results


def copied(line: str) -> Translation:
    """A line as its own translation, each word linked to itself."""
    return LinkedTranslation(line, line, 0.0, links=[(word, word) for word in range(len(line.split()))])


def join_words(parts: Sequence[Sequence[str]], spaces: Sequence[bool]) -> tuple[list[str], list[int]]:
    """The words of a text from those of its parts, and the number of each part's first word in it.

    A part after no space continues the word before it, but for scripts without spaces.

    >>> join_words([["a", "b"], ["c", "d"], ["ef", "g"]], [True, False])
    (['a', 'b', 'c', 'def', 'g'], [0, 2, 3])
    """
    joined: list[str] = []
    starts: list[int] = []
    for words, space in zip(parts, [True, *spaces], strict=True):
        continues = not space and joined and words and joins(joined[-1][-1], words[0][0])
        starts.append(len(joined) - 1 if continues else len(joined))
        joined[starts[-1] :] = [joined[-1] + words[0], *words[1:]] if continues else words
    return joined, starts
