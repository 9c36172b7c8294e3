"""A trained forecaster: what it gives, that folders hold all of it, that runs go on, and mistakes."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.data.synthetic.seasons import make_seasons
from harken.inspection import gates, gradient_flow
from harken.recipe import load_recipe
from harken.tasks.forecast.forecaster import Forecaster
from harken.tasks.forecast.job import JOB

SMALL = [
    *("data.series=2", "data.size=120", "data.window=21", "data.horizon=7", "data.valid_size=20", "data.test_size=20"),
    *("model.width=8", "model.embedding=8", "train.max_steps=40", "train.validate_every=20", "train.workers=1"),
    *(
        "train.batch_tokens=600",
        "train.device=cpu",
        "train.precision=float32",
        "train.threads=1",
        "train.checkpoint_every=10",
    ),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model on made series in `made`, one on a file without covariates in `sales`."""
    folder = tmp_path_factory.mktemp("forecast")
    harken.train("seasons-forecast", folder / "made", overrides=SMALL, progress=False)
    time = np.arange(60)
    sales = 100 + time + 20 * np.sin(2 * np.pi * time / 12)
    months = [f"{2000 + month // 12}-{month % 12 + 1:02}" for month in range(60)]
    rows = [f"{month},{value:.3f}\n" for month, value in zip(months, sales, strict=True)]
    (folder / "sales.csv").write_text("month,sales\n" + "".join(rows))
    words = [f"data.train={folder}/sales.csv", "train.max_steps=80", "model.width=8", "model.members=2"]
    harken.train("series-forecast", folder / "sales", overrides=words, progress=False)
    return folder


def test_a_loaded_folder_is_the_trained_model(home: Path, tmp_path: Path) -> None:
    trained = harken.train("seasons-forecast", tmp_path / "again", overrides=SMALL, progress=False)
    loaded = harken.load(home / "made")
    for one, other in zip(trained.forecast_all(at="test"), loaded.forecast_all(at="test"), strict=True):
        assert np.array_equal(one.values, other.values)
    files = {path.name for path in (home / "made").iterdir()}
    assert {"model.safetensors", "recipe.toml", "series.json", "card.md"} <= files


