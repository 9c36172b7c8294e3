"""Runs killed at random moments resume to the same bits; one owner per folder; a full disk loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harken.training.weights import load_tensors

LIMIT = 600.0  # seconds for a run of one or two on a quiet machine
COMMON = [
    *("train.max_steps=30", "train.max_epochs=none", "train.max_minutes=none", "train.warmup_steps=5"),
    *("train.workers=2", "train.threads=1", "train.device=cpu", "train.precision=float32", "train.batch_tokens=200"),
    *("train.checkpoint_every=4", "train.validate_every=10", "train.log_every=3", "train.average=0.9"),
]
RUNS = {
    "phrasebook-transformer": [
        *("data.size=300", "model.layers=1", "model.width=16", "model.heads=2", "model.feedforward=16"),
        "train.validate_sentences=2",
    ],
    "phrasebook-language": ["data.size=300", "model.width=8", "model.embedding=8"],
    "phrasebook-tag": ["data.size=300", "model.width=8", "model.embedding=8"],
    "opinions-classify": ["data.size=300", "model.width=8", "model.embedding=8"],
}


def train(recipe: str, out: Path, *options: str) -> list[Any]:
    overrides = [word for value in (*COMMON, *RUNS[recipe]) for word in ("--set", value)]
    return ["train", recipe, "--out", out, "--quiet", *overrides, *options]


def children(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
    return found


def kill_at_random(harken: Any, home: Path, recipe: str, kills: int, seed: int) -> None:
    """Kill runs of one recipe at random moments until each has ended; all must end with the bits of a whole run."""
    started = time.monotonic()
    whole = harken.start(*train(recipe, home / "whole")).wait(LIMIT)
    assert whole.code == 0, whole.stderr
    span, draw = time.monotonic() - started, random.Random(seed)
    expected = (home / "whole" / "model.safetensors").read_bytes()
    weights = load_tensors(home / "whole" / "checkpoint.safetensors")[0]
    for number in range(kills):
        out = home / f"killed{number}"
        run = harken.start(*train(recipe, out, *(["--resume"] if out.exists() else [])))
        time.sleep(draw.uniform(0.0, span))
        how = draw.choice(["group", "worker", "parent"])
        with suppress(ProcessLookupError):
            if how == "group":
                os.killpg(run.pid, signal.SIGKILL)
            elif how == "parent":
                os.kill(run.pid, signal.SIGKILL)
            else:
                os.kill(draw.choice(children(run.pid) or [run.pid]), signal.SIGKILL)
        ended = run.wait(LIMIT)
        assert ended.code in (0, 1, -signal.SIGKILL), ended.stderr
        assert "Traceback" not in ended.stderr
        if how == "worker" and ended.code == 1:
            assert "continue with --resume" in ended.stderr
        resumed = harken.start(*train(recipe, out, "--resume")).wait(LIMIT)
        assert resumed.code == 0, (how, resumed.stderr)
        assert (out / "model.safetensors").read_bytes() == expected, how
        found = load_tensors(out / "checkpoint.safetensors")[0]
        assert found.keys() == weights.keys() and all(bool((found[name] == weights[name]).all()) for name in weights)
        assert not list(out.glob(".*.tmp")) and not (out / ".lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUNS)
def test_killed_at_random_moments(harken: Any, tmp_path: Path, recipe: str) -> None:
    kill_at_random(harken, tmp_path, recipe, kills=20, seed=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_exits_with_its_code(harken: Any, tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    run = harken.start(*train("phrasebook-tag", out, "--set", "train.max_steps=100000"))
    until = time.monotonic() + LIMIT
    while not (out / "metrics.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert (out / "metrics.jsonl").exists()
    os.kill(run.pid, number)
    ended = run.wait(LIMIT)
    assert ended.code == 128 + number, ended.stderr
    assert "--resume" in ended.stderr and "Traceback" not in ended.stderr
    assert load_tensors(out / "checkpoint.safetensors")


def test_two_processes_in_one_folder(harken: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = harken.start(*train("phrasebook-tag", out, "--set", "train.max_steps=100000"))
    until = time.monotonic() + LIMIT
    while not (out / "checkpoint.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert (out / "checkpoint.safetensors").exists()
    second = harken(*train("phrasebook-tag", out, "--resume"))
    assert second.check((2,)) is None
    assert f"in use by process {first.pid} on" in second.stderr
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait(LIMIT).code == 143


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 900 kB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a file system needs more rights than these tests have")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_keeps_the_last_good_model(harken: Any, small_disk: Path) -> None:
    out = small_disk / "out"
    done = harken.start(*train("phrasebook-tag", out)).wait(LIMIT)
    assert done.code == 0, done.stderr
    model = (out / "model.safetensors").read_bytes()
    (small_disk / "filler").write_bytes(b"")
    with suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 1024)
    ended = harken.start(*train("phrasebook-tag", out, "--set", "train.max_steps=60", "--resume")).wait(LIMIT)
    assert ended.check((2,)) is None, ended.stderr
    assert "No space left" in ended.stderr and "--resume" in ended.stderr
    assert (out / "model.safetensors").read_bytes() == model
    assert not list(out.glob(".*.tmp"))
    (small_disk / "filler").unlink()
    ended = harken.start(*train("phrasebook-tag", out, "--set", "train.max_steps=60", "--resume")).wait(LIMIT)
    assert ended.code == 0, ended.stderr


def test_a_disk_that_is_full_at_the_start_leaves_nothing_behind(harken: Any, small_disk: Path) -> None:
    out, command = small_disk / "out", train("phrasebook-tag", small_disk / "out")
    (small_disk / "filler").write_bytes(b"\0" * (900_000 - 60_000))  # room for the vocabulary, not for the checkpoint
    ended = harken.start(*command).wait(LIMIT)
    assert ended.check((2,)) is None, ended.stderr
    assert "cannot be written" in ended.stderr and "No space left" in ended.stderr
    assert not out.exists()
    (small_disk / "filler").unlink()
    ended = harken.start(*command).wait(LIMIT)
    assert ended.code == 0, ended.stderr


def test_a_home_folder_in_out_is_expanded(harken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    command = train("phrasebook-tag", Path("~/x"), "--set", "train.max_steps=1")
    ended = harken.start(*command, cwd=tmp_path).wait(LIMIT)
    assert ended.code == 0, ended.stderr
    assert (tmp_path / "home" / "x" / "card.md").is_file() and not (tmp_path / "~").exists()
