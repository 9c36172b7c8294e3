"""Paths in recipes: relative to the recipe, found by their type, and reported with their key."""

import shutil
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli_w
from pydantic import BaseModel

import harken
from harken.errors import UserError
from harken.paths import RecipePath, map_paths, paths_in
from harken.recipe import as_recipe, load_recipe, require_paths
from harken.registry import JOBS, recipe_class

FOLDERS = Path(__file__).parents[1] / "folders"
RECIPE = """
[data]
source = "data/a.en"
target = "data/a.fr"
[data.test]
source = "data/b.en"
target = "data/b.fr"
[model]
architecture = "transformer"
[train]
max_steps = 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe in a folder of its own, the files beside it, and another working directory."""
    home = tmp_path / "project"
    (home / "data").mkdir(parents=True)
    for name in ("a.en", "a.fr", "b.en", "b.fr"):
        (home / "data" / name).write_text("one two\n" * 20)
    (home / "my.toml").write_text(RECIPE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return home


def test_paths_are_relative_to_the_recipe(project: Path) -> None:
    recipe = load_recipe(project / "my.toml")
    assert recipe.data.source == str(project / "data" / "a.en")
    assert recipe.data.test["test"].target == str(project / "data" / "b.fr")
    assert recipe.written_paths["data.test.target"] == "data/b.fr"
    assert recipe.path_notes == []
    assert load_recipe(Path("../project/my.toml")) == recipe


def test_a_path_that_is_only_in_the_working_directory_is_found_with_a_note(project: Path) -> None:
    (project / "data").rename(Path("data"))
    recipe = load_recipe(project / "my.toml")
    assert recipe.data.source == str(Path.cwd() / "data" / "a.en")
    assert len(recipe.path_notes) == 4
    assert recipe.path_notes[0] == (
        f'data.source = "data/a.en" was found in the working directory, but paths are relative to {project}/my.toml; '
        'write "../elsewhere/data/a.en"'
    )


def test_the_file_beside_the_recipe_comes_first(project: Path) -> None:
    Path("data").mkdir()
    Path("data/a.en").write_text("another\n")
    assert load_recipe(project / "my.toml").data.source == str(project / "data" / "a.en")


def test_an_override_is_relative_to_the_working_directory(project: Path) -> None:
    Path("mine.en").write_text("one\n")
    recipe = load_recipe(project / "my.toml", ["data.source=mine.en", "data.test.source=other.en"])
    assert recipe.data.source == str(Path.cwd() / "mine.en")
    assert recipe.data.test["test"].source == str(Path.cwd() / "other.en")
    assert recipe.data.target == str(project / "data" / "a.fr")
    assert recipe.path_notes == []


def test_a_missing_path_is_reported_with_its_key(project: Path) -> None:
    (project / "data" / "b.fr").rename(project / "data" / "b.fr.gz")
    with pytest.raises(UserError) as caught:
        require_paths(load_recipe(project / "my.toml"))
    assert str(caught.value) == (
        f"data.test.target is {project}/data/b.fr in {project}/my.toml, which does not exist: did you mean b.fr.gz or "
        "a.fr?"
    )


def test_files_in_a_folder_stay_relative_to_it(project: Path) -> None:
    (project / "tag.toml").write_text(
        'task = "tag"\n[data]\ndir = "data"\ntrain = ["a.conllu", "b.conllu"]\n'
        '[model]\narchitecture = "recurrent"\n[train]\nmax_steps = 1\n'
    )
    recipe = load_recipe(project / "tag.toml")
    assert recipe.data.dir == str(project / "data")
    assert recipe.data.train == ["a.conllu", "b.conllu"]
    with pytest.raises(UserError, match=r"data\.train\[0\] is .*/project/data/a\.conllu in .*, which does not exist"):
        require_paths(recipe)


def test_a_folder_of_a_moved_model_is_read_from_anywhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(project / "my.toml")
    (project / "moved").mkdir()
    (project / "moved" / "recipe.toml").write_text(recipe.to_toml())
    monkeypatch.chdir("/")
    assert load_recipe(project / "moved" / "recipe.toml") == recipe


@pytest.fixture
def strange_folder(project: Path) -> Path:
    """A copy of a model folder, whose recipe somebody else writes, beside files that it may not name."""
    (project / "secret.tsv").write_text("cat\tlapin\n")
    return Path(shutil.copytree(FOLDERS / "transformer", project / "strange"))


def add_to_recipe(folder: Path, section: str, **values: str) -> None:
    text = (folder / "recipe.toml").read_text()
    lines = "".join(f'{name} = "{value}"\n' for name, value in values.items())
    (folder / "recipe.toml").write_text(text.replace(f"[{section}]\n", f"[{section}]\n{lines}"))


@pytest.mark.parametrize("written", ["absolute", "../secret.tsv", "link.tsv"])
@pytest.mark.parametrize("key", ["glossary", "rerank", "language_model"])
def test_a_model_folder_names_no_file_outside_of_it(strange_folder: Path, written: str, key: str) -> None:
    secret = strange_folder.parent / "secret.tsv"
    (strange_folder / "link.tsv").symlink_to(secret)
    add_to_recipe(strange_folder, "search", **{key: str(secret) if written == "absolute" else written})
    with pytest.warns(UserWarning, match=rf"search\.{key} of .*strange/recipe\.toml is .*outside of that folder"):
        model = harken.load(strange_folder, device="cpu")
    assert "lapin" not in model.translate("the black cat sleeps").text
    if key == "glossary":
        assert "lapin" in model.translate("the black cat sleeps", glossary=secret).text


def test_a_model_folder_may_name_a_glossary_in_it(strange_folder: Path) -> None:
    (strange_folder / "terms.tsv").write_text("cat\tlapin\n")
    add_to_recipe(strange_folder, "search", glossary="terms.tsv")
    assert "lapin" in harken.load(strange_folder, device="cpu").translate("the black cat sleeps").text


def test_loading_a_model_folder_reads_no_other(strange_folder: Path) -> None:
    sections = tomllib.loads((strange_folder / "recipe.toml").read_text())
    del sections["tokenizer"]
    sections["adapt"] = {"start": "."}
    (strange_folder / "recipe.toml").write_text(tomli_w.dumps(sections))
    model = harken.load(strange_folder, device="cpu")  # and no recursion, as the folder is its own start
    assert model.recipe.adapt.start == str(strange_folder)


def test_a_recipe_object_is_relative_to_the_working_directory(project: Path) -> None:
    kind = recipe_class("translate")
    values: dict[str, Any] = {"data": {"source": "x", "target": "y"}, "model": {"architecture": "transformer"}}
    recipe = as_recipe(kind.model_validate({**values, "train": {"max_steps": 1}}))
    assert recipe.data.source == str(Path.cwd() / "x")
    assert as_recipe(recipe) is recipe


@pytest.mark.parametrize("value", ["own", "a table in memory 0123456789ab", ""])
def test_words_that_are_no_path_stay(value: str) -> None:
    recipe = load_recipe("opinions-classify", [f"embeddings.words={value!r}"])
    assert recipe.embeddings.words == value


def test_an_unknown_user_is_reported_with_the_key() -> None:
    with pytest.raises(UserError, match=r"^data\.source: ~nosuchuser/a names a user that does not exist"):
        load_recipe("multi30k-transformer", ["data.source=~nosuchuser/a", "data.target=b"])


def test_every_job_has_its_paths_marked() -> None:
    """A field whose description speaks of a file or folder to read has a path type, in every recipe."""
    for job in JOBS:
        unmarked = [key for key, marked in fields_of(recipe_class(job)) if not marked]
        assert unmarked == [], job


def fields_of(table: type[BaseModel], prefix: str = "", seen: tuple[type, ...] = ()) -> list[tuple[str, bool]]:
    """(key, whether it is marked) of the fields with a name that paths have."""
    names = {"dir", "file", "files", "table", "images", "elmo", "start", "words"}
    found = []
    for name, field in table.model_fields.items():
        key = f"{prefix}{name}"
        if name in names and "str" in str(field.annotation):
            found.append((key, "RecipePath" in str((field.annotation, field.metadata))))
        for inner in models_in(field.annotation):
            if inner not in seen:
                found += fields_of(inner, f"{key}.", (*seen, inner))
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in models_in(part)]


def test_mapping_paths_changes_nothing_else() -> None:
    recipe = load_recipe("phrasebook-transformer")
    assert list(paths_in(recipe)) == []
    assert map_paths(recipe, lambda place: "x") is recipe
    assert RecipePath(words=("own",)) != RecipePath()
