"""sigmoid and tanh of the CPU kernels are exact to a few units in the last place, at the ends of the line too."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="the CPU kernels are compiled by numba")
from harken.kernels.numba_math import sigmoid_of, tanh_of

POINTS = np.concatenate([np.linspace(-90, 90, 3001), np.random.default_rng(1).normal(0, 1, 3000), [1e-30, -1e-8, 0.0]])


@pytest.mark.parametrize(("found", "right"), [(sigmoid_of, lambda v: 1 / (1 + np.exp(-v))), (tanh_of, np.tanh)])
def test_a_few_units_in_the_last_place(found, right) -> None:
    values = POINTS.astype(np.float32)
    wanted = right(values.astype(np.float64))
    ours = np.array([found(value) for value in values], np.float64)
    near = wanted > 1e-37 if found is sigmoid_of else wanted == wanted  # below, float32 itself loses digits
    unit = np.spacing(np.abs(wanted).astype(np.float32))
    assert (np.abs(ours - wanted)[near] / unit[near]).max() <= 2.5


def test_the_ends_of_the_line() -> None:
    single = np.float32
    assert [float(tanh_of(single(value))) for value in (np.inf, -np.inf)] == [1.0, -1.0]
    assert float(sigmoid_of(single(np.inf))) == 1.0
    assert float(sigmoid_of(single(-np.inf))) < 1e-37
    assert np.isnan(tanh_of(single(np.nan)))
    assert np.isnan(sigmoid_of(single(np.nan)))
    assert np.signbit(tanh_of(single(-0.0)))


def test_double_precision_takes_the_c_library() -> None:
    assert float(tanh_of(0.3)) == np.tanh(0.3)
    assert float(sigmoid_of(0.3)) == pytest.approx(1 / (1 + np.exp(-0.3)), abs=1e-16)
