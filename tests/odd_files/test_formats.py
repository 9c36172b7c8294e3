"""Files of other formats: each is read right by the shortest command, or refused with the command that reads it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import harken
from harken.errors import UserError
from harken.recipe.infer import infer, is_data, recipe_file

from .case import Case
from .cases_formats import CASES, RECIPE, Refused, Trains


def created(case: Case, folder: Path) -> Path:
    if case.needs:
        pytest.importorskip(case.needs)
    return case.create(folder)


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case.expect, Trains)], ids=str)
def test_the_shortest_command_reads_it(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    recipe, note, _ = recipe_file(path, tmp_path / "runs" / "mine.toml", ["train.max_steps=5"])
    report = harken.check(recipe, measure=False)
    assert report.recipe.task == case.expect.task
    if isinstance(case.expect.examples, str):
        assert case.expect.examples in report.corpus
    else:
        counts = re.findall(r"(\d+) (?:training|for validation|in test)", report.corpus)
        assert sum(map(int, counts)) == case.expect.examples, report.corpus
    inferred = infer(path)
    assert {key: inferred.data.get(key) for key in case.expect.data} == case.expect.data
    assert note.startswith(f"{path}: {inferred.reason}")


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case.expect, Refused)], ids=str)
def test_one_sentence_says_what_to_do(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    with pytest.raises(UserError) as caught:
        recipe_file(path, tmp_path / "runs" / "mine.toml")
    message = str(caught.value)
    assert all(part in message for part in case.expect.parts) and str(path) in message and "\n" not in message, message
    assert not (tmp_path / "runs" / "mine.toml").exists()
    if command := re.search(r"(?:run|for example): (.*)", message):
        assert shlex.split(command[1])[0] and "harken train " in command[1] and " --out runs/" in command[1]


def test_there_are_enough_cases() -> None:
    assert len({case.title for case in CASES}) == len(CASES) >= 25


def test_a_recipe_with_another_ending_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_text(RECIPE)
    assert not is_data(str(tmp_path / "my.txt"))
    assert (
        harken.check(tmp_path / "my.txt", ["train.max_steps=1", "data.size=100"], measure=False).recipe.task
        == "classify"
    )
