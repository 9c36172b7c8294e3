"""The rules behind C1 to C5 and C17 can go both ways, and what they are fed is measured rightly."""

import math

import pytest
import torch

from harken.lab.claims import cell_memory as c04_cell_memory
from harken.lab.claims import clipping as c02_clipping
from harken.lab.claims import deep_stacks as c17_deep_stacks
from harken.lab.claims import gru as c05_gru
from harken.lab.claims import long_memory as c03_long_memory
from harken.lab.claims import vanishing as c01_vanishing
from harken.lab.made_tasks import adding, echo, recall


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_gradients_without_input_go_as_the_power_of_the_singular_value() -> None:
    lengths = c01_vanishing.gradient_lengths("quiet", 0.8, hidden=6, rows=2, seed=1)
    assert lengths == pytest.approx([0.8**distance for distance in range(51)], rel=1e-9)


def test_tanh_only_makes_gradients_shorter() -> None:
    lengths = c01_vanishing.gradient_lengths("driven", 1.2, hidden=6, rows=2, seed=1)
    assert all(length <= 1.2**distance * (1 + 1e-9) for distance, length in enumerate(lengths))
    assert lengths[-1] < 0.1 * 1.2**50


@pytest.mark.parametrize(
    ("below", "above", "holds"), [(0.01, 100.0, True), (0.5, 100.0, False), (0.01, 1.0, False), (0.01, None, None)]
)
def test_vanishing_rule(below: float, above: float | None, holds: bool | None) -> None:
    found = {way: {0.9: below, 1.0: 1.0, 1.1: above or 100.0} for way in c01_vanishing.WAYS}
    if above is None:  # one way does not explode
        found["gaussian"][1.1] = 1.0
    assert c01_vanishing.judge(found)[0] is holds


@pytest.mark.parametrize(
    ("lengths", "failed", "holds"),
    [
        ({1.0: 1.0, 3.0: 50.0}, {1.0: (0.0, 0.0), 3.0: (1.0, 0.0)}, True),
        ({1.0: 1.0, 3.0: 50.0}, {1.0: (0.0, 0.0), 3.0: (1.0, 0.6)}, None),
        ({1.0: 1.0, 3.0: 50.0}, {1.0: (1.0, 0.0), 3.0: (0.0, 0.0)}, False),
        ({1.0: 1.0, 3.0: 2.0}, {1.0: (0.0, 0.0), 3.0: (1.0, 0.0)}, None),  # nothing exploded
    ],
)
def test_clipping_rule(lengths: dict, failed: dict, holds: bool | None) -> None:
    assert c02_clipping.judge(lengths, failed)[0] is holds


def test_a_run_that_broke_off_ends_nowhere() -> None:
    assert c02_clipping.ending({"losses": [1.0, math.nan], "lengths": [1.0, math.nan]}, 3) == math.inf
    assert c02_clipping.ending({"losses": [1.0, 1.0], "lengths": [1.0, math.inf]}, 2) == math.inf
    assert c02_clipping.ending({"losses": [1.0, 3.0], "lengths": [1.0, 1.0]}, 2) == 2.0


@pytest.mark.parametrize(
    ("alone", "mixed", "holds"),
    [
        ((7, 10, 100, 140), (5, 7, 200, 200), True),
        ((7, 100, 100, 140), (5, 7, 200, 200), None),  # an RNN that remembers
        ((7, 10, 30, 140), (5, 7, 200, 200), None),  # an LSTM that does not
        ((7, 10, 100, 140), (5, 500, 200, 200), None),
        ((50, 50, 100, 140), (5, 7, 200, 200), False),
        ((7, 10, 30, 30), (5, 7, 200, 200), False),
    ],
)
def test_long_memory_rule(alone: tuple[int, ...], mixed: tuple[int, ...], holds: bool | None) -> None:
    kinds = c03_long_memory.KINDS
    named = (dict(zip(kinds, reaches, strict=True)) for reaches in (alone, mixed))
    assert c03_long_memory.judge(*named, longest=140, far=1000)[0] is holds


