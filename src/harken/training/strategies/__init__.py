"""How one global batch is computed: `single`, `forked` (CPU worker processes), `distributed` (torchrun)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.kernels.backend import choose, reference
from harken.training.config import TrainConfig
from harken.training.prefetch import Prefetcher
from harken.training.strategies.base import StepResult, Strategy
from harken.training.task import Task

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

__all__ = ["StepResult", "Strategy", "choose_strategy"]


def choose_strategy(
    task: Task, config: TrainConfig, group: Group | None = None, prefetcher: Prefetcher | None = None
) -> Strategy:
    """The strategy for a resolved `[train]`.

    Args:
        group: the ranks of a torchrun job. Without it: forked workers on a CPU with several of them, else one process.
        prefetcher: collates the batches; by default each one when it is needed.
    """
    if group is not None:
        if config.sharding == "full":
            from harken.training.strategies.sharded import Sharded

            return Sharded(task, config, group, prefetcher)
        from harken.training.strategies.captured import CAPTURED_REPLICAS
        from harken.training.strategies.distributed import Replicated

        replicas = choose([CAPTURED_REPLICAS, reference("replicated", Replicated)], task, config)
        return replicas.run(task, config, group, prefetcher)
    if config.device.startswith("cpu") and (config.workers or 1) > 1:
        from harken.training.strategies.forked import Forked

        return Forked(task, config, prefetcher=prefetcher)
    from harken.training.strategies.base import Single
    from harken.training.strategies.captured import CAPTURED

    return choose([CAPTURED, reference("single", Single)], task, config).run(task, config, prefetcher=prefetcher)
