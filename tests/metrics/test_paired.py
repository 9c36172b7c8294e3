"""The paired t-test over seeds against scipy, and Holm's adjustment."""

import math
import random

import pytest

from harken.errors import UserError
from harken.metrics.significance import holm, paired_t_test, student_p


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13, 40])
def test_the_test_is_that_of_scipy(count: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    source = random.Random(count)
    first = [source.gauss(1, 1) for _ in range(count)]
    second = [source.gauss(0.5, 1) for _ in range(count)]
    expected = stats.ttest_rel(first, second)
    result = paired_t_test(first, second)
    assert (result.t, result.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30])
def test_the_distribution_is_that_of_scipy(freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.1, 1.0, -2.5, 12.0):
        assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-12)


def test_pairs_without_deviation() -> None:
    assert paired_t_test([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    assert paired_t_test([2.0, 3.0], [1.0, 2.0])[2:4] == (math.inf, 0.0)
    with pytest.raises(UserError, match="two or more pairs"):
        paired_t_test([1.0], [2.0])


def test_adjusted_values_rise_and_end_at_one() -> None:
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.03, 0.001, 0.02]) == pytest.approx([0.04, 0.003, 0.04])


def test_a_value_that_is_no_number_has_no_p_value() -> None:
    assert math.isnan(paired_t_test([math.nan, 1.0, 2.0], [1.0, 2.0, 4.0]).p_value)
