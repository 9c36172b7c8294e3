"""Resumed = uninterrupted, through the real command: SIGKILL and Ctrl-C in the middle, then `--resume`.

Each recipe is trained once without a stop; what a stopped and resumed run leaves must be the same to the bit: weights,
their average, what the optimizer remembers, the state, and every line of metrics but for what the clock says.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from harken.training.log import read_metrics

CLOCKED = {
    *("seconds", "window_seconds", "validation_seconds", "start_seconds"),
    *("tokens_per_second", "all_tokens_per_second", "data_wait"),
}
STOP_AFTER = 15  # steps; the last checkpoint is then the one of step 14
FILES = {"model.safetensors", "checkpoint.safetensors", "recipe.toml", "metrics.jsonl", "card.md"}

TRAIN = """
[train]
max_steps = 40
batch_tokens = 96
learning_rate = 3e-3
warmup_steps = 5
validate_every = 10
validate_sentences = 8
checkpoint_every = 7
log_every = 1
average = 0.9
precision = "float32"
device = "cpu"
workers = 2
threads = 1
"""
TRANSFORMER = """
[model]
architecture = "transformer"
layers = 1
width = 16
heads = 2
feedforward = 32
dropout = 0.3
"""
RECURRENT = """
[model]
architecture = "recurrent"
embedding = 16
width = 16
dropout = 0.3
"""
PHRASEBOOK = '[data]\ncorpus = "phrasebook"\nsize = 400\n[tokenizer]\nkind = "word"\n'
FILES_OF_MINE = """
[data]
source = "mine.en"
target = "mine.fr"
valid_size = 12
[tokenizer]
kind = "{kind}"
size = 60
"""

RECIPES = {
    "transformer": PHRASEBOOK + TRANSFORMER + TRAIN,
    "recurrent": FILES_OF_MINE.format(kind="word") + RECURRENT + TRAIN,
    "gru": FILES_OF_MINE.format(kind="bpe") + RECURRENT + 'cell = "gru"\nattention = "none"\nlayers = 2\n' + TRAIN
    + 'accumulate = 2\nschedule = "plateau"\nplateau_patience = 0\n',
    "epochs": FILES_OF_MINE.format(kind="unigram") + TRANSFORMER + TRAIN.replace("max_steps = 40", "max_epochs = 2.5")
    + 'schedule = "cosine"\n',
}  # fmt: skip


class Runs:
    """Runs of one recipe, each in its own folder below `home`."""

    def __init__(self, home: Path, recipe: str) -> None:
        self.home, self.recipe = home, home / "tiny.toml"
        self.recipe.write_text(recipe)
        numbers = random.Random(5)
        lines = [[str(numbers.randrange(40)) for _ in range(numbers.randrange(2, 7))] for _ in range(150)]
        (home / "mine.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (home / "mine.fr").write_text("".join(f"{' '.join(reversed(line))}\n" for line in lines))

    def start(self, out: str, *options: str) -> subprocess.Popen[str]:
        """`harken train`, in a process group of its own."""
        command = [sys.executable, "-m", "harken", "train", "tiny.toml", "--out", out, *options]
        package = str(Path(__file__).resolve().parents[2] / "src")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": package}
        return subprocess.Popen(
            command, cwd=self.home, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self, out: str, *options: str) -> str:
        """Let a run come to its end; what it printed."""
        process = self.start(out, *options)
        printed, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        return printed

    def stop(self, out: str, act: Callable[[subprocess.Popen[str]], Any]) -> tuple[int, str, str]:
        """Start a run and act on it once it is past STOP_AFTER; exit code, stdout and stderr."""
        process = self.start(out)
        metrics = self.home / out / "metrics.jsonl"
        until = time.monotonic() + 240
        while not metrics.exists() or metrics.read_text().count('"train"') < STOP_AFTER:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until, "the run does not get on"
            time.sleep(0.002)
        act(process)
        printed, errors = process.communicate(timeout=240)
        return process.returncode, printed, errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    """The runs of a recipe, the one in `whole` never stopped."""
    made: dict[str, Runs] = {}

    def of(name: str) -> Runs:
        if name not in made:
            made[name] = Runs(tmp_path_factory.mktemp(name), RECIPES[name])
            made[name].finish("whole", "--quiet")
        return made[name]

    return of


def state_of(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    with safe_open(folder / "checkpoint.safetensors", "pt") as stored:
        state = json.loads(stored.metadata()["state"])
        return {name: stored.get_tensor(name) for name in stored.keys()}, state  # noqa: SIM118


def without_clock(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in CLOCKED}


def assert_same(whole: Path, parts: Path) -> None:
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    (tensors, state), (other_tensors, other_state) = state_of(whole), state_of(parts)
    assert {name.split(".")[0] for name in tensors} == {"model", "average", "optimizer"}
    assert tensors.keys() == other_tensors.keys()
    for name, value in tensors.items():
        assert torch.equal(value, other_tensors[name]), name
    assert state["settings"] == other_state["settings"]
    assert without_clock(state["progress"]) == without_clock(other_state["progress"])
    assert state["progress"]["finished"]
    lines, other_lines = ([without_clock(line) for line in read_metrics(folder)] for folder in (whole, parts))
    assert lines == other_lines
    assert {path.name for path in whole.iterdir()} == {path.name for path in parts.iterdir()} >= FILES
    assert (whole / "recipe.toml").read_bytes() == (parts / "recipe.toml").read_bytes()


def children(process: int) -> list[int]:
    """The processes whose parent is `process`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == process:
            found.append(int(path.parent.name))
    return found


def runs_still(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["recurrent", *(pytest.param(name, marks=pytest.mark.slow) for name in ("transformer", "gru", "epochs"))],
)
def test_sigkill(runs: Callable[[str], Runs], name: str) -> None:
    run = runs(name)
    workers: list[int] = []

    def kill(process: subprocess.Popen[str]) -> None:
        workers.extend(children(process.pid))
        process.kill()

    code, _, errors = run.stop("killed", kill)
    assert (code, errors) == (-signal.SIGKILL, "")
    folder = run.home / "killed"
    assert state_of(folder)[1]["progress"]["step"] in range(14, 40, 7)
    assert not state_of(folder)[1]["progress"]["finished"]

    assert len(workers) == 1
    until = time.monotonic() + 60
    while any(runs_still(worker) for worker in workers):
        assert time.monotonic() < until, "a worker outlived its parent"
        time.sleep(0.01)

    (folder / ".checkpoint.safetensors.0123abcd.tmp").write_bytes(b"a kill came while this was written")
    with open(folder / "metrics.jsonl", "a") as lines:
        lines.write('{"kind": "train", "st')
    assert "resuming" in run.finish("killed", "--resume")
    assert_same(run.home / "whole", folder)


@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        (signal.SIGINT, True),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),  # quickly: test_loop_stopping.py, in one process
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, False, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c(runs: Callable[[str], Runs], number: int, whole_group: bool) -> None:
    run = runs("recurrent")
    out = f"stopped-{number}-{whole_group}"
    code, printed, errors = run.stop(out, lambda process: (os.killpg if whole_group else os.kill)(process.pid, number))
    assert code == 128 + number
    assert "stopping: saving a checkpoint first" in printed
    assert errors.split("\n") == ["", "stopped: continue with", f"  harken train tiny.toml --out {out} --resume", ""]
    step = state_of(run.home / out)[1]["progress"]["step"]
    assert STOP_AFTER <= step < 40
    assert max(line["step"] for line in read_metrics(run.home / out)) == step
    run.finish(out, "--resume", "--quiet")
    assert_same(run.home / "whole", run.home / out)
