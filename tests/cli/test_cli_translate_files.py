"""`harken translate --out` and `--resume`: whatever a kill leaves, the continued file equals an uninterrupted one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.cli.progress import counting, line_progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks" / "translate"))
from test_translator import ENGLISH, write_model

LINES = [f"{first} {second}".strip() for first in [*ENGLISH, ""] for second in [*ENGLISH, "", "yes"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("files") / "model", "attention")


@pytest.fixture(autouse=True)
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")  # nothing is compiled here


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def interrupt(out: Path, content: bytes) -> None:
    """The state that a kill leaves: some bytes, and a record of an unfinished job."""
    out.write_bytes(content)
    sidecar = out.with_name(f".{out.name}.resume.json")
    sidecar.write_text(sidecar.read_text().replace('"complete": true', '"complete": false'))


@pytest.mark.parametrize("arguments", [("--scores",), ("--nbest", 3), ("--json",)])
def test_a_file_cut_anywhere_is_continued_to_the_same_bytes(
    run: Callable[..., Any], folder: Path, source: Path, tmp_path: Path, arguments: tuple[Any, ...]
) -> None:
    out = tmp_path / "out.fr"
    command = ("translate", folder, source, "--beam", 3, *arguments)
    assert run(*command, "--out", out).stdout == ""
    whole = out.read_bytes()
    assert whole.decode() == run(*command).stdout
    for share in (0.0, 0.3, 0.71, 1.0):
        interrupt(out, whole[: int(share * len(whole))])
        done = run(*command, "--resume", out)
        assert done.exit_code == 0, done.stderr
        assert ("Continuing" in done.stderr) == (share > 0)
        assert out.read_bytes() == whole
    assert "is complete" in run(*command, "--resume", out).stderr
    assert out.read_bytes() == whole


def test_a_new_output_begins_with_resume_too(
    run: Callable[..., Any], folder: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out.fr"
    assert run("translate", folder, source, "--resume", out, "--beam", 1).exit_code == 0
    assert len(out.read_text().splitlines()) == len(LINES)
    assert sorted(path.name for path in out.parent.iterdir()) == [".out.fr.resume.json", "out.fr"]


def test_an_output_of_another_job_is_left_alone(
    run: Callable[..., Any], folder: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.fr"
    command = ("translate", folder, source, "--beam", 1)
    run(*command, "--out", out)
    whole = out.read_bytes()
    interrupt(out, whole[:100])
    for other, said in (
        (("translate", folder, source, "--beam", 2), "other options (beam)"),
        (("translate", folder, source, "--beam", 1, "--length-penalty", 0.5), "other options (length_penalty)"),
    ):
        refused = run(*other, "--resume", out)
        assert refused.exit_code == 2 and said in refused.stderr
    source.write_text(source.read_text() + "yes\n")
    assert "was begun with another input" in run(*command, "--resume", out).stderr
    unfinished = run(*command, "--out", out)
    assert unfinished.exit_code == 2 and f"continue it with --resume {out}" in unfinished.stderr
    assert out.read_bytes() == whole[:100]
    out.with_name(".out.fr.resume.json").unlink()
    assert "it is not known what it was made of" in run(*command, "--resume", out).stderr
    assert run(*command, "--out", out).exit_code == 0  # a file that is no unfinished output is replaced
    assert len(out.read_text().splitlines()) == len(LINES) + 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "o", "--resume", "o"), "keep one of them"),
        (("--out", "o", "--alignments", "l"), "--json has the links"),
        (("--out", "o", "--stream"), "--stream prints plain text"),
        (("--out", "/dev/null"), "is a device or a pipe"),
        (("--out", "in.en"), "is the input itself"),
        (("--out", "o", "--weights", "a"), "write them like 2,1,1"),
        (("--out", "o", "--temperature", "0.5"), "search.sample"),
    ],
)
def test_options_that_do_not_fit(
    run: Callable[..., Any],
    folder: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("translate", folder, source, *arguments)
    assert done.exit_code == 2 and said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en"]  # nothing was begun


def test_stdin_cannot_be_resumed(run: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    done = run("translate", folder, "--resume", tmp_path / "o", stdin="yes\n")
    assert done.exit_code == 2 and "name a file" in done.stderr


def test_long_lines_do_not_end_the_job(run: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.en"
    source.write_text("yes\n" + "the cat sleeps. " * 600 + "\nyes\n")
    done = run("translate", folder, source, "--beam", 1, "--long-lines", "copy")
    assert done.exit_code == 0
    first, second, third = done.stdout.splitlines()
    assert second == "the cat sleeps. " * 600 and first == third
    assert "line 2 has " in done.stderr and done.stderr.rstrip().endswith("at once: copied")


def test_a_killed_job_is_continued(run: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    source, out, whole = tmp_path / "in.en", tmp_path / "out.fr", tmp_path / "whole.fr"
    source.write_text("".join(f"{line}\n" for line in LINES * 10), encoding="utf-8")
    command = ["translate", folder, source, "--beam", 4, "--scores"]
    code = "from harken.cli import main; main()"
    arguments = [sys.executable, "-c", code, *map(str, command), "--out", str(out)]
    with subprocess.Popen(arguments, env={**os.environ, "HARKEN_KERNELS": "off"}) as process:
        while process.poll() is None and not (out.exists() and out.read_bytes().count(b"\n") > 20):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    record = json.loads((tmp_path / ".out.fr.resume.json").read_text())
    assert record["complete"] is False
    assert run(*command, "--resume", out).exit_code == 0
    assert run(*command, "--out", whole).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_pipe_is_answered_line_by_line(folder: Path) -> None:
    code = "from harken.cli import main; main()"
    arguments = [sys.executable, "-c", code, "translate", str(folder), "--beam", "1"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        answers = []
        for line in ENGLISH[:3]:  # the next line is sent only after the answer to the one before
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.wait() == 0
    assert all(answer.endswith(b"\n") for answer in answers)


def test_a_progress_bar_leaves_stdout_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    before = sys.stdout
    with line_progress(True, 100) as tick, counting("lines") as count:
        tick("a line", False)
        tick("a line", True)
        count(1)
        assert sys.stdout is before
