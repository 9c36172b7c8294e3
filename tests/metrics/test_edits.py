"""Edits: the fewest, counted by kind, against a plain recursion."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from harken.metrics.edits import edits


def distance(one: str, other: str) -> int:
    @cache
    def cost(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        return min(cost(i - 1, j - 1) + (one[i - 1] != other[j - 1]), cost(i - 1, j) + 1, cost(i, j - 1) + 1)

    return cost(len(one), len(other))


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_the_total_is_levenshteins_and_the_kinds_add_up(one: str, other: str) -> None:
    found = edits(one, other)
    assert found.total == distance(one, other)
    assert found.length == len(one)
    assert found.length - found.deletions + found.insertions == len(other)


def test_the_kinds_by_hand() -> None:
    assert edits("314", "3145")[:3] == (0, 0, 1)
    assert edits("314", "14")[:3] == (0, 1, 0)
    assert edits("314", "324")[:3] == (1, 0, 0)
    assert edits(["one", "two"], ["one", "too", "two"]).rate == 0.5
    assert edits("", "ab").rate == 2.0
