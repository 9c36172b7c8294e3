"""The course: every chapter runs as a script, its cells and links are in order, its exercises accept and explain."""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from harken.cli.app import app
from harken.errors import UserError
from harken.inspection import Picture
from harken.inspection.figure import Bars, Figure, Group
from harken.learn import EXERCISES, Chapter, chapters, check, read_answer, show

ROOT = Path(__file__).parent.parent.parent
CHAPTERS = chapters()
TRAIN_LONGER = (2, 5, 6, 8)  # about 20 seconds of an idle core
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.path.stem)


def test_chapters_are_numbered_without_a_gap() -> None:
    assert [chapter.number for chapter in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))
    assert all(chapter.title.startswith(f"{chapter.number}. ") for chapter in CHAPTERS)
    assert {chapter.path.resolve().parent for chapter in CHAPTERS} == {ROOT / "docs" / "learn"}


@pytest.mark.parametrize(
    "chapter",
    [pytest.param(one, marks=pytest.mark.slow) if one.number in TRAIN_LONGER else one for one in CHAPTERS],
    ids=lambda chapter: chapter.path.stem,
)
def test_a_chapter_runs_from_top_to_bottom(chapter: Chapter, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-W", "error::DeprecationWarning:harken", str(chapter.path.resolve())]
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Put your answer") == sum("check(" in cell.source for cell in chapter.cells[2:])
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@each_chapter
def test_cells_have_names_and_code_that_compiles(chapter: Chapter) -> None:
    names = [cell.name for cell in chapter.cells]
    assert len(set(names)) == len(names)
    for cell in chapter.cells:
        assert cell.source.strip(), cell.name
        if not cell.is_text:
            compile(cell.source, cell.name, "exec")
    text = chapter.path.read_text()
    assert text.startswith("# %% title [markdown]\n")
    assert text.count("# %%") == len(names)  # no cell is lost for its marker
    kinds = {cell.is_text for cell in chapter.cells}
    assert kinds == {True, False}


@each_chapter
def test_links_lead_to_files_and_the_end_names_the_source(chapter: Chapter) -> None:
    links = [
        (cell.name, link)
        for cell in chapter.cells
        if cell.is_text
        for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", cell.source)
    ]
    for _, link in links:
        assert link.startswith("https:") or (ROOT / "docs" / "learn" / link).resolve().exists(), link
    assert any(name == chapter.cells[-1].name and "/src/harken/" in link for name, link in links)


@each_chapter
def test_a_chapter_has_every_part(chapter: Chapter) -> None:
    text = "\n".join(cell.source for cell in chapter.cells)
    assert "**Predict.**" in text and "show(" in text and "assert " in text and "```text" in text
    assert re.findall(r'check\("(ex\d+\w)"', text) == [
        name for name in EXERCISES if name.startswith(f"ex{chapter.number}")
    ]


def test_every_exercise_belongs_to_a_chapter() -> None:
    assert {int(re.fullmatch(r"ex(\d+)[a-z]", name)[1]) for name in EXERCISES} == {one.number for one in CHAPTERS}  # type: ignore[index]


@pytest.mark.parametrize("name", EXERCISES)
def test_the_right_answer_is_accepted_and_explained(name: str) -> None:
    exercise = EXERCISES[name]
    verdict = check(name, exercise.right)
    assert verdict.right and str(verdict) == f"Right. {exercise.because}"


@pytest.mark.parametrize(("name", "hint"), [(name, hint) for name, one in EXERCISES.items() for hint in one.mistakes])
def test_a_known_mistake_gets_its_hint(name: str, hint: str) -> None:
    verdict = check(name, EXERCISES[name].mistakes[hint])
    assert not verdict.right and str(verdict) == f"Not yet. {hint}"


NUMERIC = [name for name, exercise in EXERCISES.items() if not exercise.inputs]
FUNCTIONS = [name for name, exercise in EXERCISES.items() if exercise.inputs]


@pytest.mark.parametrize("name", NUMERIC)
def test_other_numbers_get_the_clue(name: str) -> None:
    exercise = EXERCISES[name]
    away = (torch.as_tensor(exercise.right) * 1.37 + 1.234).tolist()
    assert check(name, away).message == exercise.clue


@pytest.mark.parametrize("name", NUMERIC)
def test_answers_that_are_no_numbers_are_named(name: str) -> None:
    assert "has to come out as numbers, but 'many'" in check(name, "many").message
    assert "shape (5, 1)" in check(name, [[1], [2], [3], [4], [5]]).message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_fail_are_named(name: str) -> None:
    assert "give its name without parentheses" in check(name, 3.0).message
    assert "ZeroDivisionError" in check(name, lambda *_: 1 / 0).message


def test_rounded_answers_count_and_whole_numbers_are_exact() -> None:
    assert check("ex1a", 1.41).right and not check("ex1a", 1.5).right
    assert check("ex1a", torch.tensor(1.414)).right
    assert not check("ex1b", 2_500_001).right


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ex1a", "2 ** 0.5", 2**0.5),
        ("ex1b", "-(3 - 5) / 4", 0.5),
        ("ex1c", "exp(log(4))", 4),
        ("ex3c", "[.6, -1]", [0.6, -1]),
    ],
)
def test_written_answers_are_computed(name: str, text: str, value: Any) -> None:
    assert torch.as_tensor(read_answer(name, text)).tolist() == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "", "many", "1 +", "__import__('os')", "open('x')", "(1).real", "[1 for x in 2]", "9e99 ** 9e99", "1 / 0",
        "'a' * 3", "lambda: 1", "exp(1, 2)", "x", "1 if 2 else 3", "(" * 400, "exp", "1" * 600,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused_and_never_executed(text: str) -> None:
    with pytest.raises(UserError, match=r"cannot be read.*; write a number"):
        read_answer("ex1a", text)


