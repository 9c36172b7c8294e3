"""The made language is what it says, and the rule can go each way."""

import random

import pytest

from harken.lab.claims import bottleneck as lab


def test_the_made_language_puts_adjectives_behind_their_nouns() -> None:
    assert lab.translation(["ba", "de", "ki", "lu", "ba"]) == ["ab", "ik", "ed", "ul", "ab"]  # only before a noun


def test_sentences_have_the_lengths_asked_for_and_the_same_words_on_both_sides() -> None:
    made = lab.sentences(50, (3, 5), random.Random(1))
    assert {len(source.split()) for source, _ in made} == {3, 4, 5}
    for source, target in made:
        assert sorted(source.split()) == sorted(word[::-1] for word in target.split())


def curve(short: float, longest: float, far: float) -> dict[int, float]:
    """BLEU that is straight from the shortest to the longest trained length, and flat beyond."""
    return {n: short + (longest - short) * (n - 4) / 8 if n <= lab.LONGEST else far for n in lab.LENGTHS}


@pytest.mark.parametrize(
    ("without", "attention", "holds"),
    [
        ((95, 20, 2), (100, 98, 90), True),
        ((95, 20, 2), (100, 98, 10), None),  # far less within what was trained, not beyond it
        ((95, 20, 2), (100, 40, 30), False),  # attention falls nearly as much
        ((95, 90, 80), (100, 99, 98), False),  # no bottleneck
        ((60, 20, 2), (100, 98, 90), None),  # without attention it cannot even translate short sentences
    ],
)
def test_rule(without: tuple[float, ...], attention: tuple[float, ...], holds: bool | None) -> None:
    networks = {"none": curve(*without), "additive": curve(*attention)}
    assert lab.judge(networks, networks, 0)[0] is holds


def test_runs_that_were_still_rising_leave_the_verdict_open() -> None:
    networks = {"none": curve(95, 20, 2), "additive": curve(100, 98, 90)}
    holds, verdict = lab.judge(networks, {**networks, "none": curve(95, 60, 2)}, 2)
    assert holds is None and "twice as wide: 35" in verdict and "2 runs ended before a plateau" in verdict
