"""The axes of a sweep: lists, ranges, what is refused, and the names of settings."""

import math

import pytest

from harken.errors import UserError
from harken.sweeps.space import axes_of, draw, grid, name_of, parse_axis
from harken.sweeps.trials import rungs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model.cell", "must have the form section.key=value"),
        ("=lstm", "must have the form section.key=value"),
        ("model.cell=lstm,", "has an empty value"),
        ("model.cell=", "has an empty value"),
        ("model.cell=lstm,lstm", "has a value twice"),
        ("train.learning_rate=1e-2..1e-3", "is an empty range"),
        ("train.learning_rate=0..1:log", "has no logarithm"),
    ],
)
def test_a_wrong_axis_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        parse_axis(text)


def test_paths_and_brackets_are_no_ranges() -> None:
    assert parse_axis("data.train=../texts/a.txt").values == ("../texts/a.txt",)
    assert parse_axis("model.channels=[8, 8],[16, 16]").values == ("[8, 8]", "[16, 16]")
    assert parse_axis("model={architecture = 'recurrent', cell = 'gru'}").values == (
        "{architecture = 'recurrent', cell = 'gru'}",
    )


def test_a_grid_is_every_combination() -> None:
    axes = [parse_axis(text) for text in ("model.cell=rnn,lstm,gru", "model.width=8,16")]
    settings = grid(axes)
    assert len(settings) == 6 and len({tuple(setting.items()) for setting in settings}) == 6
    assert grid([]) == [{}]
    with pytest.raises(UserError, match=r"the grid has 1,000,000 settings; .* --trials N"):
        grid([parse_axis(f"a.{key}={','.join(map(str, range(100)))}") for key in "xyz"])


def test_draws_are_seeded_and_a_longer_sample_begins_with_a_shorter_one() -> None:
    axes = [parse_axis("train.learning_rate=1e-4..1e-1:log"), parse_axis("model.width=8..64"), parse_axis("a.b=x,y")]
    drawn = draw(axes, 200, seed=1)
    assert drawn[:5] == draw(axes, 5, seed=1) != draw(axes, 5, seed=2)
    rates = [float(setting["train.learning_rate"]) for setting in drawn]
    assert all(1e-4 <= rate <= 1e-1 for rate in rates)
    assert 0.4 < sum(rate < math.sqrt(1e-4 * 1e-1) for rate in rates) / 200 < 0.6  # log-uniform
    assert {type(int(setting["model.width"])) for setting in drawn} == {int}
    assert len(draw([parse_axis("a.b=x,y")], 10, seed=1)) == 2  # each once


def test_names_of_settings_are_names_of_folders() -> None:
    assert name_of({"model.cell": '"gru"'}) == "cell=gru"
    first, second = (name_of({"data.train": f"/texts/{name}.txt"}) for name in ("a b", "a-b"))
    assert first != second and "/" not in first + second and " " not in first
    assert len(name_of({"data.train": "x" * 500})) <= 100
    assert axes_of({"train.clip_norm": [None, 1.0], "train.compile": False}) == [
        "train.clip_norm=none,1.0",
        "train.compile=false",
    ]


def test_rungs_of_halving() -> None:
    assert rungs(2, halving=True) == [(1.0, 2)]
    assert rungs(12, halving=True) == [(pytest.approx(1 / 9), 12), (pytest.approx(1 / 3), 4), (1.0, 1)]
