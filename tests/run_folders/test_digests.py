"""Files of a model folder that were edited or replaced are noticed by everything that opens the folder."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.errors import UserError
from harken.tasks.averaging import average_models

TRANSLATOR, CLASSIFIER = "phrasebook-transformer", "opinions-classify"
DIGESTS = "digests.json"


@pytest.fixture
def copy_of(tiny_model: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda recipe: Path(shutil.copytree(tiny_model(recipe), tmp_path / recipe))


def resume(folder: Path, *overrides: str) -> Any:
    return harken.train(folder / "recipe.toml", folder, overrides=overrides, progress=False, resume=True)


def swap_entries(path: Path) -> None:
    """Give two words or labels each other's ids; the list keeps its length, so every shape still fits."""
    content = json.loads(path.read_text(encoding="utf-8"))
    entries = content["tokens"] if isinstance(content, dict) else content
    entries[0], entries[1] = entries[1], entries[0]
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("recipe", "name"), [(TRANSLATOR, "target.json"), (CLASSIFIER, "tokenizer.json"), (CLASSIFIER, "labels.json")]
)
def test_an_edited_vocabulary_is_noticed(copy_of: Callable[[str], Path], recipe: str, name: str) -> None:
    folder = copy_of(recipe)
    swap_entries(folder / name)
    sentence = rf"{name} changed since the model was trained .*; restore the file or copy the folder again"
    with pytest.raises(UserError, match=sentence):
        harken.load(folder, "cpu")
    with pytest.raises(UserError, match=sentence):
        resume(folder, "train.max_steps=4")
    with pytest.raises(UserError, match=sentence):
        average_models([folder, folder], folder.with_name("mean"))


def test_a_missing_vocabulary_is_named(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(TRANSLATOR)
    (folder / "source.json").unlink()
    with pytest.raises(UserError, match=r"source\.json is missing .* copy the folder again"):
        harken.load(folder, "cpu")


def test_an_edited_network_is_noticed_where_all_shapes_still_fit(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(TRANSLATOR)
    replace(folder / "recipe.toml", "\nheads = 2\n", "\nheads = 4\n")
    with pytest.raises(UserError, match=r"recipe\.toml \[model\] changed since .*; undo the change or copy"):
        harken.load(folder, "cpu")
    with pytest.raises(UserError, match=r"recipe\.toml \[model\] changed since"):
        resume(folder, "train.max_steps=4")


def test_settings_of_use_may_be_edited(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(TRANSLATOR)
    replace(folder / "recipe.toml", "\nbeam = 5\n", "\nbeam = 2\n")
    replace(folder / "recipe.toml", "\nalignment_shift = false\n", "\nalignment_shift = true\n")
    for name in ("card.md", "metrics.jsonl"):
        (folder / name).write_text("notes of a reader")
    assert harken.load(folder, "cpu").recipe.search.beam == 2


def test_a_folder_without_digests_is_not_checked(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(TRANSLATOR)
    (folder / DIGESTS).unlink()
    swap_entries(folder / "target.json")
    assert harken.load(folder, "cpu").translate("the cat", beam=1)


def test_resuming_records_digests_again(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of(TRANSLATOR)
    recorded = json.loads((folder / DIGESTS).read_text())
    assert recorded["harken"] == harken.__version__
    assert sorted(recorded["files"]) == [
        *("recipe.toml [model]", "recipe.toml [tokenizer]", "recipe.toml task", "source.json", "target.json")
    ]
    (folder / DIGESTS).unlink()
    resume(folder, "train.max_steps=4")
    assert json.loads((folder / DIGESTS).read_text()) == recorded


def test_an_average_is_checked_like_its_first_model(copy_of: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy_of(CLASSIFIER)
    average_models([folder, folder], tmp_path / "mean")
    swap_entries(tmp_path / "mean" / "labels.json")
    with pytest.raises(UserError, match=r"labels\.json changed since"):
        harken.load(tmp_path / "mean", "cpu")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": 3}', '{"files": {"a": 1}}', "[" * 20_000])
def test_damaged_digests_are_one_sentence(copy_of: Callable[[str], Path], content: str) -> None:
    folder = copy_of(CLASSIFIER)
    (folder / DIGESTS).write_text(content)
    with pytest.raises(UserError, match=r"digests\.json is damaged|a is missing"):
        harken.load(folder, "cpu")
