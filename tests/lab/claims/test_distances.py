"""Pairs inside a kind against pairs across, and a rule that can go each way."""

from pathlib import Path

import numpy as np
import pytest

from harken.errors import UserError
from harken.lab.claims import distances as lab
from harken.lab.experiment import Settings


def test_area_is_the_share_of_pairs_in_order() -> None:
    random = np.random.default_rng(1)
    inside, across = random.integers(0, 5, 30), random.integers(0, 5, 40)
    wanted = np.mean([[1.0 if a > b else 0.5 if a == b else 0.0 for b in across] for a in inside])
    assert lab.area(inside, across) == pytest.approx(wanted)


def test_one_hot_vectors_know_nothing() -> None:
    kinds = {"one": ["a", "b"], "two": ["c", "d"]}
    inside, across = lab.pairs_of(kinds, dict(zip("abcd", np.eye(4), strict=True)))
    assert lab.area(inside, across) == 0.5 and not inside.any() and not across.any()


def test_a_text_without_known_kinds_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("lorem ipsum dolor sit amet\n" * 20)
    with pytest.raises(UserError, match="fewer than two kinds"):
        lab.run(Settings(files=(text,), quick=True), lambda done, say: None)


@pytest.mark.parametrize(
    ("learned", "one_hot", "holds"), [(0.9, 0.5, True), (0.7, 0.5, None), (0.5, 0.5, False), (0.9, 0.6, False)]
)
def test_rule(learned: float, one_hot: float, holds: bool | None) -> None:
    areas = {"one-hot": [one_hot], "untrained": [0.51, 0.49], "learned": [learned, learned]}
    assert lab.judge(areas)[0] is holds
