"""Every verb refuses a model of another job, and says which verb it is for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.cli.common import use_of
from harken.recipe import load_recipe
from harken.tasks.registry import JOBS

ARGUMENTS = {
    "answer": ["-"],
    "caption": ["a.png"],
    "classify": ["-"],
    "forecast": [],
    "generate": ["-"],
    "regress": ["-"],
    "tag": ["-"],
    "transcribe": ["a.wav"],
    "write": ["a text"],
}


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_translator_is_for_translate_alone(api: Any, run: Callable[..., Any], model: Path, verb: str) -> None:
    done = run(verb, model, *ARGUMENTS[verb], stdin="a line\n")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "was trained for the task 'translate'" in done.stderr
    assert done.stderr.endswith(f"use harken translate {model}\n")


def test_a_classifier_does_not_translate(
    api: Any, run: Callable[..., Any], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = api.load(model)
    fake.recipe = load_recipe("opinions-classify")
    monkeypatch.setattr(api, "load", lambda folder: fake)
    done = run("translate", model, stdin="a line\n")
    assert done.exit_code == 2
    assert done.stderr.endswith(f"use harken classify {model} examples\n")


@pytest.mark.parametrize("task", JOBS)
def test_the_use_of_every_job_is_a_verb_that_exists(run: Callable[..., Any], task: str) -> None:
    words = use_of(task, Path("runs/a model")).split("'runs/a model'")
    assert len(words) == 2
    program, verb = words[0].split()
    assert program == "harken"
    assert run(verb, "--help").exit_code == 0