def test_a_cell_behind_shut_gates_keeps_its_bits_and_behind_others_does_not() -> None:
    kept = c04_cell_memory.kept_bits(300, seed=1)
    assert len(kept) == 5 and all(found["quick"] and found["definition"] for found in kept.values())
    layer = c04_cell_memory.keeper(3, torch.full((3,), 6.0))
    state = (torch.zeros(1, 1, 3), torch.ones(1, 1, 3))
    cell = layer(torch.randn(1, 300, 4), state)[1][1]
    assert cell.max() < 0.9  # the same layer with its gates ajar


def test_cell_memory_rule() -> None:
    equal, other = {"quick": True, "definition": True}, {"quick": True, "definition": False}
    lives = {1.0: c04_cell_memory.predicted_half_life(1.0), 10.0: math.nan}
    assert c04_cell_memory.judge({"plain": equal, "coupled": equal}, lives, 10)[0] is True
    assert c04_cell_memory.judge({"plain": equal, "coupled": other}, lives, 10)[0] is None
    assert c04_cell_memory.judge({"plain": other}, lives, 10)[0] is False
    assert c04_cell_memory.judge({"plain": equal}, {1.0: 3.0}, 10)[0] is None  # not the half-life it should have


@pytest.mark.parametrize(
    ("size", "end", "needed", "holds"),
    [
        (75, 1.0, 90, True),
        (75, 1.0, math.inf, None),  # as well, not faster
        (75, 5.0, 90, None),  # faster, not as well
        (75, 5.0, 110, False),
        (110, 1.0, 90, False),
    ],
)
def test_gru_rule(size: int, end: float, needed: float, holds: bool | None) -> None:
    lstm, gru, _ = c05_gru.KINDS
    found = c05_gru.judge(
        {lstm: 100, gru: size}, {"t": {lstm: 1.0, gru: end}}, {"t": {lstm: 100, gru: needed}}, {"t": 2}
    )
    assert found[0] is holds


def test_equal_sizes_are_equal() -> None:
    task = c05_gru.Task(7, 2, lambda g: (torch.zeros(1), torch.zeros(1)), lambda made, wanted: made, 0.0, 0)
    sizes = {kind: c05_gru.train(task, kind, 1)["parameters"] for kind in c05_gru.KINDS}
    assert sizes["GRU, equal width"] * 4 == sizes["LSTM"] * 3
    assert sizes["GRU, equal size"] == pytest.approx(sizes["LSTM"], rel=0.02)


@pytest.mark.parametrize(
    ("plain", "dense", "holds"),
    [((1.0, 2.0), (1.0, 0.5), True), ((1.0, 0.9), (1.0, 0.5), None), ((1.0, 2.0), (1.0, 2.0), None)],
)
def test_deep_stacks_rule(plain: tuple[float, float], dense: tuple[float, float], holds: bool | None) -> None:
    good = {"plain": {2: 1.0, 16: 2.0}, "residual": {2: 1.0, 16: 0.5}, "dense": {2: 1.0, 16: 0.5}}
    tried = {**good, "plain": dict(zip((2, 16), plain, strict=True)), "dense": dict(zip((2, 16), dense, strict=True))}
    assert c17_deep_stacks.judge({"LSTM": good, "RNN": tried})[0] is holds
    assert c17_deep_stacks.judge({"RNN": tried})[0] is bool(holds)


def test_made_tasks_ask_what_they_say() -> None:
    values, wanted = recall(50, 6, 4, generator())
    steps = values.argmax(-1)
    assert torch.equal(steps[:, 0], wanted)
    assert ((steps[:, 1:-1] >= 4) & (steps[:, 1:-1] < 8)).all() and (steps[:, -1] == 8).all()

    values, sums = adding(50, 9, generator())
    assert (values[..., 1].sum(1) == 2).all() and (values[:, :4, 1].sum(1) == 1).all()
    assert torch.allclose((values[..., 0] * values[..., 1]).sum(1), sums[:, 0])

    values, said = echo(5, 10, 3, 4, generator())
    assert torch.equal(values.argmax(-1)[:, :7], said)
