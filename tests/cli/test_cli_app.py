"""The command as a whole: help, version, exit codes."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from harken.cli.app import app
from harken.cli.exits import guarded
from harken.errors import UserError

VERBS = ("train", "check", "recipes", "translate", "evaluate", "attention", "lab", "demo")


def harken(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harken", *arguments], capture_output=True, text=True, **options)


def test_help_is_quick_and_names_every_verb() -> None:
    spent = []
    for _ in range(3):
        before = os.times()
        done = harken("--help")
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert done.returncode == 0
    assert all(f" {verb} " in done.stdout for verb in VERBS)
    assert min(spent) < 1.5  # CPU seconds, about 0.4 where the CPU is not shared


def test_help_shows_names_in_brackets() -> None:
    def texts(command: Any) -> Iterator[str]:
        yield from (
            text for text in (command.help, *(getattr(option, "help", "") for option in command.params)) if text
        )
        for subcommand in getattr(command, "commands", {}).values():
            yield from texts(subcommand)

    written = list(texts(typer.main.get_command(app)))
    assert any("\\[data]" in text for text in written)
    assert [text for text in written if Text.from_markup(text).plain != text.replace("\\[", "[")] == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, harken.cli.app; "
        "print(sorted({'torch', 'numpy', 'pydantic', 'sacrebleu', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_teaches_by_example(run: Callable[..., Any], verb: str) -> None:
    done = run(verb, "--help")
    assert done.exit_code == 0
    assert f"harken {verb}" in done.output.split("Examples:")[1]


def test_version(run: Callable[..., Any]) -> None:
    done = run("--version")
    assert done.exit_code == 0
    assert done.output.startswith("harken ")


def test_usage_errors_exit_2() -> None:
    for arguments in (("chek",), ("train",), ("translate", "x", "--beam", "0"), ("translate", "x", "--nothing")):
        done = harken(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_a_users_mistake_is_one_sentence_and_exit_2() -> None:
    done = harken("check", "phrasebook-transformer", "--set", "model.wdith=3")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: model.wdith")
    assert done.stderr.count("\n") == 1


def test_debug_shows_where_a_users_mistake_was_found() -> None:
    done = harken("check", "nothing", env={**os.environ, "HARKEN_DEBUG": "1"})
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (UserError("x is wrong"), 2, "error: x is wrong\n"),
        (KeyboardInterrupt(), 130, "\nstopped\n"),
        (KeyboardInterrupt("go on"), 130, "\nstopped: go on\n"),
        (BrokenPipeError(), 0, ""),
        (
            PermissionError(errno.EACCES, "Permission denied", "runs/x"),
            2,
            "error: runs/x cannot be used (Permission denied); choose another place, or change its permissions\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "error: a file cannot be written (No space left on device); free some space and run the command again "
            "(harken train continues with --resume)\n",
        ),
        (typer.Exit(7), 7, ""),
    ],
)
def test_ways_to_end(raised: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def verb() -> None:
        raise raised

    with pytest.raises(typer.Exit) as caught:
        verb()
    assert caught.value.exit_code == code
    assert capsys.readouterr().err == said


def test_a_bug_exits_1_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def verb() -> None:
        raise ZeroDivisionError("oh")

    with pytest.raises(typer.Exit) as caught:
        verb()
    assert caught.value.exit_code == 1
    message = capsys.readouterr().err
    assert "Traceback" in message
    assert "report" in message.splitlines()[-1]


def test_a_closed_pipe_is_quiet() -> None:
    command = f"'{sys.executable}' -m harken recipes phrasebook-transformer | (sleep 1; exit 0)"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=240)  # it does not hang
    assert done.stderr == ""


def test_shells_complete_verbs_recipes_and_experiments() -> None:
    def completed(words: str) -> list[str]:
        asked = {"_HARKEN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        code = "from harken.cli.app import app; app(prog_name='harken')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked})
        return done.stdout.split()

    assert completed("harken tra") == ["train", "translate", "transcribe"]
    assert completed("harken train phrasebook-lad") == ["phrasebook-ladder"]
    assert completed("harken lab why") == ["why-attention"]
