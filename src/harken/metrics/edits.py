"""Edit distance (Levenshtein, 1966) by rapidfuzz, and the error rates made of it (CER, WER).

    error rate = (substitutions + deletions + insertions) / symbols of the reference

Where several alignments have the least cost, the kinds are counted in the one that rapidfuzz returns.

>>> edits("abcd", "abxde")
Edits(substitutions=1, deletions=0, insertions=1, length=4)
>>> edits("abcd", "abxde").rate
0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """The edits that turn a reference into an output."""

    substitutions: int
    deletions: int  # symbols of the reference that the output lacks
    insertions: int  # symbols of the output that the reference lacks
    length: int  # of the reference

    @property
    def total(self) -> int:
        """The edit distance."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """The distance divided by the length of the reference (by 1 where the reference is empty)."""
        return self.total / max(1, self.length)


def edits(reference: Sequence[Hashable], output: Sequence[Hashable]) -> Edits:
    """Align two sequences of symbols (characters, words) at the least cost."""
    from rapidfuzz.distance import Levenshtein

    kinds = Counter(edit.tag for edit in Levenshtein.editops(reference, output))
    return Edits(kinds["replace"], kinds["delete"], kinds["insert"], len(reference))
