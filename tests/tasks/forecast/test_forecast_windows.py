"""Cutting by time and windows: nothing of a later part is seen or counted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from harken.data.series.series import Layout, Series, read_series
from harken.errors import UserError
from harken.tasks.forecast.job import prepare_series
from harken.tasks.forecast.recipe import ForecastDataConfig, ForecastRecipe
from harken.tasks.forecast.windows import Cut, Transform, Windows, cut, origins_of
from harken.training.task import batch_loss


def series(values: np.ndarray, name: str = "y") -> Series:
    empty = np.zeros((len(values), 0))
    return Series(name, np.asarray(values, dtype=np.float64), empty, empty)


def test_parts_lie_one_after_the_other() -> None:
    data = ForecastDataConfig(corpus="seasons", valid_size=0.2, test_size=3)
    assert cut(series(np.arange(30)), data) == Cut(21, 27, 30)
    with pytest.raises(UserError, match="8 rows, of which 3 are left to train on, but at least 6 are needed"):
        cut(series(np.arange(8)), data)


def test_windows_hold_the_past_and_count_their_part_alone() -> None:
    made = [series(np.arange(10)), series(np.arange(100, 108), "z")]
    cuts = [Cut(6, 8, 10), Cut(4, 6, 8)]
    windows = Windows(made, Transform(log=False), origins_of(made, cuts, "train", 2, 3), window=3, horizon=3)
    assert windows.origin.tolist() == [2, 3, 4, 5, 2, 3]
    batch = windows.batch(np.array([0, 3, 5]))
    assert batch.lengths.tolist() == [2, 3, 3]
    assert batch.past[:, :, 0].tolist() == [[0, 1, 0], [2, 3, 4], [100, 101, 102]]
    assert batch.counted.tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert batch.truth[0].tolist() == [2, 3, 4]
    assert batch.truth[1][0] == 5 and batch.truth[2][0] == 103


def test_the_future_of_a_part_changes_no_gradient(tmp_path: Path) -> None:
    recipe = ForecastRecipe.model_validate(
        {
            "data": {"corpus": "seasons", "window": 8, "horizon": 3, "season": 4, "valid_size": 8, "test_size": 8},
            "model": {"architecture": "recurrent", "width": 4, "dropout": 0.0},
            "train": {"max_steps": 1},
        }
    )
    values = 5 + np.random.default_rng(0).random(40)
    other = values.copy()
    other[24:] = 50.0  # the validation and the test part
    gradients = []
    for number, one in enumerate((values, other)):
        torch.manual_seed(0)
        task = prepare_series(recipe, [series(one)], tmp_path / str(number)).task
        for examples in task.epoch(0):
            batch_loss(task, examples).backward()
        gradients.append([value.grad for value in task.model.parameters() if value.requires_grad])
    assert all(torch.equal(first, second) for first, second in zip(*gradients, strict=True))


def test_filled_values_are_read_but_count_nothing_and_no_origin_follows_one() -> None:
    filled = np.isin(np.arange(10), [3, 4, 7])
    gapped = replace(series(np.arange(10)), filled=filled)
    origins = origins_of([gapped], [Cut(10, 10, 10)], "train", 2, 2)
    assert [origin for _, origin, _ in origins] == [2, 6, 7, 9]  # at 3 there is nothing to forecast
    windows = Windows([gapped], Transform(log=False), origins, window=3, horizon=3)
    batch = windows.batch(np.arange(len(windows)))
    assert batch.counted[0].tolist() == [1, 0, 0] and batch.counted[1].tolist() == [1, 0, 1]
    assert windows.steps.tolist() == batch.counted.sum(1).tolist()
    assert batch.past[1, :, 0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("fill", ["previous", "linear", "seasonal"])
def test_a_marker_after_a_gap_at_the_end_of_training_reaches_nothing_that_is_learnt(tmp_path: Path, fill: str) -> None:
    recipe = ForecastRecipe.model_validate(
        {
            "data": {"corpus": "seasons", "window": 8, "horizon": 3, "season": 4, "valid_size": 8, "test_size": 8},
            "model": {"architecture": "recurrent", "width": 4, "dropout": 0.0},
            "train": {"max_steps": 1},
        }
    )
    values: list[float | None] = [*(5 + np.random.default_rng(0).random(40))]
    values[20:25] = [None] * 5  # the training part ends at row 24
    learnt = []
    for number, marker in enumerate((6.0, 1e6)):
        table = {"y": [*values[:25], marker, *values[26:]]}
        torch.manual_seed(0)
        [gapped] = read_series(table, Layout(fill=fill, season=4))
        task = prepare_series(recipe, [gapped], tmp_path / str(number)).task
        start = {name: value.clone() for name, value in task.model.state_dict().items()}
        for examples in task.epoch(0):
            batch_loss(task, examples).backward()
        gradients = [value.grad for value in task.model.parameters() if value.requires_grad]
        learnt.append((task.transform.log, task.scales, task.steps, start, gradients))
    (first, second) = learnt
    assert first[0] == second[0] and all(np.array_equal(first[at], second[at]) for at in (1, 2))
    assert all(torch.equal(first[3][name], second[3][name]) for name in first[3])
    assert all(map(torch.equal, first[4], second[4]))


def test_the_training_part_alone_chooses_the_transform(tmp_path: Path) -> None:
    recipe = ForecastRecipe.model_validate(
        {
            "data": {"corpus": "seasons", "window": 8, "horizon": 3, "valid_size": 8, "test_size": 8},
            "model": {"architecture": "recurrent", "width": 4, "dropout": 0.0},
            "train": {"max_steps": 1},
        }
    )
    values = np.arange(40.0) + 1
    values[35] = -1
    with pytest.raises(
        UserError, match=r"values of 0 or below; fix them, or train without: --set data\.transform=none"
    ):
        prepare_series(recipe, [series(values)], tmp_path)
    values[3] = 0
    assert not prepare_series(recipe, [series(values)], tmp_path).task.transform.log


def test_logarithms_only_of_what_has_them() -> None:
    positive, mixed = series(np.array([1.0, 2.0])), series(np.array([1.0, 0.0]), "rain")
    assert Transform.choose([positive], "auto").log
    assert not Transform.choose([positive, mixed], "auto").log
    with pytest.raises(UserError, match=r'data.transform is "log", but rain has values of 0 or below'):
        Transform.choose([mixed], "log")
    there = Transform(log=True)
    assert np.allclose(there.undo(there.apply(np.array([3.0, 7.0]))), [3.0, 7.0])
