"""harken without what only POSIX has: what Windows cannot run is refused, and the rest does not need it.

`HIDE` takes those modules and names away from harken's own code; libraries, which go by the platform, keep them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harken.data.io import files
from harken.errors import UserError

HIDE = """
import builtins, json, os, select, signal, sys, types

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    "os": "fork forkpty register_at_fork getuid geteuid getgid getegid getpgid getpgrp setsid setuid killpg sysconf "
    "uname sched_getaffinity sched_setaffinity posix_fadvise posix_fallocate pread pwrite sendfile waitid wait3 wait4 "
    "WNOHANG WSTOPPED WNOWAIT P_PID O_NONBLOCK O_NOCTTY O_CLOEXEC O_DIRECTORY O_NOFOLLOW getloadavg nice mkfifo chown "
    "fchown statvfs openpty ttyname fdatasync memfd_create getpriority setpriority pipe2",
    "signal": "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGCHLD SIGALRM SIGPIPE SIGSTOP SIGCONT SIGQUIT SIG_BLOCK SIG_SETMASK "
    "SIG_UNBLOCK pthread_sigmask pthread_kill sigwait setitimer alarm pause siginterrupt",
    "select": "poll epoll kqueue",
}
HIDDEN = {module: set(names.split()) for module, names in NAMES.items()}
import_module = builtins.__import__


def is_harken(names):
    return names.get("__name__", "").partition(".")[0] == "harken"


def checked_import(name, globals=None, *rest, **more):
    if name in MODULES and is_harken(globals or {}):
        raise ModuleNotFoundError(f"there is no module {name}")
    return import_module(name, globals, *rest, **more)


class Partial(types.ModuleType):
    def __getattribute__(self, name):
        caller = sys._getframe().f_back
        if caller and is_harken(caller.f_globals) and name in HIDDEN[super().__getattribute__("__name__")]:
            raise AttributeError(f"there is no {name}")
        return super().__getattribute__(name)


builtins.__import__ = checked_import
for module in (os, select, signal):
    module.__class__ = Partial
"""

RUN = """
import harken, harken.nn
from harken.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["harken", *words]
    try:
        main()
    except SystemExit as end:
        print("EXIT", end.code, flush=True)
"""


def run_without_posix(code: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDE + code, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HARKEN_KERNELS": "off"}  # nothing is compiled
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def test_posix_is_hidden_from_harken() -> None:
    code = """
for source in ("import fcntl", "import os; os.fork", "from signal import SIGHUP"):
    for name in ("harken.some", "library"):
        try:
            exec(source, {"__name__": name})
            print(name)
        except (ImportError, AttributeError):
            print("hidden")
"""
    assert run_without_posix(code).stdout.split() == ["hidden", "library"] * 3


def test_one_process_trains_and_translates_without_posix(tmp_path: Path) -> None:
    (tmp_path / "new.en").write_text("the black cat sleeps .\n", encoding="utf-8")
    small = ["data.size=200", "model.width=16", "model.heads=4", "model.feedforward=16", "train.validate_sentences=4"]
    small += ["train.max_steps=2", "train.max_epochs=none", "train.max_minutes=none", "train.device=cpu"]
    small += ["train.precision=float32"]
    train = ["train", "phrasebook-transformer", *(word for value in small for word in ("--set", value))]
    commands = [
        ["--help"],
        [*train, "--set", "train.workers=1", "--set", "train.batch_tokens=auto", "--out", "run"],
        ["translate", "run", "new.en", "--out", "new.fr"],
        ["runs", "."],
        [*train, "--set", "train.workers=2", "--out", "other"],
        ["serve", "run", "--port", "0"],
        ["studio", ".", "--port", "0"],
        ["sweep", "phrasebook-transformer", "--out", "sweep", "--set", "model.heads=2,4"],
    ]
    done = run_without_posix(RUN, json.dumps(commands), folder=tmp_path)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("EXIT")]
    assert codes == [0] * 4 + [2] * 4, done.stdout + done.stderr
    assert (tmp_path / "run" / "model.safetensors").stat().st_size > 0
    assert len((tmp_path / "new.fr").read_text(encoding="utf-8").splitlines()) == 1
    assert done.stderr.count("error: this system cannot fork processes") == 4
    assert "Traceback" not in done.stderr


def test_memory_and_processes_are_known_without_posix() -> None:
    code = """
from harken.machine import available_memory, is_alive
print(available_memory() > 2**28, is_alive(os.getpid()), is_alive(2**22 + 1))
"""
    assert run_without_posix(code).stdout.split() == ["True", "True", "False"]


def test_a_system_without_a_file_of_standard_input_refuses_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "STDIN", tmp_path / "stdin")
    with pytest.raises(UserError, match="name a file"):
        files.input_path(None)
