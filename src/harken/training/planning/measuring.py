"""How fast a task trains and how much memory it takes, from a few real updates on its own batches.

`harken check` predicts a run from it, and `harken.training.planning.fitting` plans one. The updates are those of
`harken.training.loop`, by the same strategy: gradients in the same precision, clipping, AdamW, weight average. The
learning rate is 0, so the weights stay as they are, and so do buffers and what a task carries from batch to batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

from harken.errors import MachineError, UserError
from harken.training.checkpoints import CheckpointWriter, Progress
from harken.training.config import TrainConfig
from harken.training.strategies import Strategy, choose_strategy
from harken.training.strategies.base import is_out_of_memory
from harken.training.task import Indices, Task, persistent_state, with_settings

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

WARM_UP = 2  # updates that are not counted: kernels are compiled, memory is allocated
MOST_UPDATES = 30
MOST_TIMES = 5  # the time that updates are measured for, with those that are not counted
IN_A_ROW = 3  # updates by captured graphs that are timed together: the host is a step ahead of the GPU
SMALL_SHARE, LARGE_SHARE = 64, 8  # of the validation data: one part in so many
FAST = 0.5  # seconds of the small share, up to which the large one is measured too
MOST_SECONDS = 60.0  # of a validation on a GPU by the small share, up to which it is measured as a whole


@dataclass(frozen=True)
class Speed:
    """The measured time and memory of a few updates."""

    updates: int  # that were counted
    seconds_per_update: float  # mean of the middle half, so that a pause of the machine does not count
    tokens_per_update: float
    seconds_per_validation: float
    memory_bytes: int  # of all processes at their peak; on a GPU, of its memory
    seconds_to_start: float = 0.0  # that first updates and validation take longer: kernels are loaded or captured
    seconds_per_checkpoint: float = 0.0  # for which training stops; in the folder for temporary files


def measure_speed(task: Task, config: TrainConfig, seconds: float = 4.0) -> Speed:
    """Run updates and a part of a validation.

    Args:
        task: a task that was not trained.
        config: resolved, as in training.
        seconds: of counted updates, after which no further one is started.

    Raises:
        UserError: there are no batches.
        MachineError: out of memory.
    """
    device = torch.device(config.device)
    strategy = choose_strategy(task, config)
    try:
        epoch = task.epoch(0)
        if strategy.settles_after:  # compiles kernels, which the run will find in the cache
            _updates(strategy, epoch, seconds)
            strategy.close()
            strategy = choose_strategy(task, config)
        times, tokens, start = _updates(strategy, epoch, seconds)
        with unchanged(task):
            for indices in largest_batches(task, epoch):  # for the peak of the memory
                strategy.update(1, [indices], task.size(indices), 0.0)
        validation, longer = measure_validation(strategy)
        checkpoint = _checkpoint(strategy)
        memory = peak_memory([process.pid for process in getattr(strategy, "processes", [])], device)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        raise MachineError(
            f"this machine ran out of memory in the first updates; lower train.batch_tokens ({config.batch_tokens}) or "
            "the model's width"
        ) from problem
    finally:
        strategy.close()
    return Speed(len(times), _typical(times), tokens, validation, memory, start + longer, checkpoint)


def seconds_per_update(
    task: Task, config: TrainConfig, epoch: Sequence[Indices], seconds: float, group: Group | None = None
) -> float:
    """The time of an update with batches from all over `epoch`, from a few of them; by all ranks of the group."""
    strategy = choose_strategy(task, config, group)
    spread = [epoch[place * len(epoch) // MOST_UPDATES] for place in range(MOST_UPDATES)] if len(epoch) else []
    try:
        return strategy.broadcast(_typical(_updates(strategy, spread, seconds)[0]))
    finally:
        strategy.close()


def seconds_per_validation(task: Task, config: TrainConfig) -> float:
    """The time of a validation with these settings by all processes, from a share of it by one."""
    with configured(task, config):
        strategy = choose_strategy(task, config.model_copy(update={"workers": 1}))
        try:
            return measure_validation(strategy)[0] / (config.workers or 1)
        finally:
            strategy.close()


def epoch_with(task: Task, config: TrainConfig, batch_tokens: int) -> list[Indices]:
    """The batches of the first epoch with another batch size."""
    return list(with_settings(task, config.model_copy(update={"batch_tokens": batch_tokens})).epoch(0))


def largest_batches(task: Task, epoch: Sequence[Indices]) -> list[Indices]:
    """The batch with the most targets and the one with the longest examples, which need most memory."""
    return [max(epoch, key=task.size), max(epoch, key=lambda indices: task.size(indices) / max(1, len(indices)))]


@contextmanager
def unchanged(task: Task) -> Iterator[None]:
    """After the block, buffers and carried states are what they were, and there are no gradients."""
    copies = [(value, value.clone()) for value in (*task.model.buffers(), *persistent_state(task).values())]
    try:
        yield
    finally:
        for value, before in copies:
            value.copy_(before)
        for parameter in task.model.parameters():
            parameter.grad = None


def _typical(times: list[float]) -> float:
    """The mean of the middle half."""
    middle = sorted(times)[len(times) // 4 : len(times) - len(times) // 4]
    return sum(middle) / len(middle)


def _updates(strategy: Strategy, epoch: Sequence[Indices], seconds: float) -> tuple[list[float], float, float]:
    """The times of the updates, the mean number of tokens of one, and by how much the first ones took longer."""
    task, config = strategy.task, strategy.config
    if not len(epoch):
        raise UserError("there are no training batches; check the recipe's [data]")
    batches = (epoch[place % len(epoch)] for place in range(MOST_UPDATES * config.accumulate))
    times: list[float] = []
    first: list[float] = []  # of updates that are not counted
    sizes: list[int] = []
    start = time.perf_counter()
    step = 0

    def timed(chosen: list[Indices], size: int, repeats: int = 1) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            strategy.update(step, chosen, size, 0.0)
        if strategy.device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / repeats

    with unchanged(task):
        while chosen := list(islice(batches, config.accumulate)):
            step += 1
            size = sum(task.size(indices) for indices in chosen)
            sizes.append(size)
            first += [timed(chosen, size) for _ in range(strategy.settles_after)]
            repeats = IN_A_ROW if strategy.settles_after else 1
            (first if step <= WARM_UP else times).append(timed(chosen, size, repeats))
            spent = sum(times) > seconds or (bool(times) and time.perf_counter() - start > MOST_TIMES * seconds)
            if strategy.broadcast(spent):
                break
    times = times or first[-1:]
    longer = max(0.0, sum(first) - len(first) * _typical(times))
    return times, sum(sizes) / len(sizes), longer


def measure_validation(strategy: Strategy) -> tuple[float, float]:
    """Seconds of a whole validation by all processes, from a share by one, and by how much the first is longer."""

    def seconds(parts: int) -> float:
        start = time.perf_counter()
        strategy.task.validate(0, parts)
        return time.perf_counter() - start

    with strategy.evaluating():
        first, again = seconds(SMALL_SHARE), seconds(SMALL_SHARE)
        longer = first - again
        if strategy.device.type == "cuda" and SMALL_SHARE * again < MOST_SECONDS:
            cold, whole = seconds(1), seconds(1)  # a few sentences take a GPU as long as many
            longer += cold - whole
        else:
            whole = LARGE_SHARE * seconds(LARGE_SHARE) if again < FAST else SMALL_SHARE * again
    return whole / strategy.world_size, max(0.0, longer)


def _checkpoint(strategy: Strategy) -> float:
    """Seconds for which training stops to write a checkpoint; 0 where there is too little space for one."""
    writer = CheckpointWriter(strategy.device.type == "cuda")
    with TemporaryDirectory(prefix="harken-") as folder:
        try:
            start = time.perf_counter()
            strategy.save(Path(folder), Progress(), {}, writer)
            seconds = time.perf_counter() - start
            writer.wait()
        except UserError:
            seconds = 0.0
        finally:
            writer.close()
    return seconds


def peak_memory(children: list[int], device: torch.device) -> int:
    """The peak of this process and its workers together; shared pages count once."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))  # also what the pools of CUDA graphs keep
    try:
        return sum(_peak(place) for place in ("self", *map(str, children)))
    except (OSError, KeyError, ValueError):  # not Linux
        import psutil

        memory = psutil.Process().memory_info()  # the peak is known on Windows
        return int(getattr(memory, "peak_wset", memory.rss)) * (1 + len(children))


def _peak(process: str) -> int:
    """Bytes of a process: its proportional share of the resident pages, and what it had more at its peak."""
    fields = {}
    for name in ("status", "smaps_rollup"):
        for line in Path("/proc", process, name).read_text().splitlines():
            key, _, value = line.partition(":")
            if value.endswith(" kB"):
                fields[key] = 1024 * int(value.split()[0])
    return fields["Pss"] + max(0, fields["VmHWM"] - fields["VmRSS"])