def test_an_overflow_is_named() -> None:
    with pytest.raises(UserError, match=r"^'9\*\*9\*\*9' cannot be read \(Numerical result out of range\); write"):
        read_answer("ex1a", "9**9**9")


def test_a_formula_of_wrong_shapes_or_names_is_refused() -> None:
    with pytest.raises(UserError, match="write a formula of x, h, W_xh, W_hh, b; you may use"):
        read_answer("ex2a", "W_xh @ h + q")
    with pytest.raises(UserError, match=r"cannot be read \("):
        read_answer("ex2a", "W_xh @ h")


def test_a_chapter_becomes_a_page_with_outputs_and_pictures(tmp_path: Path) -> None:
    path = tmp_path / "9-tiny.py"
    path.write_text(
        "# %% title [markdown]\n# # 9. Tiny\n#\n# Text.\n\n# %% sum\nx = 2 + 3\nprint(x)\n"
        "print('done')\n\n# %% picture\n"
        "from harken.inspection.figure import Bars, Figure, Group\nfrom harken.learn import show\nprint('before')\n"
        "show(Figure('Weights', [Bars('', '', '', ['a'], [Group('', [x])])]))\nprint('after')\n"
    )
    page = Chapter.read(path).to_markdown(tmp_path / "pages")
    assert page.startswith("# 9. Tiny\n\nText.\n\n```python\nx = 2 + 3\n")
    assert "```text\n5\ndone\n```" in page
    assert "```text\nbefore\n```\n\n![Weights](9-tiny-picture-1.svg)\n\n```text\nafter\n```\n" in page
    assert "<svg" in (tmp_path / "pages" / "9-tiny-picture-1.svg").read_text()
    assert [file.name for file in (tmp_path / "pages").iterdir()] == ["9-tiny-picture-1.svg"]


def test_no_answer_and_no_such_exercise() -> None:
    assert not check("ex1a", ...).right
    with pytest.raises(UserError, match="did you mean 'ex1a'"):
        check("ex1aa", 1)


def test_notebooks_have_the_cells_of_the_script(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["learn", "--out", str(tmp_path / "new"), "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert [row["title"] for row in rows] == [chapter.title for chapter in CHAPTERS]
    for row, chapter in zip(rows, CHAPTERS, strict=True):
        notebook = json.loads(Path(row["path"]).read_text())
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        assert [cell["id"] for cell in notebook["cells"]] == [cell.name for cell in chapter.cells]
        for cell, written in zip(chapter.cells, notebook["cells"], strict=True):
            text = "".join(written["source"])
            assert "](../" not in text and ".py)" not in text if cell.is_text else text == cell.source
            required = {"cell_type", "id", "metadata", "source"} | (
                set() if cell.is_text else {"outputs", "execution_count"}
            )
            assert set(written) - {"attachments"} == required
            for name in re.findall(r"!\[[^\]]*\]\(attachment:([^)]*)\)", text):
                assert b64decode(written["attachments"][name]["image/png"]).startswith(b"\x89PNG")
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", written["id"])
        assert not re.search(r"!\[[^\]]*\]\((?!attachment:)", json.dumps(notebook))
        assert notebook["cells"][0]["source"][0] == f"# {chapter.title}\n"


def test_pictures_are_drawn_in_a_notebook_and_printed_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure("Weights", [Bars("", "", "", ["a", "b"], [Group("", [1, 2])])])
    monkeypatch.setitem(sys.modules, "IPython", None)
    show(figure)
    assert "Weights" in capsys.readouterr().out
    drawn: list[Picture] = []
    notebook = SimpleNamespace(get_ipython=lambda: object(), display=SimpleNamespace(display=drawn.append))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    show(figure)
    assert capsys.readouterr().out == ""
    monkeypatch.undo()  # matplotlib looks at IPython too
    assert [one._repr_html_().startswith('<img alt="Weights" src="data:') for one in drawn] == [True]


def test_the_list_names_every_chapter() -> None:
    done = CliRunner().invoke(app, ["learn"])
    assert [line.split(": ")[0] for line in done.output.splitlines()] == [chapter.title for chapter in CHAPTERS]
