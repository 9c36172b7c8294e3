"""Runs on several ranks: rank 0 decides and writes, any number of ranks resumes, and a rank that ends ends all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.errors import MachineError, UserError
from harken.training.checkpoints import load_checkpoint
from harken.training.config import TrainConfig
from harken.training.folder import MODEL
from harken.training.log import read_metrics
from harken.training.loop import Trainer
from harken.training.strategies import distributed as module
from harken.training.strategies.group import Group

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.05, "schedule": "constant", "warmup_steps": 0, "validate_every": 4, "checkpoint_every": 2,
    "log_every": 1, "device": "cpu", "precision": "float32", "workers": 1, "threads": 1, "max_steps": 6,
}  # fmt: skip


class Run:
    """A run of a task in a folder, by some ranks."""

    def __init__(self, task: Any, folder: Path, ranks: Callable) -> None:
        self.task, self.folder, self.ranks = task, folder, ranks
        folder.mkdir(exist_ok=True)

    def __call__(self, world_size: int, before: Callable[[Group], Any] = lambda group: None, **changes: Any) -> Any:
        callbacks = changes.pop("callbacks", ())
        resume = (self.folder / "metrics.jsonl").exists()

        def body(group: Group) -> Any:
            before(group)
            config = TrainConfig(**{**SETTINGS, **changes})
            trainer = Trainer(self.task, config, self.folder, callbacks=callbacks, group=group)
            state = trainer.run(resume=resume)
            weights = [value.detach() for value in self.task.model.parameters()]
            whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in weights]
            total = sum(float(value.double().sum()) for value in whole)
            return state.step, state.seconds, total, trainer.monitor.skipped

        return self.ranks(world_size, body)

    def losses(self) -> list[float]:
        return [entry["loss"] for entry in read_metrics(self.folder) if entry["kind"] == "train"]


@pytest.fixture
def run(ranks: Callable, tmp_path: Path) -> Callable[..., Run]:
    return lambda task, name="run": Run(task, tmp_path / name, ranks)


class EchoTask:
    """Streams of numbers; the loss of a step depends on what its stream has seen."""

    monitor, mode, streams = "loss", "min", 4

    def __init__(self) -> None:
        self.values = torch.tensor(np.random.default_rng(3).normal(size=(6, 4)), dtype=torch.float32)
        torch.manual_seed(5)
        self.model = torch.nn.Linear(2, 1)
        self.carried = {"memory": torch.zeros(4)}

    def epoch(self, number: int) -> list[np.ndarray]:
        return [step * 4 + np.arange(4) for step in range(6)]

    def size(self, examples: np.ndarray) -> int:
        return len(examples)

    def share(self, examples: np.ndarray, parts: int) -> list[np.ndarray]:
        return [examples[examples % 4 % parts == part] for part in range(parts)]

    def collate(self, indices: np.ndarray) -> np.ndarray:
        return indices

    def loss(self, model: Any, examples: np.ndarray) -> tuple[Tensor, int]:
        step, streams = int(examples[0]) // 4, torch.from_numpy(examples % 4)
        value, memory = self.values[step, streams], self.carried["memory"]
        made = self.model(torch.stack((value, memory[streams]), 1))[:, 0]
        memory[streams] = torch.tanh(memory[streams] + made.detach())
        return (made - value).square().sum(), len(examples)

    def validate(self, part: int, parts: int) -> Any:
        return float(self.model.weight.abs().sum()) if part == 0 else 0.0

    def score(self, results: list[Any]) -> dict[str, float]:
        return {"loss": sum(results)}


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param([(2, "none"), (4, "none"), (1, "none")], id="replicas"),
        pytest.param([(2, "full"), (1, "none"), (4, "full")], id="shards", marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_of_some_ranks_is_resumed_by_others(run: Callable, stages: list[tuple[int, str]]) -> None:
    """With carried states, of which every rank has some rows, and with weights in files of all ranks."""
    alone, several = run(EchoTask(), "alone"), run(EchoTask(), "several")
    alone(1)
    for stage, (world_size, sharding) in enumerate(stages, start=1):
        found = several(world_size, max_steps=2 * stage, sharding=sharding)
        assert [outcome["value"][0] for outcome in found] == [2 * stage] * world_size
    assert several.losses() == pytest.approx(alone.losses(), rel=1e-5)
    first, last = load_checkpoint(alone.folder), load_checkpoint(several.folder)
    assert first is not None and last is not None
    assert set(first.tensors) == set(last.tensors)
    for name, value in first.tensors.items():
        torch.testing.assert_close(last.tensors[name], value, rtol=1e-4, atol=1e-5)
    assert len(list(several.folder.glob("checkpoint*"))) == (5 if sharding == "full" else 2)  # an index and 4 files


def test_a_damaged_shard_costs_some_steps(run: Callable) -> None:
    job = run(EchoTask())
    job(2, max_steps=4, sharding="full")
    newest = sorted(job.folder.glob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    found = load_checkpoint(job.folder)
    assert found is not None and found.progress.step == 4 - 2
    assert newest.name in str(found.warning)


def test_minutes_are_those_of_rank_0(run: Callable, table: Any) -> None:
    """The clock of rank 1 runs ten times as fast."""
    clock = [0.0]

    def before(group: Group) -> None:
        def now() -> float:
            clock[0] += 1.0 if group.is_main else 10.0
            return clock[0]

        time.perf_counter = now

    first, second = run(table(dropout=0.0))(2, before, max_steps=None, max_minutes=0.2, validate_every=50)
    assert first["value"][:2] == second["value"][:2]
    assert 2 <= first["value"][0] <= 12  # 12 seconds by the clock of rank 0, 1.2 by that of rank 1


def test_one_rank_writes(run: Callable, table: Any) -> None:
    job = run(table(dropout=0.0))
    calls = job.folder / "calls"

    def callback(entry: dict[str, Any]) -> bool:
        calls.write_text(calls.read_text() + f"{entry['step']} " if calls.exists() else f"{entry['step']} ")
        return entry["step"] == 3

    first, second = job(2, callbacks=[callback])
    assert first["value"][0] == second["value"][0] == 3  # the callback of rank 0 ended both
    assert first["value"][2] == second["value"][2]
    assert calls.read_text().split() == ["1", "2", "3", "3"]  # the last is the validation
    assert [entry["step"] for entry in read_metrics(job.folder)] == [1, 2, 3, 3]
    assert (job.folder / MODEL).is_file()


def test_a_signal_to_one_rank_saves_and_stops_all(run: Callable, table: Any) -> None:
    class Signalled(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            self.calls = getattr(self, "calls", 0) + 1
            if os.environ["RANK"] == "1" and self.calls == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().summed(examples)

    job = run(Signalled(dropout=0.0))
    assert [outcome["error"] for outcome in job(2)] == ["Interrupted"] * 2
    found = load_checkpoint(job.folder)
    assert found is not None and found.progress.step == 3


def test_nan_on_one_rank_skips_the_update_on_all(run: Callable, table: Any) -> None:
    class Broken(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            loss = super().summed(examples)
            return loss * float("nan") if torch.is_grad_enabled() and os.environ["RANK"] == "1" else loss

    task = Broken(dropout=0.0)
    before = sum(float(value.detach().double().sum()) for value in task.model.parameters())
    job = run(task)
    for outcome in job(2):
        assert outcome["value"][2:] == [before, 6]
    said = "update 1 was skipped: rank 1: the loss is NaN or infinite, all layers are finite; the batch is kept in "
    assert [entry["event"] for entry in read_metrics(job.folder) if entry["kind"] == "event"] == [
        f"{said}nonfinite-step-1.safetensors"
    ]


def test_the_layer_of_a_nan_is_named_in_a_divided_model(run: Callable, table: Any) -> None:
    """A gradient belongs to no rank, because FSDP sums it over all of them."""

    class Breaks(torch.nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            largest = float(values.detach().abs().max())
            return values**2 if largest > 1e20 else (values * 0).sqrt() + values if largest > 1e3 else values

    task = table(dropout=0.0, shuffled=False)
    task.model[1] = Breaks()
    task.inputs[1], task.inputs[9] = 1e5, 1e25  # of batches 1 and 3, in the share of rank 1
    job = run(task)
    assert [outcome["value"][3] for outcome in job(2, max_steps=3, sharding="full")] == [1, 1]
    first, second = [entry["event"] for entry in read_metrics(job.folder) if entry["kind"] == "event"]
    assert first.startswith("update 1 was skipped: the loss is finite, the gradient of '0.bias' is NaN or infinite; ")
    assert second.startswith("update 3 was skipped: rank 1: the output of 1 (Breaks) is NaN or infinite, what goes ")


def test_ranks_that_are_started_again_after_memory_ran_out_compute_in_parts(run: Callable, table: Any) -> None:
    """With divided weights; both attempts are made by the same processes, so that they have the same store."""

    class Small(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            if torch.is_grad_enabled() and len(examples) > 1:
                raise torch.OutOfMemoryError
            return super().summed(examples)

    alone, several = run(table(dropout=0.0), "alone"), run(Small(dropout=0.0), "several")

    def before(group: Group) -> None:
        config = TrainConfig(**{**SETTINGS, "sharding": "full"})
        with pytest.raises(MachineError, match="ran out of memory at step 1"):
            Trainer(several.task, config, several.folder, group=group).run()
        several.task = Small(dropout=0.0)

    alone(1)
    assert [outcome["value"][0] for outcome in several(2, before, sharding="full")] == [6, 6]
    assert several.losses() == pytest.approx(alone.losses(), rel=1e-5)
    said = [entry["event"] for entry in read_metrics(several.folder) if entry["kind"] == "event"]
    assert len(said) == 1 and "the batch was computed in 2 parts" in said[0]


@pytest.mark.parametrize("where", [pytest.param("forward", marks=pytest.mark.slow), "backward"])
def test_memory_that_runs_out_on_one_rank_costs_time_alone(
    run: Callable, table: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """In the backward pass, some buckets of gradients were already sent when it happens."""
    monkeypatch.setattr(module, "BUCKET", 64)
    failed: list[str] = []

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: Tensor) -> Tensor:
            return values.clone()

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            if where == "backward" and os.environ["RANK"] == "1" and not failed:
                failed.append(where)
                raise torch.OutOfMemoryError
            return gradient

    class Watched(torch.nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            if where == "forward" and os.environ["RANK"] == "1" and len(values) > 1 and torch.is_grad_enabled():
                raise torch.OutOfMemoryError
            return Fails.apply(values)

    alone, several = run(table(dropout=0.0), "alone"), run(table(dropout=0.0), "several")
    several.task.model.insert(1, Watched())
    alone(1)
    assert [outcome["value"][0] for outcome in several(2)] == [6, 6]
    assert several.losses() == pytest.approx(alone.losses(), rel=1e-5)
    assert "computed in 2 parts" in next(entry["event"] for entry in read_metrics(several.folder) if "event" in entry)


@pytest.mark.parametrize(
    ("how", "rank"),
    [
        *[("user", 0), ("killed", 1)],
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [("user", 1), ("memory", 0), ("bug", 1), ("killed", 0)]
        ),
    ],
)
def test_a_rank_that_ends_ends_all_with_its_reason(run: Callable, table: Any, how: str, rank: int) -> None:
    class Failing(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            self.calls = getattr(self, "calls", 0) + 1
            if int(os.environ["RANK"]) != rank or self.calls < 3:
                return super().summed(examples)
            if how == "killed":  # torchrun then stops the others
                stop = f"sleep 0.3; kill -TERM $(cat {job.folder}/other)"
                subprocess.Popen(["sh", "-c", stop], start_new_session=True)
                os.kill(os.getpid(), signal.SIGKILL)
            raise {"user": UserError("row 17 is bad"), "memory": MemoryError(), "bug": ValueError("x")}[how]

    def before(group: Group) -> None:
        if group.rank != rank:
            (job.folder / "other").write_text(str(os.getpid()))

    job, started = run(Failing(dropout=0.0)), time.monotonic()
    found = job(2, before)
    assert time.monotonic() - started < 240
    own, other = found[rank], found[1 - rank]
    reasons = {
        "user": ("UserError", f"rank {rank}: row 17 is bad"),
        "memory": ("MachineError", f"rank {rank}: this machine ran out of memory at step 3"),
        "bug": ("MachineError", f"rank {rank}: ValueError: x"),
        "killed": ("MachineError", f"rank {rank} was killed or lost, usually because the machine ran out of memory"),
    }
    assert other["error"] == reasons[how][0] and reasons[how][1] in other["message"]
    assert own == {} if how == "killed" else own["error"] in ("UserError", "MachineError", "ValueError")


def test_accumulated_batches_are_communicated_once(run: Callable, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKET", 64)  # bytes: 1 + 8 + 8 floats, then 8 x 3
    sent: list[int] = []
    send = module.Buckets._send
    monkeypatch.setattr(module.Buckets, "_send", lambda buckets: (sent.append(len(buckets.sent)), send(buckets))[1])

    def before(group: Group) -> None:
        sent.clear()

    job = run(table(dropout=0.0))
    job(2, before, accumulate=3, max_steps=2, callbacks=[lambda entry: (job.folder / "sent").write_text(str(sent))])
    assert (job.folder / "sent").read_text() == "[0, 1, 0, 1]"


SCRIPT = """
import os, signal, sys
import harken

