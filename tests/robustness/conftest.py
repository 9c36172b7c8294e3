"""Run the command line in forked copies of this process, so that a case costs milliseconds, not an import of torch.

Each case runs in a child with a limit on time and memory, its standard streams in files. `Outcome.check` holds what is
promised for every input: exit code 0 or 2, one sentence on stderr, no traceback.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SECONDS = 120  # for one case; most take a few hundredths, the longest three on a quiet machine
MEMORY = 3 * 2**30  # bytes a case may take beyond what this process has


@dataclass
class Outcome:
    """How one command ended."""

    command: list[str]
    code: int
    stdout: str
    stderr: str

    def check(self, codes: Sequence[int] = (0, 2)) -> str | None:
        """What is wrong with it; None where all that is promised holds."""
        said = self.stderr[-600:]
        if self.code not in codes:
            return f"exit code {self.code}: {said}"
        if "Traceback" in self.stderr or "internal error" in self.stderr:
            return f"traceback: {said}"
        if self.code == 2 and not self.stderr.strip():
            return "exit code 2 without a word"
        if self.code == 2 and len(self.stderr) > 3000:
            return f"{len(self.stderr)} characters on stderr"
        if any(ord(letter) < 32 and letter not in "\n\t" for letter in self.stderr):
            return f"control characters on stderr: {said!r}"
        return None


class Forking:
    """Runs `harken` commands in forked children."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def start(self, *words: object, stdin: bytes | Path = b"", cwd: Path | None = None) -> Running:
        """Fork a child that runs the command, in a process group of its own."""
        self.count += 1
        base = self.folder / str(self.count)
        command = [str(word) for word in words]
        given = stdin
        if isinstance(stdin, bytes):
            given = base.with_suffix(".in")
            given.write_bytes(stdin)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _child(command, Path(str(given)), base, cwd)
        return Running(command, child, base)

    def __call__(self, *words: object, stdin: bytes | Path = b"", cwd: Path | None = None) -> Outcome:
        return self.start(*words, stdin=stdin, cwd=cwd).wait()


@dataclass
class Running:
    """A command under way."""

    command: list[str]
    pid: int
    base: Path

    def wait(self, seconds: float = SECONDS) -> Outcome:
        """Until it ends; killed with its workers where it takes too long, which counts as exit code 124."""
        until, code = time.monotonic() + seconds, 124
        while time.monotonic() < until:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.002)
        else:
            self.kill_group()
            os.waitpid(self.pid, 0)
        said = [self.base.with_suffix(name).read_bytes().decode("utf-8", "replace") for name in (".out", ".err")]
        for name in (".in", ".out", ".err"):
            self.base.with_suffix(name).unlink(missing_ok=True)
        return Outcome(self.command, code, *said)

    def kill_group(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to it and its workers."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _child(command: list[str], stdin: Path, base: Path, cwd: Path | None) -> None:
    """Never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        for name, stream, flags in (
            (stdin, 0, os.O_RDONLY),
            (base.with_suffix(".out"), 1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (base.with_suffix(".err"), 2, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            handle = os.open(name, flags, 0o644)
            os.dup2(handle, stream)
            os.close(handle)
        sys.stdin = open(0, encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        if cwd is not None:
            os.chdir(cwd)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        from harken.cli.app import app

        warnings.resetwarnings()  # as in a process of its own: those of pytest make warnings of harken errors
        try:
            app(command, prog_name="harken")
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code)


@pytest.fixture(scope="session")
def harken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forking]:
    """The command line, with everything heavy imported already."""
    import matplotlib.figure
    import sentencepiece
    import torch

    import harken.cli.app
    import harken.run

    assert matplotlib.figure and sentencepiece and harken.run
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    yield Forking(tmp_path_factory.mktemp("streams"))
    gc.unfreeze()


JOBS = {  # recipe -> the verb that uses its models, with what it takes after the folder
    "phrasebook-transformer": "translate",
    "opinions-classify": "classify",
    "gestures-classify": "classify",
    "phrasebook-tag": "tag",
    "phrasebook-language": "generate",
    "phrasebook-masked": "attention",
    "seasons-forecast": "forecast",
    "tones-transcribe": "transcribe",
    "stories-answer": "answer",
    "scenes-caption": "caption",
    "penfont-handwriting": "write",
}


@pytest.fixture(scope="session")
def models(tiny_model: Callable[[str], Path]) -> dict[str, Path]:
    """A barely trained model of every job."""
    return {recipe: tiny_model(recipe) for recipe in JOBS}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small good input of every kind: a.txt, a.wav, a.png, a.npz."""
    import wave

    import numpy as np
    from PIL import Image

    home = tmp_path_factory.mktemp("inputs")
    (home / "a.txt").write_text("the cat sleeps\n")
    with wave.open(str(home / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((8000 * np.sin(np.arange(4000) / 5)).astype("<i2").tobytes())
    Image.new("RGB", (32, 32), "red").save(home / "a.png")
    np.savez(home / "a.npz", values=np.zeros((2, 30, 2), np.float32))
    return home


@pytest.fixture(autouse=True)
def good_models_stay(request: pytest.FixtureRequest) -> Iterator[None]:
    """No case may change the models it is given: every file of every model is byte-identical after a test."""
    folders = list(request.getfixturevalue("models").values()) if "models" in request.fixturenames else []
    before = {path: path.read_bytes() for folder in folders for path in sorted(folder.iterdir())}
    yield
    assert {path: path.read_bytes() for folder in folders for path in sorted(folder.iterdir())} == before
