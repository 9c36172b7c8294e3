"""Distances in a tree against walking it by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.nn import dependency_distances


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Heads of one sentence: words are hung up in a drawn order, each below one that hangs already or as a root."""
    order = draw(st.permutations(range(draw(st.integers(1, 7)))))
    heads = [-1] * len(order)
    for number, word in enumerate(order[1:], 1):
        heads[word] = draw(st.sampled_from([-1, *order[:number]]))
    return heads


def path(heads: list[int], word: int) -> list[int]:
    """The word and all above it."""
    found = [word]
    while heads[found[-1]] >= 0:
        found.append(heads[found[-1]])
    return found


@settings(deadline=None)
@given(trees())
def test_distances(heads: list[int]) -> None:
    paths = [path(heads, word) for word in range(len(heads))]
    batch = torch.tensor([heads, [-1] * len(heads)])
    found = dependency_distances(batch)[0]
    for i, one in enumerate(paths):
        for j, other in enumerate(paths):
            if i in other or j in one:
                right = len(one) - len(other)
            else:
                right = (len(one) + len(other) - 2) * (1 if i > j else -1)
            assert found[i, j].item() == right


@pytest.mark.parametrize(("heads", "message"), [([1, 0], "in a circle"), ([-1, 5], "number 5, but the last")])
def test_no_tree(heads: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dependency_distances(torch.tensor([heads]))
