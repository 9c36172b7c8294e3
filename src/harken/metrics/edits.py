"""How far one sequence is from another: the fewest symbols to change, leave out or put in.

D(i, j) = min(D(i-1, j-1) + [a_i != b_j], D(i-1, j) + 1, D(i, j-1) + 1)
error rate = (substitutions + deletions + insertions) / symbols of the reference

Of several cheapest ways the one with most substitutions is counted. Reference: Levenshtein (1966).

>>> edits("abcd", "abxde")
Edits(substitutions=1, deletions=0, insertions=1, length=4)
>>> edits("abcd", "abxde").rate
0.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Edits(NamedTuple):
    """What separates an output from its reference."""

    substitutions: int
    deletions: int  # of the reference, missing in the output
    insertions: int  # in the output, and not in the reference
    length: int  # of the reference

    @property
    def total(self) -> int:
        """All of them."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Per symbol of the reference; of an empty one, per output."""
        return self.total / max(1, self.length)


def edits(reference: Sequence[Any], output: Sequence[Any]) -> Edits:
    """The cheapest way from the reference to the output."""
    row = [(column, 0, 0, column) for column in range(len(output) + 1)]  # (cost, substitutions, deletions, insertions)
    for line, wanted in enumerate(reference, start=1):
        diagonal, row[0] = row[0], (line, 0, line, 0)
        for column, found in enumerate(output, start=1):
            cost, changed, left_out, put_in = diagonal
            same = wanted == found
            kept = (cost + (not same), changed + (not same), left_out, put_in)
            cost, changed, left_out, put_in = row[column]
            missing = (cost + 1, changed, left_out + 1, put_in)
            cost, changed, left_out, put_in = row[column - 1]
            extra = (cost + 1, changed, left_out, put_in + 1)
            diagonal = row[column]
            row[column] = min(kept, missing, extra, key=lambda way: way[0])
    _, changed, left_out, put_in = row[-1]
    return Edits(changed, left_out, put_in, len(reference))
