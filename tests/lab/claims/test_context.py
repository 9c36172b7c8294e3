"""Places with one sense against places with different senses, and a rule that can go each way."""

import numpy as np
import pytest

from harken.data.synthetic.two_senses import Made
from harken.lab.claims import context as lab
from harken.lab.experiment import Settings


def made(word: str, sense: int, topic: str) -> Made:
    return Made((word,), 0, word, sense, frozenset(topic))


def test_vectors_that_point_by_sense_are_told_apart() -> None:
    places = [made("bank", 0, "a"), made("bank", 0, "b"), made("bank", 1, "c"), made("bank", 1, "d")]
    vectors = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    assert lab.areas_of(places, vectors) == {"bank": 1.0}
    assert lab.areas_of(places, vectors[[0, 2, 1, 3]])["bank"] < 0.5
    assert lab.areas_of(places, np.ones((4, 2))) == {"bank": 0.5}  # one vector for a word, wherever it stands


def test_pairs_that_share_a_neighbour_do_not_count() -> None:
    places = [made("bank", 0, "a"), made("bank", 0, "a"), made("bank", 1, "c"), made("bank", 1, "d")]
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    # same sense: only the last two, at 0.7; different senses: 0, 0.7 twice each
    assert lab.areas_of(places, vectors)["bank"] == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize(
    ("alone", "upper", "before", "holds"),
    [
        (0.5, 0.9, 0.6, True),
        (0.5, 0.75, 0.6, None),
        (0.5, 0.9, 0.85, None),
        (0.5, 0.55, 0.5, False),
        (0.6, 0.9, 0.6, False),
    ],
)
def test_rule(alone: float, upper: float, before: float, holds: bool | None) -> None:
    trained = {"0": [alone, alone], "1": [upper, upper], "2": [upper, upper], "mean": [upper, upper]}
    untrained = {"0": [0.5], "1": [before], "2": [before], "mean": [before]}
    assert lab.judge(trained, untrained)[0] is holds


def test_one_weak_seed_is_enough_to_fail() -> None:
    trained = {"0": [0.5, 0.5], "1": [0.95, 0.79], "2": [0.95, 0.95], "mean": [0.95, 0.95]}
    untrained = {layer: [0.5, 0.5] for layer in lab.LAYERS}
    assert lab.judge(trained, untrained)[0] is None


def test_a_quick_run_measures_all_layers() -> None:
    told: list[float] = []
    findings = lab.run(Settings(quick=True), lambda done, say: told.append(done))
    assert [row[0] for row in findings.rows] == ["0, the word alone", "1", "2", "mean of all"]
    assert findings.measured["trained"]["0"] == [0.5] and findings.measured["untrained"]["0"] == [0.5]
    assert findings.measured["losses"][0][1] < findings.measured["losses"][0][0]
    assert told == [1.0] and "before training" in findings.verdict
    ((cosine, other),) = findings.measured["stick"]["cosines of the first with the others"]
    assert cosine < 0.9999 and other < 0.9999  # another vector in another sentence
