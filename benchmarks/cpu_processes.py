"""Two CPU processes that share every batch: forked workers against torch.distributed ranks (gloo), in tokens a second.

    python benchmarks/cpu_processes.py --recipes phrasebook-transformer phrasebook-attention --updates 30 --rounds 10

Both compute the same updates of the same task, in turns of a few seconds, so that other work on the machine disturbs
both alike; what counts is the median of the ratios of neighbouring turns. Starting processes, compiling kernels and
validation are not part of it. The ranks are forked with torchrun's environment variables, and so in the scheduling
group of this script (torchrun starts them in groups of their own).
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from harken.plan import resolve
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.training.config import TrainConfig
from harken.training.strategies import Strategy, choose_strategy
from harken.training.strategies.group import joined

SETTINGS = [
    *("train.precision=float32", "train.device=cpu", "train.threads=1", "train.workers=2", "train.batch_tokens=1024"),
    *("train.max_steps=100", "train.max_minutes=none", "data.size=5000"),
]
WARM_UP = 3  # updates


def tokens_per_second(strategy: Strategy, updates: int) -> float:
    """Of this many updates, after a few that are not counted."""
    task, tokens, began = strategy.task, 0, 0.0
    epoch = task.epoch(0)
    for step in range(1, updates + WARM_UP + 1):
        if step == WARM_UP + 1:
            tokens, began = 0, time.perf_counter()
        indices = epoch[step % len(epoch)]
        strategy.update(step, [indices], task.size(indices), 1e-4)
        tokens += task.size(indices)
    return tokens / (time.perf_counter() - began)


def forked(task: Any, config: TrainConfig, updates: int) -> float:
    """With forked workers."""
    strategy = choose_strategy(task, config)
    try:
        return tokens_per_second(strategy, updates)
    finally:
        strategy.close()


def gloo(task: Any, config: TrainConfig, updates: int) -> float:
    """With two ranks; rank 0 reports."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    reads, writes = os.pipe()
    children = []
    for rank in range(2):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        os.environ |= {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        with joined() as group:
            assert group is not None
            group.connect("cpu")
            speed = tokens_per_second(choose_strategy(task, config, group), updates)
            if rank == 0:
                os.write(writes, str(speed).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        rate = float(answer.read())
    for child in children:
        os.waitpid(child, 0)
    return rate


def main() -> None:
    """Print the speeds of every round, and the median of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["phrasebook-transformer", "phrasebook-attention"])
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=10)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for name in chosen.recipes:
        recipe = resolve(load_recipe(name, SETTINGS))[0]
        with TemporaryDirectory() as folder:
            task = job_of(recipe.task).prepare(recipe, Path(folder), False).task
        pairs = []
        for number in range(chosen.rounds):
            turns = [forked, gloo] if number % 2 == 0 else [gloo, forked]
            speeds = {turn.__name__: turn(task, recipe.train, chosen.updates) for turn in turns}
            pairs.append((speeds["forked"], speeds["gloo"]))
            print(f"{name} {number}: forked {pairs[-1][0]:,.0f}, gloo {pairs[-1][1]:,.0f} tokens/s", flush=True)
        ratios = sorted(forked_rate / other for forked_rate, other in pairs)
        best = [max(speeds) for speeds in zip(*pairs, strict=True)]
        print(
            f"{name}: forked / gloo {statistics.median(ratios):.2f} (median; {ratios[0]:.2f} to {ratios[-1]:.2f}); "
            f"fastest turns: forked {best[0]:,.0f}, gloo {best[1]:,.0f} tokens/s"
        )


if __name__ == "__main__":
    main()