def test_a_run_that_was_stopped_ends_as_one_that_was_not(home: Path, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("seasons-forecast", SMALL, at=23, whole=home / "made")


def test_the_season_is_learnt(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.tasks.forecast.scoring.REFITTED", 0)  # to fit at every origin takes its time
    model = harken.load(home / "sales")
    scores = JOB.evaluate(model, "test", [], lambda done: None)
    assert scores["MASE exponential smoothing"] < 1
    assert scores["MASE"] < 0.5 * scores["MASE seasonal naive"]
    assert scores.count == 12 and scores.unit == "origins"
    assert scores.metrics[0].low <= scores["MASE"] <= scores.metrics[0].high
    assert "<svg" in scores.pictures["forecast"].to_svg()


def test_gaps_are_shown_filled_and_not_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = [datetime(2023, 1, 1) + timedelta(days=day) for day in range(200) if day not in (*range(50, 60), 190, 191)]
    rows = [
        f"{shop},{day:%d/%m/%Y},{'' if (number, shop) == (7, 'b') else 10 + number % 7}\n"
        for shop in "ab"
        for number, day in enumerate(days if shop == "a" else days[40:])
    ]
    (tmp_path / "shops.csv").write_text("shop,day,sold\n" + "".join(rows))
    words = [f"data.train={tmp_path}/shops.csv", "data.group=shop", "data.date_column=day", "data.season=7"]
    words += ["data.window=21", "data.horizon=7", *SMALL[8:]]
    model = harken.train("series-forecast", tmp_path / "run", overrides=words)
    line = (
        "daily from 2023-01-01 to 2023-07-19 (dates read as day first); 24 missing dates filled (linear), 1 missing "
        "value filled (linear)"
    )
    assert line in capsys.readouterr().out
    card = (tmp_path / "run" / "card.md").read_text()
    assert f"| steps | {line} |" in card and "| other simple forecasts | naive " in card
    scores = JOB.evaluate(model, "test", [], lambda done: None)
    assert scores.notes[0] == "4 values of the test part were missing and filled (linear); they are not scored"
    by_series = scores.details["by_series"]
    assert set(by_series) == {"a", "b"} and by_series["a"]["MASE seasonal naive"] > 0
    assert {"MASE naive", "MASE drift", "MASE mean"} <= {metric.name for metric in scores.metrics}
    low, high = sorted(row["MASE"] for row in by_series.values())
    assert low <= scores["MASE"] <= high


def test_the_rule_for_gaps_has_an_older_name() -> None:
    with pytest.warns(FutureWarning, match=r"data\.missing is now called data\.fill"):
        data = load_recipe("series-forecast", ["data.train=x.csv", "data.missing=forward"]).data
    assert data.fill == "previous" and data.layout.fill == "previous"


def test_forecasts_of_numbers_of_files_and_of_its_own_series(home: Path) -> None:
    model: Forecaster = harken.load(home / "sales")
    own = model.forecast(at="test")
    assert own.dates[0] == "2004-01-01" and own.truth is not None
    assert len(own) == 6 and (np.diff(own.values, axis=1) >= 0).all()
    values = np.loadtxt(home / "sales.csv", delimiter=",", skiprows=1, usecols=1)
    bare = model.forecast(values[:48])
    assert np.allclose(bare.values, own.values)
    ahead = model.forecast(str(home / "sales.csv"), steps=9)
    assert ahead.dates[0] == "2005-01-01" and len(ahead) == 9 and ahead.truth is None
    assert np.allclose(ahead.values, model.forecast(at="end", steps=9).values)
    table = {"month": ["2010-01", "2010-02", "2010-03"], "sales": [5.0, 6.0, 7.0]}
    assert model.forecast(table).dates[0] == "2010-04-01"  # a past shorter than the window


def test_a_batch_gives_what_one_series_gives(home: Path) -> None:
    model: Forecaster = harken.load(home / "sales")
    values = np.loadtxt(home / "sales.csv", delimiter=",", skiprows=1, usecols=1)
    found = model.model(**model.batch([values[:40], values[10:50]])).detach().exp().numpy()
    assert np.allclose(found[0], model.forecast(values[:40]).values, rtol=1e-4)


def test_what_is_known_ahead_matters(home: Path) -> None:
    model: Forecaster = harken.load(home / "made")
    [first, _] = model.forecast_all(at="test")
    assert first.name == "shop 1" and first.truth is not None
    with pytest.raises(harken.UserError, match="7 of 7 steps have no covariates"):
        model.forecast_all(at="end")
    none = model.forecast_all(at="end", covariates=np.zeros((7, 1)))[0]
    sale = model.forecast_all(at="end", covariates=np.ones((7, 1)))[0]
    assert not np.allclose(none.values, sale.values)
    [series] = make_seasons(1, 40)
    assert np.isfinite(model.forecast_at(series, 30).values).all()


def test_inspection_works(home: Path) -> None:
    model: Forecaster = harken.load(home / "sales")
    values = np.loadtxt(home / "sales.csv", delimiter=",", skiprows=1, usecols=1)
    assert gates(model, [values])[0].values["update"].shape == (36, 8)
    assert len(gradient_flow(model, [values])) == 2
    shown = CliRunner().invoke(app, ["inspect", str(home / "sales"), "--gates", "sales", "--json"])
    assert json.loads(shown.stdout)["layers"][0]["words"][-1] == "2003-12-01"
    flows = CliRunner().invoke(app, ["inspect", str(home / "made"), "--gradients", "--json"])
    assert json.loads(flows.stdout)["sentences"] >= 16
    with pytest.raises(harken.UserError, match="nothing is neither a file nor a series of the model"):
        model.attention_figure("nothing")
    picture = model.attention_figure("sales")
    assert picture.shade.shape == (48,) and abs(picture.shade.sum() - 1) < 1e-5
    assert picture.shade[:12].sum() == 0  # before the window
    assert "▒" in picture.to_terminal(80, color=False)


def test_the_verb(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.tasks.forecast.scoring.is_available", lambda: False)
    run = CliRunner()
    plain = run.invoke(app, ["forecast", str(home / "sales"), "--steps", "2", "--out", str(home / "fan.svg")])
    assert plain.exit_code == 0, plain.output
    lines = plain.stdout.splitlines()
    assert lines[0] == "step,date,forecast,q0.1,q0.9" and lines[1].startswith("1,2005-01-01,")
    held_out = run.invoke(app, ["forecast", str(home / "sales"), "--steps", "2", "--test"])
    assert held_out.stdout.splitlines()[1].startswith("1,2004-01-01,")
    assert "quantiles 0.1 to 0.9" in (home / "fan.svg").read_text()
    several = run.invoke(app, ["forecast", str(home / "made")])
    assert several.stdout.splitlines()[0].startswith("series,step,date")
    assert len(several.stdout.splitlines()) == 15
    assert "the held-out part is forecast (--test)" in several.stderr
    rows = run.invoke(app, ["forecast", str(home / "made"), "--json", "--series", "shop 2"])
    assert json.loads(rows.stdout)["series"] == "shop 2"
    evaluated = run.invoke(app, ["evaluate", str(home / "sales"), "--json"])
    report = json.loads(evaluated.stdout)
    assert report["MASE"] > 0 and "MASE exponential smoothing" not in report
    printed = run.invoke(app, ["evaluate", str(home / "sales")]).stdout
    assert 'needs statsmodels, which is not installed; pip install "harken[forecast]"' in printed


@pytest.mark.parametrize(
    ("past", "sentence"),
    [
        ([], "give one or more finite numbers"),
        ([1.0, float("nan")], "give one or more finite numbers"),
        (["a"], "the past is neither numbers nor a table"),
        ([-1.0, 2.0], "the model works with logarithms"),
        ("nowhere.csv", "nowhere.csv does not exist|cannot be read|no such"),
    ],
)
def test_mistakes_get_one_sentence(home: Path, past: Any, sentence: str) -> None:
    model: Forecaster = harken.load(home / "sales")
    with pytest.raises(harken.UserError, match=sentence) as problem:
        model.forecast(past)
    assert "\n" not in str(problem.value)


def test_several_series_are_asked_together(home: Path) -> None:
    with pytest.raises(harken.UserError, match="there are 2 series; ask with forecast_all"):
        harken.load(home / "made").forecast(at="test")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["model.base=seasonal", "data.season=1"], "needs a season of 2 or more"),
        (["model.base=last", "model.residual=false"], "the network would change nothing"),
        (["model.quantiles=[0.9, 0.5]"], "give numbers between 0 and 1 that rise"),
        (["data.train=x.csv"], "data.corpus and data.train are both given"),
        (["data.windw=3"], "did you mean data.window"),
    ],
)
def test_recipes_are_checked(words: list[str], sentence: str) -> None:
    with pytest.raises(harken.UserError, match=sentence):
        load_recipe("seasons-forecast", words)


