from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from harken.errors import UserError
from harken.metrics import approximate_randomisation, compare_systems, corpus_bleu, corpus_chrf, paired_bootstrap
from harken.metrics.bleu import bleu_of_statistics, bleu_statistics, chrf_of_statistics, chrf_statistics
from harken.metrics.significance import Test

WORDS = ["the", "a", "black", "white", "cat", "dog", "sleeps", "runs", "here", "there", "now", "then", "quietly"]


def outputs(lines: int, noise: float, seed: int) -> tuple[list[str], list[str]]:
    """References, and copies of them with a share of the words replaced."""
    truth, noisy = random.Random(7), random.Random(seed)
    references = [[truth.choice(WORDS) for _ in range(truth.randint(5, 14))] for _ in range(lines)]
    system = [[noisy.choice(WORDS) if noisy.random() < noise else word for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in system]


def sacrebleu_test(kind: str, metric: str, a: list[str], b: list[str], references: list[str], samples: int) -> Result:
    """The result of sacrebleu's own paired test for system b against the baseline a; its seed is 12345, as ours."""
    scorer = BLEU(references=[references]) if metric == "bleu" else CHRF(references=[references])
    _, results = PairedTest([("a", a), ("b", b)], {metric: scorer}, None, test_type=kind, n_samples=samples)()
    (name,) = set(results) - {"System"}
    return results[name][1]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_randomisation_agrees_with_sacrebleu(metric: str) -> None:
    references, better = outputs(60, 0.20, 1)
    _, worse = outputs(60, 0.23, 2)
    ours = approximate_randomisation(worse, better, references, samples=300, metric=metric)
    theirs = sacrebleu_test("ar", metric, worse, better, references, 300)
    assert ours.p_value == pytest.approx(theirs.p_value)
    assert ours.b.value == pytest.approx(theirs.score)
    assert 0.01 < ours.p_value < 0.99  # neither extreme, where an error could hide
    mirrored = approximate_randomisation(better, worse, references, samples=300, metric=metric)
    assert mirrored.p_value == ours.p_value and mirrored.difference == -ours.difference


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_bootstrap_counts_both_tails_of_sacrebleus_draws(metric: str) -> None:
    # sacrebleu centres |d|: where nearly all d have one sign that is one tail of d - mean d, about half of two
    references, better = outputs(60, 0.18, 1)
    _, worse = outputs(60, 0.25, 2)
    ours = paired_bootstrap(worse, better, references, samples=2000, metric=metric)
    theirs = sacrebleu_test("bs", metric, worse, better, references, 2000)
    assert 0.005 < theirs.p_value < 0.25
    assert ours.p_value == pytest.approx(2 * theirs.p_value, rel=0.35)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_identical_systems_are_never_significant(test: Test) -> None:
    references, system = outputs(20, 0.2, 1)
    result = compare_systems(system, list(system), references, test, samples=50)
    assert (result.difference, result.low, result.high) == (0.0, 0.0, 0.0)
    assert result.p_value == 1.0 and not result.significant


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_equally_good_systems_are_called_different_about_as_often_as_the_level_says(test: Test) -> None:
    significant = 0
    for trial in range(60):
        references, first = outputs(30, 0.2, 100 + trial)
        _, second = outputs(30, 0.2, 900 + trial)
        significant += compare_systems(first, second, references, test, samples=150, metric="chrf").significant
    assert significant <= 8  # binomial(60, 0.05): more than 8 in 1 of 300 runs


@pytest.mark.parametrize(
    "lines", [["", "a b"], ["ab", "abc def"], ["the black cat", "the black cat sleeps"], ["x y z", "q"]]
)
def test_scores_from_statistics_are_sacrebleus(lines: list[str]) -> None:
    references = ["the black cat sleeps well", "abc"]
    single = [[line] for line in references]
    bleu, chrf = bleu_statistics(lines, single).sum(0), chrf_statistics(lines, single).sum(0)
    assert bleu_of_statistics(bleu[None])[0] == pytest.approx(corpus_bleu(lines, references).value)
    assert chrf_of_statistics(chrf[None])[0] == pytest.approx(corpus_chrf(lines, references).value)


def test_a_clear_difference_is_significant() -> None:
    references, good = outputs(80, 0.05, 1)
    _, bad = outputs(80, 0.4, 2)
    result = paired_bootstrap(good, bad, references, samples=200)
    assert result.difference == pytest.approx(corpus_bleu(good, references).value - corpus_bleu(bad, references).value)
    assert 0 < result.low < result.difference < result.high
    assert result.p_value == pytest.approx(1 / 201) and result.significant
    assert "p = 0.0050, 200 samples" in str(result)
    mirrored = paired_bootstrap(bad, good, references, samples=200)
    assert (mirrored.low, mirrored.high) == pytest.approx((-result.high, -result.low))


def test_interval_is_that_of_scores_computed_from_the_drawn_lines() -> None:
    references, first = outputs(12, 0.1, 1)
    _, second = outputs(12, 0.2, 2)
    result = paired_bootstrap(first, second, references, samples=20, seed=3)
    draws = np.random.default_rng(3).choice(12, size=(20, 12), replace=True)

    def drawn(lines: list[str], draw: np.ndarray) -> list[str]:
        return [lines[index] for index in draw]

    differences = [
        corpus_bleu(drawn(first, draw), drawn(references, draw)).value
        - corpus_bleu(drawn(second, draw), drawn(references, draw)).value
        for draw in draws
    ]
    assert (result.low, result.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="1 outputs and 2 references"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(UserError, match="samples is 0"):
        paired_bootstrap(["a"], ["a"], ["a"], samples=0)
    with pytest.raises(UserError, match='no test "t-test"; choose bootstrap or randomisation'):
        compare_systems(["a"], ["a"], ["a"], "t-test")  # type: ignore[arg-type]


def test_unspaced_scripts_are_compared_by_characters() -> None:
    references = ["黒い猫は屋根の上で眠っている。", "彼は昨日、東京で友達に会いました。", "雨が降っています。"]
    close, far = [line.replace("る", "た") for line in references], [line[::-1] for line in references]
    comparison = compare_systems(close, far, references, samples=50)
    assert comparison.difference > 30 and comparison.a.signature == corpus_bleu(close, references).signature
    assert bleu_of_statistics(bleu_statistics(close, [[line] for line in references]).sum(0)[None])[0] == pytest.approx(
        comparison.a.value
    )


def test_exact_matches_are_compared_in_percent() -> None:
    references = [f"label {row % 3}" for row in range(40)]
    worse = [line if row % 4 else "other" for row, line in enumerate(references)]
    test = compare_systems(references, worse, references, metric="exact")
    assert (test.a.name, test.a.value, test.b.value, test.difference) == ("exact match", 100.0, 75.0, 25.0)
    assert 10 < test.low < 25 < test.high < 40 and test.p_value < 0.01
