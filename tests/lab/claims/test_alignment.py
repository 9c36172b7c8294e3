"""Links that cross, baselines, gold sets as people write them, and a rule that can go each way."""

import pytest

from harken.data.text.pairs import Alignment, Pair
from harken.errors import UserError
from harken.lab.claims import alignment as lab
from harken.lab.experiment import Settings


def test_links_cross_where_order_is_turned() -> None:
    assert lab.crossing({(0, 0), (1, 1), (2, 2)}) == set()
    assert lab.crossing({(0, 0), (1, 2), (2, 1), (3, 3)}) == {(1, 2), (2, 1)}
    assert lab.crossing({(0, 0), (0, 1)}) == set()  # one word with two is no crossing


def test_baselines() -> None:
    pairs = [Pair("a b c d", "x y")]
    assert lab.diagonal(pairs) == [[(1, 0), (3, 1)]]
    (links,) = lab.drawn(pairs, 1)
    assert [j for _, j in links] == [0, 1] and all(0 <= i < 4 for i, _ in links)


@pytest.mark.parametrize("links", ["1-1 2p1", "0-0 1?0"])
def test_gold_sets_are_counted_from_one_or_from_nought(links: str) -> None:
    (pair,) = lab.gold_pairs(["a b"], ["x"], [links])
    assert pair.alignment == Alignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}))


def test_links_outside_the_sentence_are_left_out() -> None:
    (pair,) = lab.gold_pairs(["a b"], ["x"], ["0-0 5-0"])
    assert pair.alignment is not None and pair.alignment.possible == {(0, 0)}


def test_four_files_are_asked_for(tmp_path) -> None:
    with pytest.raises(UserError, match="MODEL, SOURCE, TARGET and LINKS; 1 were given"):
        lab.run(Settings(files=(tmp_path,)), lambda done, say: None)


@pytest.mark.parametrize(
    ("attention", "crossed", "holds"), [(0.1, 0.9, True), (0.1, 0.3, None), (0.4, 0.9, None), (0.7, 0.1, False)]
)
def test_rule(attention: float, crossed: float, holds: bool | None) -> None:
    errors = {"attention": attention, "random": 0.8, "diagonal": 0.5}
    assert lab.judge(errors, {"attention": crossed, "diagonal": 0.1})[0] is holds
