"""The studio's own recurrent model: trained once, offered where no other model is recurrent."""

from pathlib import Path
from typing import Any

import pytest

from harken.errors import UserError
from harken.studio import example
from harken.studio.library import Library, describe_model

SMALL = ("train.max_steps=2", "train.log_every=1", "data.size=200", "model.width=8")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the model in an empty cache, with settings that take a second."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(example, "SETTINGS", (*example.SETTINGS, *SMALL))
    return example.example_folder()


def test_it_is_trained_once_and_a_stopped_training_starts_over(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text('task = "classify"\n')  # of a process that was killed
    events: list[dict[str, Any]] = []
    example.train_example(events.append)
    assert example.is_trained() and "update 1 of 600, loss 0." in events[0]["say"] and 0 < events[0]["done"] < 1
    before = (folder / "model.safetensors").stat().st_mtime_ns
    events.clear()
    example.train_example(events.append)
    assert events == [] and (folder / "model.safetensors").stat().st_mtime_ns == before


def test_it_is_offered_where_no_model_is_recurrent(folder: Path, runs: Path) -> None:
    alone, beside = Library({"transformer": runs / "transformer"}), Library(root=runs)
    assert [model["name"] for model in alone.with_example()] == ["transformer"]
    with pytest.raises(UserError, match="no run 'small-lstm'"):
        alone.folder("small-lstm")
    example.train_example(lambda event: None)
    assert [model["name"] for model in alone.with_example()] == ["transformer", "small-lstm"]
    assert [model["name"] for model in alone.models()] == ["transformer"] and list(alone.folders()) == ["transformer"]
    assert alone.open("small-lstm").task == "classify"
    assert "small-lstm" not in [model["name"] for model in beside.with_example()]


def test_models_of_signals_and_series_read_no_text(tmp_path: Path) -> None:
    """Gates are shown above the words of a text, so these models are not offered there."""
    recipes = {
        "series": 'task = "forecast"\n[data]\ncorpus = "seasons"\n',
        "signals": 'task = "classify"\n[data]\nkind = "signal"\n',
        "reviews": 'task = "classify"\n[data]\ntrain = "a.tsv"\n',
    }
    described = {}
    for name, recipe in recipes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(f'{recipe}[model]\narchitecture = "recurrent"\n')
        described[name] = describe_model(name, tmp_path / name)
    assert all(model["recurrent"] for model in described.values())
    assert [name for name, model in described.items() if model["reads_text"]] == ["reviews"]


def test_a_cache_folder_that_cannot_be_written_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "harken").write_text("a file")
    with pytest.raises(UserError, match="harken"):
        example.train_example(lambda event: None)


@pytest.mark.slow
def test_it_learns_to_label_reviews(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(example, "SETTINGS", (*example.SETTINGS, "train.max_minutes=none"))  # on a busy machine too
    example.train_example(lambda event: None)
    model = Library().open("small-lstm").model
    labels = {"the film was good": "positive", "the film was not good": "negative"}
    assert model.predict(list(labels)) == list(labels.values())
    size = sum(path.stat().st_size for path in example.example_folder().iterdir())
    assert size < 1_000_000
