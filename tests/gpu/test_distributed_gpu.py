"""torchrun with one GPU: NCCL with replicas and with FSDP2 gives the losses of a plain run, also after a resume.

Several GPUs were not available: tests/training/strategies has 2 and 4 ranks on gloo.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harken.training.log import read_metrics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CHANGES = [
    "data.size=400", "model.dropout=0.0", "train.max_steps=8", "train.max_minutes=none", "train.log_every=1",
    "train.validate_every=4", "train.checkpoint_every=4", "train.precision=float32", "train.accumulate=2",
    "train.batch_tokens=400", "train.validate_sentences=8",
]  # fmt: skip
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]


def train(out: Path, *changes: str, launcher: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> list[float]:
    """The losses of a run in a process of its own."""
    overrides = [part for change in (*CHANGES, *changes) for part in ("--set", change)]
    command = [sys.executable, *launcher, "-m", "harken", "train", "phrasebook-transformer", "--out", str(out)]
    done = subprocess.run(
        [*command, *overrides, *options], capture_output=True, text=True, timeout=300, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [entry["loss"] for entry in read_metrics(out) if entry["kind"] == "train"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return train(tmp_path_factory.mktemp("alone") / "run")


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_nccl_with_one_rank_has_the_losses_of_a_plain_run(alone: list[float], sharding: str, tmp_path: Path) -> None:
    found = train(tmp_path / "run", f"train.sharding={sharding}", launcher=tuple(TORCHRUN))
    assert len(found) == 8
    assert found == pytest.approx(alone, rel=1e-4)  # the sums of GPU kernels are not in a fixed order
    assert (tmp_path / "run" / "card.md").is_file()
    assert (tmp_path / "run" / "checkpoint.index.json").is_file() == (sharding == "full")


def test_a_divided_checkpoint_is_resumed_by_a_plain_run(alone: list[float], tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, "train.sharding=full", "train.max_steps=4", "train.schedule=constant", launcher=tuple(TORCHRUN))
    found = train(out, "train.schedule=constant", options=("--resume",))
    whole = train(tmp_path / "whole", "train.schedule=constant")
    assert found == pytest.approx(whole, rel=1e-4)


def test_bfloat16_trains(tmp_path: Path) -> None:
    for sharding in ("none", "full"):
        found = train(
            tmp_path / sharding, f"train.sharding={sharding}", "train.precision=bfloat16", launcher=tuple(TORCHRUN)
        )
        assert found[-1] < found[0]


UPDATES = """
import json, sys, tempfile
from pathlib import Path
import torch
from harken.recipe import load_recipe
from harken.plan import resolve
from harken.tasks.translate.job import JOB
from harken.training.strategies import choose_strategy
from harken.training.strategies.group import joined

recipe = resolve(load_recipe(sys.argv[1], sys.argv[2].split()))[0]
torch.manual_seed(0)
task = JOB.prepare(recipe, Path(tempfile.mkdtemp()), resuming=False).task
with joined() as group:
    if group is not None:
        group.connect("cuda")
    strategy = choose_strategy(task, recipe.train, group)
    epoch, losses = task.epoch(0), []
    for step in range(1, 13):
        batch = epoch[step % 3]
        result = strategy.update(step, [batch], task.size(batch), 1e-3)
        result.ready.synchronize()
        losses.append(float(result.loss))
    print(json.dumps([type(strategy).__name__, len(strategy.graphs), losses]))
    strategy.close()
"""


@pytest.mark.parametrize("recipe", ["phrasebook-transformer", "phrasebook-attention"])
def test_the_updates_of_a_rank_are_captured(recipe: str, tmp_path: Path) -> None:
    script = tmp_path / "updates.py"
    script.write_text(UPDATES)
    settings = "data.size=400 model.dropout=0.0 train.precision=float32 train.batch_tokens=400 train.device=cuda"
    found = []
    for launcher in ([], TORCHRUN):
        command = [sys.executable, *launcher, str(script), recipe, settings]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (alone, graphs, wanted), (replicas, more, losses) = found
    if recipe == "phrasebook-attention" and alone == "Single":
        pytest.skip("recurrent updates are captured on Hopper GPUs only")
    assert (alone, replicas) == ("Captured", "CapturedReplicas")
    assert graphs == more >= 1
    assert losses == pytest.approx(wanted, rel=1e-3)
