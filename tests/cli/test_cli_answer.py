"""`harken answer`: stories in, answers out."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harken.data.text.questions import Question
from harken.tasks.answer.answerer import Answer


class LastWord:
    """Answers with the last word of the newest fact."""

    recipe = SimpleNamespace(task="answer")

    def answer_all(self, questions: Sequence[Question], progress: Any = None) -> list[Answer]:
        return [
            Answer(one.facts[-1].strip(".").split()[-1], 0.5, one.facts, one.question, np.ones((2, len(one.facts))) / 2)
            for one in questions
        ]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    api: Any = ModuleType("harken.api")
    api.load = lambda folder: LastWord()
    monkeypatch.setitem(sys.modules, "harken.api", api)
    return tmp_path


def test_every_question_is_answered_from_the_lines_before_it(answering: Path, run: Callable[..., Any]) -> None:
    told = answering / "story.txt"
    told.write_text(
        "Anna went home.\nWhere is Anna?\nAnna went to bed.\nWhere now?\n\nBen ran to town.\nWhere is Ben?\n"
    )
    done = run("answer", answering, told)
    assert (done.exit_code, done.stdout) == (0, "home\nbed\ntown\n"), done.stderr
    lines = [json.loads(line) for line in run("answer", answering, told, "--json").stdout.splitlines()]
    assert [line["facts"] for line in lines] == [
        ["Anna went home."],
        ["Anna went home.", "Anna went to bed."],
        ["Ben ran to town."],
    ]
    assert lines[1]["hops"] == [[0.5, 0.5], [0.5, 0.5]] and lines[1]["question"] == "Where now?"


def test_one_question_may_be_an_option(answering: Path, run: Callable[..., Any]) -> None:
    told = answering / "story.txt"
    told.write_text("Anna went home.\n\nAnna ran to town.\n")
    assert run("answer", answering, told, "--question", "Where is Anna?").stdout == "town\n"
    done = run("answer", answering, told)
    assert done.exit_code == 2 and "there is no question: end a line with ?" in done.stderr


def test_another_model_is_refused(answering: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastWord, "recipe", SimpleNamespace(task="translate"))
    told = answering / "story.txt"
    told.write_text("Anna went home.\n")
    done = run("answer", answering, told)
    assert done.exit_code == 2 and "was trained for the task 'translate'" in done.stderr
