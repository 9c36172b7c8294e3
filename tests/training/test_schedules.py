"""The learning rate: values at chosen steps, and properties that hold for every step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.training.optimizers import factor

SCHEDULES = ["inverse_sqrt", "cosine", "linear", "plateau", "constant"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_is_a_straight_line(schedule: str) -> None:
    assert [factor(schedule, step, 0.0, 10) for step in (1, 5, 10)] == [0.1, 0.5, 1.0]
    assert factor(schedule, 1, 0.0, 1) == 1.0


@pytest.mark.parametrize(
    ("schedule", "step", "progress", "reduced", "expected"),
    [
        ("inverse_sqrt", 40, 0.9, 1.0, 0.5),
        ("inverse_sqrt", 1000, 0.0, 1.0, 0.1),
        ("cosine", 500, 0.25, 1.0, (1 + math.cos(math.pi / 4)) / 2),
        ("cosine", 500, 1.5, 1.0, 0.0),
        ("linear", 500, 0.75, 1.0, 0.25),
        ("plateau", 500, 0.75, 0.125, 0.125),
        ("constant", 500, 0.75, 1.0, 1.0),
    ],
)
def test_after_warm_up(schedule: str, step: int, progress: float, reduced: float, expected: float) -> None:
    assert factor(schedule, step, progress, 10, reduced) == pytest.approx(expected)


def test_no_warm_up_is_no_division_by_nothing() -> None:
    assert factor("inverse_sqrt", 4, 0.0, 0) == 0.5
    assert factor("constant", 1, 0.0, 0) == 1.0


@given(st.sampled_from(SCHEDULES), st.integers(1, 10**6), st.floats(0, 1), st.integers(0, 10**4))
def test_a_factor_lies_between_0_and_1(schedule: str, step: int, progress: float, warmup: int) -> None:
    assert 0.0 <= factor(schedule, step, progress, warmup) <= 1.0


@given(st.sampled_from(SCHEDULES), st.integers(100, 10**5), st.floats(0, 1), st.floats(0, 1))
def test_it_never_rises_after_warm_up(schedule: str, step: int, one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert factor(schedule, step + 1, late, 100) <= factor(schedule, step, early, 100)