def fail_once(entry):
    if entry["step"] == 5 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    harken.train("phrasebook-transformer", sys.argv[1], overrides=sys.argv[2:], callbacks=[fail_once])
"""


@pytest.mark.slow
def test_torchrun_restarts_and_resumes_also_with_fewer_ranks(tmp_path: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT)
    changes = [
        "data.size=200", "model.layers=1", "model.width=16", "model.heads=2", "model.feedforward=16",
        "train.batch_tokens=100", "train.validate_sentences=2", "train.log_every=1", "train.checkpoint_every=2",
        "train.max_minutes=none", "train.precision=float32", "train.device=cpu", "train.schedule=constant",
    ]  # fmt: skip
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "--max-restarts=1", str(script), str(out), *changes, "train.max_steps=8"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "resuming" in done.stdout
    assert [entry["step"] for entry in read_metrics(out) if entry["kind"] == "train"] == list(range(1, 9))
    fewer = [*torchrun, "--nproc-per-node", "1", "-m", "harken", "train", "phrasebook-transformer", "--out", str(out)]
    sets = [part for change in [*changes, "train.max_steps=10"] for part in ("--set", change)]
    done = subprocess.run([*fewer, "--resume", *sets], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert [entry["step"] for entry in read_metrics(out) if entry["kind"] == "train"] == list(range(1, 11))
