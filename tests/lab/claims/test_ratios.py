"""Counts near a word, ratios of them, and what is said where counts are too few."""

from pathlib import Path

import numpy as np
import pytest

from harken.lab.claims import ratios as lab
from harken.lab.experiment import Settings


def test_sentences_end_the_window() -> None:
    stream = np.array([1, 2, 0, 3, -1, 4, 0])
    assert lab.neighbour_counts(stream, 0, window=10, size=5).tolist() == [0, 1, 1, 1, 1]
    assert lab.neighbour_counts(stream, 0, window=1, size=5).tolist() == [0, 0, 1, 1, 1]


def test_the_text_of_a_user_is_counted(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("ice solid\n" * 40 + "steam gas\n" * 40 + "ice gas water\n" * 5 + "steam solid water\n" * 5)
    found = lab.run(Settings(files=(text,)), lambda done, say: None)
    counts = found.measured["counts"]
    assert counts == {"solid": (40, 5), "gas": (5, 40), "water": (5, 5), "fashion": (0, 0)}
    assert found.holds is None and "too few counts for fashion (0 with ice, 0 with steam)" in found.verdict
    assert [row[-1] for row in found.rows] == ["enough", "enough", "enough", "too few"]


def test_a_text_without_steam_is_told_so(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("ice solid\n" * 10)
    assert lab.run(Settings(files=(text,)), lambda done, say: None).verdict.startswith("the text has no steam")


GOOD = {"solid": (50, 5), "gas": (5, 50), "water": (20, 20), "fashion": (6, 5)}


@pytest.mark.parametrize(
    ("counts", "made", "holds"),
    [
        (GOOD, False, True),
        (GOOD, True, None),  # made text proves nothing about English
        ({**GOOD, "fashion": (1, 0)}, False, None),
        ({**GOOD, "gas": (50, 50)}, False, False),
    ],
)
def test_rule(counts: dict[str, tuple[int, int]], made: bool, holds: bool | None) -> None:
    assert lab.judge(counts, (1000, 1000), made)[0] is holds
