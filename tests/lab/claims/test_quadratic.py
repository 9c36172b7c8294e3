"""Operations are those of the formulas, memory is what is kept, and the rule can go each way."""

import pytest
import torch

from harken.lab.claims import quadratic as lab
from harken.lab.helpers import crossing, exponent, seconds


@pytest.mark.parametrize("length", [8, 24])
def test_operations_are_those_of_the_formulas(length: int) -> None:
    square = lab.WIDTH**2
    assert lab.operations("attention", length) == {
        "all": 8 * length * square + 4 * length**2 * lab.WIDTH,
        "attention": 4 * length**2 * lab.WIDTH,
    }
    assert lab.operations("LSTM", length)["all"] == 16 * length * square
    assert lab.operations("RNN", length)["all"] == 4 * length * square


def test_memory_that_is_kept_counts_once_and_parameters_not_at_all() -> None:
    layer = torch.nn.Linear(lab.WIDTH, lab.WIDTH)
    assert lab.saved_bytes(lambda values: layer(values), 10) == 10 * lab.WIDTH * 4  # the input alone
    assert lab.saved_bytes(lambda values: values.exp() * 2, 10) == 10 * lab.WIDTH * 4  # exp keeps its result
    assert lab.saved_bytes(lambda values: (lambda e: e * e)(values.exp()), 10) == 10 * lab.WIDTH * 4  # the same, shared


def test_growth_and_crossing() -> None:
    assert exponent([1, 10, 100], [7, 70, 700]) == pytest.approx(1.0)
    assert crossing([1, 2, 4], [1, 2, 4], [2, 2.5, 3]) == pytest.approx(2.8, abs=0.1)
    assert crossing([1, 2, 4], [1, 2, 3], [2, 3, 4]) is None
    calls: list[int] = []
    assert 0 <= seconds(lambda: calls.append(1), budget=0.0, least=4) < 1
    assert len(calls) == 4


GOOD = {
    "attention itself": 2.0,
    **{f"operations, {name}": 1.9 if name == "attention" else 1.0 for name in lab.LAYERS},
    **{f"time, {name}": 1.9 if name == "attention" else 1.0 for name in lab.LAYERS},
    "memory, attention, reference": 2.0,
    "memory, attention, fast": 1.0,
    "memory, LSTM, reference": 1.0,
}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"time, attention": 1.1}, None),
        ({"time, LSTM": 1.6}, None),
        ({"attention itself": 1.5}, False),
        ({"operations, LSTM": 2.0}, False),
    ],
)
def test_rule(change: dict[str, float], holds: bool | None) -> None:
    answer, verdict = lab.judge(GOOD | change, {"operations, LSTM": 128.0, "time, LSTM": None})
    assert answer is holds
    assert "n = 128 in operations and nowhere measured in time" in verdict
