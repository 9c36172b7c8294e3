"""The rules of the experiments on recurrent networks can go each way, and their measurements are right."""

import math

import pytest
import torch

from harken.lab.claims import cell_memory, clipping, deep_stacks, gru, long_memory, vanishing
from harken.lab.helpers import adding, echo, recall


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_gradients_without_input_go_as_the_power_of_the_singular_value() -> None:
    found = vanishing.gradient_lengths("quiet", 0.8, hidden=6, rows=2, updates=0, seed=1)
    assert found["largest"] == 0.8 and found["lengths"] == pytest.approx(
        [0.8**distance for distance in range(51)], rel=1e-9
    )


def test_tanh_only_makes_gradients_shorter() -> None:
    lengths = vanishing.gradient_lengths("driven", 1.2, hidden=6, rows=2, updates=0, seed=1)["lengths"]
    assert all(length <= 1.2**distance * (1 + 1e-9) for distance, length in enumerate(lengths))
    assert lengths[-1] < 0.1 * 1.2**50


@pytest.mark.parametrize(
    ("below", "above", "holds"), [(0.01, 100.0, True), (0.5, 100.0, False), (0.01, 1.0, False), (0.01, None, None)]
)
def test_vanishing_rule(below: float, above: float | None, holds: bool | None) -> None:
    found = {way: {0.9: below, 1.0: 1.0, 1.1: above or 100.0} for way in vanishing.NETWORKS}
    if above is None:  # trained networks do not explode
        found["trained"][1.1] = 1.0
    assert vanishing.judge(found)[0] is holds


def test_a_trained_network_is_measured_after_training() -> None:
    before, after = (
        vanishing.gradient_lengths("trained", 0.9, hidden=8, rows=8, updates=updates, seed=1) for updates in (1, 60)
    )
    assert before["largest"] == pytest.approx(0.9, abs=0.05)
    assert after["largest"] > before["largest"] + 0.05  # training makes the weights larger ...
    assert after["lengths"] != before["lengths"]
    assert all(length <= after["largest"] ** at * (1 + 1e-6) for at, length in enumerate(after["lengths"]))


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
    assert clipping.judge(lengths, failed)[0] is holds


def test_a_run_that_broke_off_ends_nowhere() -> None:
    assert clipping.ending({"losses": [1.0, math.nan], "lengths": [1.0, math.nan]}, 3) == math.inf
    assert clipping.ending({"losses": [1.0, 1.0], "lengths": [1.0, math.inf]}, 2) == math.inf
    assert clipping.ending({"losses": [1.0, 3.0], "lengths": [1.0, 1.0]}, 2) == 2.0


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
    kinds = long_memory.KINDS
    named = (dict(zip(kinds, reaches, strict=True)) for reaches in (alone, mixed))
    assert long_memory.judge(*named, longest=140, far=1000)[0] is holds


@pytest.mark.parametrize(("strays", "reach"), [(0, 100), (4, 100), (5, 50), (10, 50)])
def test_the_reach_is_that_of_most_seeds(strays: int, reach: int) -> None:
    clear, short = dict.fromkeys((30, 50, 100), 1.0), {30: 1.0, 50: 1.0, 100: 0.4}
    assert long_memory.reach([short] * strays + [clear] * (10 - strays)) == reach


def test_a_cell_behind_shut_gates_keeps_its_bits_and_behind_others_does_not() -> None:
    kept = cell_memory.kept_bits(300, seed=1)
    assert len(kept) == 5 and all(found["fast"] and found["reference"] for found in kept.values())
    layer = cell_memory.keeper(3, torch.full((3,), 6.0))
    state = (torch.zeros(1, 1, 3), torch.ones(1, 1, 3))
    cell = layer(torch.randn(1, 300, 4), state)[1][1]
    assert cell.max() < 0.9  # the same layer with its gates ajar


def test_cell_memory_rule() -> None:
    equal, other = {"fast": True, "reference": True}, {"fast": True, "reference": False}
    lives = {1.0: cell_memory.predicted_half_life(1.0), 10.0: math.nan}
    assert cell_memory.judge({"plain": equal, "coupled": equal}, lives, 10)[0] is True
    assert cell_memory.judge({"plain": equal, "coupled": other}, lives, 10)[0] is None
    assert cell_memory.judge({"plain": other}, lives, 10)[0] is False
    assert cell_memory.judge({"plain": equal}, {1.0: 3.0}, 10)[0] is None  # not the half-life it should have


@pytest.mark.parametrize(
    ("size", "end", "needed", "holds"),
    [
        (75, 1.0, 90, True),
        (75, 1.0, math.inf, None),  # as well, not faster
        (75, 1.0, 97, None),  # faster by less than the margin
        (75, 5.0, 90, None),  # faster, not as well
        (75, 5.0, 110, False),
        (110, 1.0, 90, False),
    ],
)
def test_gru_rule(size: int, end: float, needed: float, holds: bool | None) -> None:
    lstm, other, _ = gru.KINDS
    ends, updates = {"t": {lstm: 1.0, other: end}}, {"t": {lstm: 100, other: needed}}
    found = gru.judge({lstm: 100, other: size}, ends, updates, {"t": 2})
    assert found[0] is holds


def test_equal_sizes_are_equal() -> None:
    task = gru.Task(7, 2, lambda g: (torch.zeros(1), torch.zeros(1)), lambda made, wanted: made, 0.0, 0)
    sizes = {kind: gru.train(task, kind, width=64, seed=1)["parameters"] for kind in gru.KINDS}
    assert sizes["GRU, equal width"] * 4 == sizes["LSTM"] * 3
    assert sizes["GRU, equal size"] == pytest.approx(sizes["LSTM"], rel=0.02)


@pytest.mark.parametrize(
    ("plain", "dense", "holds"),
    [((1.0, 2.0), (1.0, 0.5), True), ((1.0, 0.9), (1.0, 0.5), None), ((1.0, 2.0), (1.0, 2.0), None)],
)
def test_deep_stacks_rule(plain: tuple[float, float], dense: tuple[float, float], holds: bool | None) -> None:
    good = {"plain": {2: 1.0, 16: 2.0}, "residual": {2: 1.0, 16: 0.5}, "dense": {2: 1.0, 16: 0.5}}
    tried = {**good, "plain": dict(zip((2, 16), plain, strict=True)), "dense": dict(zip((2, 16), dense, strict=True))}
    assert deep_stacks.judge({"LSTM": good, "RNN": tried})[0] is holds
    assert deep_stacks.judge({"RNN": tried})[0] is bool(holds)


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


def test_networks_of_the_lab_read_sequences_not_columns_of_the_batch() -> None:
    from harken.lab.claims.deep_stacks import make_stack

    for cell in ("LSTM", "vanilla RNN"):
        stack = make_stack(cell, "plain", 2)
        values = torch.randn(3, 7, stack.input_size)
        changed = values.clone()
        changed[0] += 1  # another row must not change this one
        assert torch.allclose(stack(values)[0][1], stack(changed)[0][1])


def test_the_gru_experiment_reads_sequences_too() -> None:
    from harken.lab.claims.gru import Network, Task

    task = Task(4, 2, lambda generator: (torch.zeros(1), torch.zeros(1)), torch.nn.functional.mse_loss, 0.1, 1)
    for kind in ("LSTM", "GRU, equal width"):
        network, values = Network(kind, 5, task), torch.randn(3, 7, 4)
        changed = values.clone()
        changed[0] += 1
        assert torch.allclose(network(values)[1], network(changed)[1])
