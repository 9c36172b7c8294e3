"""Trees written into the source text, and what of them reaches a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.text.dependency_heads import NO_HEAD, Trees, read_heads
from harken.errors import UserError


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Heads that always form a tree: every word depends on an earlier one, or is a root; the words are shuffled."""
    size = draw(st.integers(1, 12))
    over = [draw(st.integers(-1, word - 1)) for word in range(size)]
    order = draw(st.permutations(range(size)))
    place = {word: number for number, word in enumerate(order)}
    return [0 if over[word] < 0 else place[over[word]] + 1 for word in order]


@given(trees())
def test_every_tree_is_read_back(heads: list[int]) -> None:
    line = " ".join(f"w{number}|x|{head}" for number, head in enumerate(heads))  # a word may hold a bar itself
    text, read = read_heads(line, "line 1")
    assert read == tuple(heads)
    assert text.split() == [f"w{number}|x" for number in range(len(heads))]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("the cat|0", '"the" where'),
        ("the|2 |0", '"|0" where'),
        ("the|two cat|0", '"the|two" where'),
        ("the|-1 cat|0", '"the|-1" where'),
        ("the|5 cat|0", "head 5, but there are 2 words"),
        ("the|2 cat|1", "circle"),
        ("the|1", "circle"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_place(line: str, reason: str) -> None:
    with pytest.raises(UserError) as refusal:
        read_heads(line, "train.en, line 7")
    assert reason in str(refusal.value)
    assert str(refusal.value).startswith("train.en, line 7")


def test_an_empty_line_is_an_empty_tree() -> None:
    assert read_heads("", "line 1") == ("", ())


def test_a_batch_is_padded_with_roots() -> None:
    kept = Trees.of([(2, 0), (0,), (3, 1, 0)], [[0, 1], [0, 0], [0, 1, 2]])
    heads, words = kept.gather([1, 2])
    assert heads.tolist() == [[NO_HEAD, NO_HEAD, NO_HEAD, NO_HEAD], [2, 0, NO_HEAD, NO_HEAD]]
    assert words.tolist() == [[0, 0, 1, 0], [0, 1, 2, 3]]
