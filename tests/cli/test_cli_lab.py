"""`harken lab`: list, one experiment, all of them, and what goes wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.inspection.figure import Bars, Figure, Group
from harken.lab import registry
from harken.lab.experiment import Experiment, Findings, Progress, Settings


def made(name: str, result: bool | BaseException | None) -> Experiment:
    def run(settings: Settings, progress: Progress) -> Findings:
        progress(0.5, "half")
        if isinstance(result, BaseException):
            raise result
        figure = Figure(name, [Bars("", "", "share", ["a"], [Group("", [0.5])])])
        return Findings(["seed", "share"], [[settings.seed, 0.5]], result, "half of 1", figure, {"share": 0.5})

    return Experiment(name, f"what {name} says", f"what {name} shows", run)


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> dict[str, Experiment]:
    found = {one.name: one for one in (made("good", True), made("bad", False), made("mixed", None))}
    monkeypatch.setattr(registry, "experiment_names", lambda: list(found))
    monkeypatch.setattr(registry, "find_experiment", found.__getitem__)
    return found


def test_list_says_what_each_shows(run: Callable[..., Any], experiments: dict[str, Experiment]) -> None:
    lines = run("lab", "list").stdout.splitlines()
    assert lines[0].split("\t") == ["good", "", "what good shows"] and len(lines) == 3
    assert run("lab").stdout == run("lab", "list").stdout
    assert json.loads(run("lab", "list", "--json").stdout)[1]["statement"] == "what bad says"


def test_one_experiment(run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path) -> None:
    done = run("lab", "bad", "--out", tmp_path / "new", "--seed", 7, "--png", "--html")
    assert done.exit_code == 0, done.output
    assert "seed\tshare\n7\t0.5\n" in done.stdout
    assert "does not hold: half of 1\n" in done.stdout
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["bad.html", "bad.json", "bad.png", "bad.svg"]
    kept = json.loads((tmp_path / "new" / "bad.json").read_text())
    assert (kept["holds"], kept["settings"]["seed"], kept["measured"]) == (False, 7, {"share": 0.5})


def test_json_is_all_there_is_on_stdout(
    run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path
) -> None:
    found = json.loads(run("lab", "good", "--json", "--out", tmp_path).stdout)
    assert found["holds"] is True and found["rows"] == [[1, 0.5]]


def test_all_ends_with_a_summary(run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path) -> None:
    done = run("lab", "all", "--out", tmp_path, "--quick", "--html")
    assert done.exit_code == 0
    assert (tmp_path / "lab.html").read_text().count("<section") == 3
    last = [line.split("\t") for line in done.stdout.splitlines()[-3:]]
    assert [row[:2] for row in last] == [
        ["good", "holds"], ["bad", "does not hold"], ["mixed", "holds in part"],
    ]  # fmt: skip
    assert len(list(tmp_path.glob("*.svg"))) == 3


def test_one_that_breaks_does_not_silence_the_others(
    run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path
) -> None:
    experiments["bad"] = made("bad", ZeroDivisionError("oh"))
    done = run("lab", "all", "--out", tmp_path)
    assert done.exit_code == 1
    assert "ZeroDivisionError: oh" in done.stderr and "bad\tfailed\t" in done.stdout
    assert (tmp_path / "mixed.json").is_file()


def test_ctrl_c_says_what_was_kept(run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path) -> None:
    experiments["mixed"] = made("mixed", KeyboardInterrupt())
    done = run("lab", "all", "--out", tmp_path)
    assert done.exit_code == 130
    assert "good, bad" in done.stderr and "Traceback" not in done.stderr
    assert run("lab", "mixed", "--out", tmp_path).exit_code == 130


def test_an_unknown_name_is_one_sentence(run: Callable[..., Any]) -> None:
    done = run("lab", "vanshing")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: There is no experiment 'vanshing'; did you mean 'vanishing'?")


def test_a_folder_that_cannot_be_written(
    run: Callable[..., Any], experiments: dict[str, Experiment], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = run("lab", "good", "--out", tmp_path / "file")
    assert done.exit_code == 2 and "cannot be used (File exists)" in done.stderr


def test_a_sentence_is_for_the_lesson_alone(run: Callable[..., Any], tmp_path: Path) -> None:
    done = run("lab", "vanishing", "--sentence", "the cat", "--out", tmp_path)
    assert done.exit_code == 2 and "--sentence is for why-attention" in done.stderr
    done = run("lab", "why-attention", "--sentence", " ", "--out", tmp_path)
    assert done.exit_code == 2 and "--sentence is empty" in done.stderr


def test_sizes_seeds_and_stability_are_passed_on(run: Callable[..., Any], tmp_path: Path) -> None:
    options = ["--quick", "--set", "hidden=5", "--seeds", 2, "--stability", 2]
    done = run("lab", "vanishing", *options, "--out", tmp_path)
    assert done.exit_code == 0 and "theorem: below 1 the gradient vanishes" in done.stdout
    assert "Over 2 runs: " in done.stdout
    kept = json.loads((tmp_path / "vanishing.json").read_text())
    assert kept["settings"]["sizes"] == {"seeds": 2, "hidden": 5} and len(kept["answers"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["vanishing", "--set", "hiden=5"], "vanishing has no size 'hiden'"),
        (["vanishing", "--set", "hidden"], "--set takes a size and a whole number"),
        (["vanishing", "--set", "hidden=0"], "a size is at least 1"),
        (["cell-memory", "--seeds", "3"], "cell-memory has no size 'seeds'"),
        (["all", "--set", "nothing=1"], "No experiment has a size 'nothing'"),
    ],
)
def test_wrong_sizes_are_one_sentence(
    run: Callable[..., Any], tmp_path: Path, options: list[str], message: str
) -> None:
    done = run("lab", *options, "--out", tmp_path / "out")
    assert done.exit_code == 2 and message in done.stderr
    assert not (tmp_path / "out").exists()
