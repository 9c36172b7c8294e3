from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from harken.errors import UserError
from harken.metrics import corpus_bleu, paired_bootstrap

WORDS = ["the", "a", "black", "white", "cat", "dog", "sleeps", "runs", "here", "there", "now", "then", "quietly"]


def outputs(lines: int, noise: float, seed: int) -> tuple[list[str], list[str]]:
    """References, and copies of them with a share of the words replaced."""
    truth, noisy = random.Random(7), random.Random(seed)
    references = [[truth.choice(WORDS) for _ in range(truth.randint(5, 14))] for _ in range(lines)]
    system = [[noisy.choice(WORDS) if noisy.random() < noise else word for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in system]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_p_value_is_sacrebleus(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    references, better = outputs(60, 0.20, 1)
    _, worse = outputs(60, 0.23, 2)
    ours = paired_bootstrap(worse, better, references, samples=200, metric=metric)
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    scorer = BLEU(references=[references]) if metric == "bleu" else CHRF(references=[references])
    test = PairedTest([("a", worse), ("b", better)], {metric: scorer}, None, test_type="bs", n_samples=200)
    _, theirs = test()
    assert ours.p_value == pytest.approx(theirs[ours.a.name][1].p_value)
    assert [ours.a.value, ours.b.value] == pytest.approx([result.score for result in theirs[ours.a.name]], abs=1e-4)
    assert 0.01 < ours.p_value < 0.99  # a case that says something


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


def test_a_system_against_itself() -> None:
    references, system = outputs(20, 0.2, 1)
    result = paired_bootstrap(system, system, references, samples=50)
    assert (result.difference, result.low, result.high) == (0.0, 0.0, 0.0)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="1 outputs and 2 references"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(UserError, match="samples is 0"):
        paired_bootstrap(["a"], ["a"], ["a"], samples=0)
