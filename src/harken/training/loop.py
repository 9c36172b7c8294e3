"""The training loop.

One update is computed by a strategy (`harken.training.strategies`): gradients of the mean loss over the batch,
clipping, AdamW, weight average. Every `validate_every` updates the averaged weights are evaluated; the best are
`model.safetensors`.

Exactness: the order of the data is a function of (seed, epoch), random numbers of (seed, step, rank), and a
checkpoint holds all other state; so a run that was killed and resumed ends with the same bits as one that was not (on a
CPU, with a budget in steps or epochs: minutes depend on the clock).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harken.errors import Interrupted, MachineError, UserError
from harken.kernels.settings import kernels_enabled
from harken.training.checkpoints import CheckpointWriter, Progress, load_checkpoint
from harken.training.config import TrainConfig
from harken.training.device import peak_flops
from harken.training.display import Display, NullDisplay
from harken.training.folder import MODEL
from harken.training.log import MetricsLog
from harken.training.monitor import UpdateMonitor
from harken.training.optimizers import factor
from harken.training.planning.measuring import measure_validation
from harken.training.prefetch import Prefetcher, prefetcher_for
from harken.training.reporting import Callback, Reporter
from harken.training.stopping import Budget, StopSignals
from harken.training.strategies import Strategy, choose_strategy
from harken.training.strategies.base import is_out_of_memory
from harken.training.task import Indices, Task, Work, with_settings

if TYPE_CHECKING:
    from harken.training.strategies.group import Group


CHECKPOINT_SECONDS = 600.0  # after which a checkpoint is written whatever `train.checkpoint_every` is


class Trainer:
    """Trains one task in one folder. `config` must be resolved: device, precision, workers and threads are given."""

    strategy: Strategy  # these three exist while `run` does
    monitor: UpdateMonitor
    report: Reporter

    def __init__(
        self,
        task: Task,
        config: TrainConfig,
        folder: Path,
        display: Display | None = None,
        callbacks: Sequence[Callback] = (),
        group: Group | None = None,
        started: float | None = None,
    ) -> None:
        """
        Args:
            group: the ranks of a torchrun job; rank 0 alone displays, calls the callbacks and writes the folder.
            started: the `time.perf_counter()` at which a budget in minutes began; now where None.
        """
        self.started = time.perf_counter() if started is None else started
        self.task, self.config, self.folder = with_settings(task, config), config, folder
        self.callbacks, self.group = callbacks, group
        self.is_main = group is None or group.is_main
        self.display = display if display is not None and self.is_main else NullDisplay()
        self.device = torch.device(config.device)
        self.progress = Progress()
        self.budget = Budget(config, lambda: len(self._epoch()))
        self.signals = StopSignals(self.display.log, once=group is not None)
        self.prefetcher = Prefetcher(self.task)
        self.writer = CheckpointWriter(in_background=False)
        self.current_epoch: tuple[int, Sequence[Indices]] | None = None  # its number and batches
        self.ended = False  # by a callback

    def run(self, resume: bool = False) -> Progress:
        """Train until the budget is spent, validation stops improving, or a signal comes.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP came; a checkpoint was saved.
            UserError: the loss is NaN, nothing can be trained on, or the folder cannot be written.
            MachineError: out of memory, or a worker was killed.
        """
        workers = self.config.workers if self.device.type == "cpu" else 1
        ranks = (0, workers or 1) if self.group is None else (self.group.rank, self.group.world_size)
        self.prefetcher = prefetcher_for(self.task, self.device, *ranks)
        self.strategy = choose_strategy(self.task, self.config, self.group, self.prefetcher)
        self.writer = CheckpointWriter(self.device.type == "cuda")
        if self.config.sharding != "none" and self.group is None:
            self.display.log(
                "note: train.sharding is for the ranks of torchrun; all weights of this run are in one process"
            )
        try:
            restored = self._restore(self.folder) if resume else False
            if not restored and self.config.branch_from is not None:
                self._branch(Path(self.config.branch_from))
            log = MetricsLog(self.folder, self.progress.step if restored else None) if self.is_main else None
            peak, unit = peak_flops(self.config.device), getattr(self.task, "unit", "tokens")
            self.report = Reporter(self.progress, self.display, self.callbacks, log, peak, unit)
            self.monitor = UpdateMonitor(self.strategy, self.folder, self.progress, self.report.event)
            if not self.budget.is_done(self.progress):
                self.display.start("resuming" if restored else "training", self.budget.spent(self.progress))
                with self.signals:
                    self._train()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as problem:
            if not is_out_of_memory(problem):
                raise
            where = "the GPU" if self.device.type == "cuda" else "this machine"
            raise MachineError(
                f"{where} ran out of memory at step {self.progress.step}; lower train.batch_tokens "
                f"({self.config.batch_tokens}) or the model's width, and continue with resume=True"
            ) from problem
        finally:
            self.strategy.close()
            self.prefetcher.close()
            self.writer.close()
            self.display.stop()
        return self.progress

    def _train(self) -> None:
        state, config, budget = self.progress, self.config, self.budget
        state.finished, state.stopped_by = False, ""
        self.clock, self.saved = time.perf_counter(), state.seconds
        budget.before = self.clock - self.started
        batches = self._batches()
        if state.step == 0:
            self._epoch()
            if getattr(self.task, "validates_start", False) and not state.validations:
                self._validate()  # weights that are worse than those of the start are not kept
            self._save()  # from here on there is always something to resume from
        if budget.is_validation_unknown(state):
            self._foresee_validation()
            if self.is_main and (note := budget.shortfall()):
                self.display.log(note)
        while (not self._is_spent() or not state.step) and not self.ended:  # at least one update
            chosen = [next(batches) for _ in range(config.accumulate)]
            self.prefetcher.expect(self._upcoming())
            self._update(chosen)
            self.writer.check()
            self.report.add_time(self._tick())
            self.report.show_step(budget.spent(state), self.rate)
            if state.step % config.log_every == 0:
                self._log_training()
            if budget.is_validation_unknown(state):
                self._foresee_validation()
            if state.step % config.validate_every == 0 and budget.can_afford_validation(state):
                self._validate()
                if budget.is_patience_exhausted(state):
                    break
            if state.step % config.checkpoint_every == 0 or state.seconds - self.saved >= CHECKPOINT_SECONDS:
                self._save()
            if self.signals.received is not None:
                self._save()
                self.writer.wait()
                raise Interrupted(self.signals.received)
        if state.step and state.step != state.validated_step:
            self._validate()
        state.stopped_by = "callback" if self.ended else budget.limit_reached(state)
        state.finished, state.spent_minutes = True, (config.max_minutes or 0.0) * (state.stopped_by == "max_minutes")
        self._save()
        self.writer.wait()

    def _update(self, batches: list[Indices]) -> None:
        state, config = self.progress, self.config
        state.step += 1
        num_tokens = sum(self.task.size(indices) for indices in batches)
        self.rate = config.learning_rate * factor(
            *(config.schedule, state.step, self.budget.spent(state), config.warmup_steps, state.reduced),
            config.cooldown,
        )
        result = self.strategy.update(state.step, batches, num_tokens, self.rate)
        state.tokens += num_tokens
        if work := getattr(self.task, "work", None):
            self.report.work = reduce(Work.plus, map(work, batches), self.report.work)
        self.monitor.add(state.step, batches, num_tokens, result)

    def _validate(self) -> None:
        """Evaluate the averaged weights and save them if they are the best."""
        state, config = self.progress, self.config
        began = state.seconds
        self.monitor.read()
        self.monitor.check_gradients()
        with self.strategy.averaged():
            metrics = self.strategy.validate()
            score, loss = metrics[self.task.monitor], metrics.get("loss")
            last = math.nan if state.best is None else state.best  # NaN is worse than any score
            better = math.isnan(last) or (score > last if self.task.mode == "max" else score < last)
            if better:
                state.best, state.stale, state.waited = score, 0, 0
            else:
                state.stale += 1
                state.waited += 1
                if state.waited > config.plateau_patience:
                    state.reduced, state.waited = state.reduced * config.plateau_factor, 0
                better = score == last and loss is not None and state.best_loss is not None and loss < state.best_loss
            if better:  # also with an equal score and a lower loss
                state.best_step, state.best_loss = state.step, loss
                self.strategy.save_weights(self.folder / MODEL)
        self._tick()
        state.validated_step, state.validations = state.step, state.validations + 1
        state.validation_seconds += state.seconds - began
        self.budget.expect_validation(state, state.seconds - began)
        rule = {"monitor": self.task.monitor, "mode": self.task.mode, "spent": self.budget.spent(state)}
        self._end_if(self.report.record_validation(metrics, better, rule))

    def _is_spent(self) -> bool:
        """Whether the budget is used up; where the end depends on a validation, by its time now."""
        if self.budget.spent(self.progress) < 1:
            return False
        if self.group is None and self.budget.is_validation_outdated(self.progress):
            self._foresee_validation()
            self._tick()
        return self.budget.spent(self.progress) >= 1

    def _foresee_validation(self) -> None:
        """Measure a share of a validation, so that a budget in minutes leaves time for the last one."""
        whole, longer = measure_validation(self.strategy) if self.group is None else (0.0, 0.0)
        self._tick()
        self.budget.expect_validation(self.progress, whole + longer * (not self.progress.validations))

    def _log_training(self) -> None:
        self.monitor.read()
        data_wait = round(self.prefetcher.share_of(self.progress.window_seconds), 4)
        self._end_if(self.report.record_training(self.rate, data_wait))

    def _end_if(self, is_asked: bool) -> None:
        """End the run on all ranks where a callback on rank 0 wants it."""
        self.ended = bool(self.strategy.maximum([float(is_asked or self.ended)])[0])

    def _tick(self) -> float:
        """Add the time since the last call to the run's time; rank 0 has the clock. A signal to one rank is for all.

        Returns:
            The seconds since the last call, on this rank.
        """
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        own = [
            self.progress.seconds + passed if self.is_main else 0.0,
            float(self.signals.received or 0),
            self.budget.expected_outside() if self.is_main else 0.0,
        ]
        self.progress.seconds, signalled, self.budget.outside = self.strategy.maximum(own)
        if signalled:
            self.signals.received = int(signalled)
        return passed

    def _batches(self) -> Iterator[Indices]:
        """The batches from the current position on, epoch after epoch."""
        state = self.progress
        while True:
            epoch = self._epoch()
            while state.position < len(epoch):
                state.position += 1
                yield epoch[state.position - 1]
            state.epoch, state.position = state.epoch + 1, 0

    def _upcoming(self) -> Sequence[Indices]:
        """The batches of the next update, as far as this epoch has them."""
        position = self.progress.position
        return self._epoch()[position : position + self.config.accumulate]

    def _epoch(self) -> Sequence[Indices]:
        """The batches of the current epoch."""
        if self.current_epoch is None or self.current_epoch[0] != self.progress.epoch:
            self.current_epoch = self.progress.epoch, self.prefetcher.epoch(self.progress.epoch)
            if not len(self.current_epoch[1]):
                raise UserError("there are no training batches; check the recipe's [data]")
        return self.current_epoch[1]

    def _save(self) -> None:
        self.monitor.read()
        began = time.perf_counter()
        self.strategy.save(self.folder, self.progress, self._settings(), self.writer)
        self.saved, self.budget.checkpoint = self.progress.seconds, time.perf_counter() - began

    def _branch(self, folder: Path) -> None:
        """Start from the checkpoint of another run; its scores are not this run's."""
        if not self._restore(folder):
            raise UserError(f"train.branch_from: there is no checkpoint in {folder}; name the folder of a run")
        self.progress = self.progress.branch()
        if self.budget.spent(self.progress) >= 1:
            raise UserError(
                f"train.branch_from: the run in {folder} is at step {self.progress.step}, which is all of this run's "
                "budget; raise train.max_steps, max_epochs or max_minutes, in which the earlier run counts"
            )

    def _restore(self, folder: Path) -> bool:
        checkpoint = load_checkpoint(folder)
        if checkpoint is None:
            return False
        saved = checkpoint.settings
        compared = self._settings() if folder == self.folder else self._batch_settings()
        for key, value in compared.items():
            if saved.get(key, value) != value and key == "kernels":
                is_set = "is not set now; set it" if saved[key] == "off" else "is set now; unset it"
                state = "with" if saved[key] == "off" else "without"
                raise UserError(
                    f"{folder} was trained {state} HARKEN_KERNELS=off, which {is_set}, or train into a new folder"
                )
            if saved.get(key, value) != value:
                old = str(saved[key])[:100]
                raise UserError(
                    f"{folder} was trained with train.{key} = {old}, not {value}; resume with the old value "
                    f"(--set train.{key}={old}) or train into a new folder"
                )
        self.strategy.restore(checkpoint.tensors, folder)
        self.progress = checkpoint.progress
        if checkpoint.warning:
            self.display.log(
                f"{checkpoint.warning}; resuming from the checkpoint before it, at step {self.progress.step}"
            )
        return True

    def _settings(self) -> dict[str, Any]:
        """The settings that must not change when a run is resumed; any number of ranks may resume one."""
        machine = ("device", "threads", "workers") if self.group is None else ("device", "threads")
        settings = self._batch_settings() | {key: getattr(self.config, key) for key in machine}
        return settings | {"kernels": "on" if kernels_enabled() else "off"}

    def _batch_settings(self) -> dict[str, Any]:
        """The settings that give the checkpoint of a run its meaning, also for a branch of it."""
        return {key: getattr(self.config, key) for key in ("seed", "batch_tokens", "precision")}