def test_a_recipe_without_data_says_what_to_add() -> None:
    with pytest.raises(harken.UserError, match=r"add --set data.train=FILE"):
        load_recipe("series-forecast")


@pytest.mark.parametrize(
    "words",
    [
        ["model.strategy=recursive", "model.base=last"],
        ["model.architecture=transformer", "model.base=none", "model.quantiles=[0.5]"],
    ],
)
def test_other_forms_train(words: list[str], tmp_path: Path) -> None:
    small = [word for word in SMALL if not ("transformer" in words[0] and "embedding" in word)]
    extra = ["train.max_steps=2", "train.validate_every=2"]
    text = (Path(harken.__file__).parent / "recipes" / "forecast" / "seasons-forecast.toml").read_text()
    if "transformer" in words[0]:
        text = text.replace('cell = "gru"', "").replace("embedding = 48", "")
    (tmp_path / "r.toml").write_text(text)
    model = harken.train(tmp_path / "r.toml", tmp_path / "run", overrides=[*small, *words, *extra], progress=False)
    assert np.isfinite(model.forecast_all(at="test")[0].values).all() and len(model.forecast_all(at="test")[0]) == 7


def test_check_needs_no_training() -> None:
    found = harken.check("seasons-forecast", measure=False)
    assert "8 series, 3,200 rows" in found.corpus and found.parameters > 10_000


def set_in(stored: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        stored = stored[key]
    stored[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("series",), []),
        (("channels",), 10**23),
        (("known",), 2),
        (("log",), "x"),
        (("series", 0, "target", 3), float("nan")),
        (("series", 0, "target", 3), {"a": {}}),
        (("series", 0, "known"), [[]]),
        (("series", 0, "held_out"), 10**6),
        (("series", 0, "dates", 1), "x"),
        (("series", 0, "name"), 3),
    ],
)
def test_a_damaged_series_file_is_refused_in_one_sentence(
    path: tuple[Any, ...], value: Any, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "made", tmp_path / "model")
    file = tmp_path / "model" / "series.json"
    stored = json.loads(file.read_text())
    set_in(stored, path, value)
    file.write_text(json.dumps(stored))
    (tmp_path / "model" / "digests.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(harken.UserError, match=r"series\.json is missing or damaged, so the model cannot be used"):
        harken.load(tmp_path / "model")


def test_an_unknown_part_is_refused(home: Path) -> None:
    with pytest.raises(harken.UserError, match="seasons has no split 'exam'; choose --split train or valid or test"):
        JOB.evaluate(harken.load(home / "made"), "exam", [], lambda done: None)
