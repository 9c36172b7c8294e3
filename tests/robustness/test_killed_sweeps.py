"""Sweeps that are stopped or killed go on where they stopped, and end with the weights of an uninterrupted one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from harken.run_folders.reading import read_run

LIMIT = 600.0  # seconds for what takes ten on a quiet machine
SETTINGS = [
    *("data.size=60", "model.width=8", "model.embedding=8", "train.batch_tokens=100", "train.max_steps=80"),
    *("train.max_epochs=none", "train.max_minutes=none", "train.warmup_steps=5", "train.workers=1", "train.threads=1"),
    *("train.device=cpu", "train.precision=float32", "train.checkpoint_every=10", "train.validate_every=40"),
    "train.average=0.9",
]


def command(out: Path) -> list[Any]:
    sets = [part for override in SETTINGS for part in ("--set", override)]
    return ["sweep", "phrasebook-tag", "--out", out, "--seeds", "2", "--no-test", "--quiet", *sets]


def wait_for(path: Path) -> None:
    until = time.monotonic() + LIMIT
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.005)
    assert path.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_goes_on_where_it_was_ended(harken: Any, tmp_path: Path, number: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert harken.start(*command(whole)).wait(LIMIT).code == 0
    run = harken.start(*command(cut))
    second = cut / "recipe" / "seed-2"
    wait_for(second / "checkpoint.safetensors")
    os.kill(run.pid, number)  # the first process alone
    ended = run.wait(LIMIT)
    assert ended.code == (-number if number == signal.SIGKILL else 128 + number), ended.stderr
    assert "Traceback" not in ended.stderr
    if number != signal.SIGKILL:
        assert "give the same command again to go on from here" in ended.stderr
    until = time.monotonic() + LIMIT
    while read_run(second).state == "running" and time.monotonic() < until:  # it saves a checkpoint
        time.sleep(0.01)
    assert read_run(second).state != "running"
    first = cut / "recipe" / "seed-1" / "model.safetensors"
    before = first.stat().st_mtime_ns
    again = harken.start(*command(cut)).wait(LIMIT)
    assert again.code == 0, again.stderr
    assert first.stat().st_mtime_ns == before
    for seed in ("seed-1", "seed-2"):
        name = Path("recipe") / seed / "model.safetensors"
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
