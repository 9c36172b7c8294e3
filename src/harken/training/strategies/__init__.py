"""How one global batch is computed: `single`, `forked` (CPU worker processes), `distributed` (torchrun)."""

from __future__ import annotations

from harken.training.config import TrainConfig
from harken.training.strategies.base import StepResult, Strategy
from harken.training.task import Task

__all__ = ["StepResult", "Strategy", "choose_strategy"]


def choose_strategy(task: Task, config: TrainConfig) -> Strategy:
    """The strategy for a resolved `[train]`: forked workers on a CPU with several of them, else one process."""
    if config.device.startswith("cpu") and (config.workers or 1) > 1:
        from harken.training.strategies.forked import Forked

        return Forked(task, config)
    from harken.training.strategies.captured import Captured

    if Captured.is_supported(task, config):
        return Captured(task, config)
    from harken.training.strategies.single import Single

    return Single(task, config)
