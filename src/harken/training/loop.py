"""The training loop.

One update: gradients of the mean loss over the batch (several processes on a CPU), clipping, learning rate, AdamW,
weight average. Every `validate_every` updates the averaged weights are evaluated; the best are `model.safetensors`.

Exactness: the order of the data is a function of (seed, epoch), random numbers of (seed, step, worker), and a
checkpoint holds all other state; so a run that was killed and resumed ends with the same bits as one that was not (on a
CPU, with a budget in steps or epochs: minutes depend on the clock).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.errors import Interrupted, MachineError, UserError
from harken.training.average import Average
from harken.training.checkpoints import (
    MODEL,
    Progress,
    load_checkpoint,
    save_checkpoint,
    save_tensors,
    state_of,
    with_current_names,
)
from harken.training.config import TrainConfig
from harken.training.display import Display, Silence
from harken.training.fitting import Plan, fit
from harken.training.log import MetricsLog
from harken.training.measuring import autocast
from harken.training.optimizers import build_optimizer, clip_by_global_norm, optimizer_tensors, restore_optimizer
from harken.training.prefetch import Prefetcher, prefetcher_for
from harken.training.schedules import factor
from harken.training.task import Indices, Task, carried_by, move_carried
from harken.training.workers import Workers

VALIDATION_SHARE = 0.2  # of the time that a run limited in minutes may spend on validation before its end
Callback = Callable[[dict[str, Any]], Any]  # called with each line of metrics.jsonl; True ends the run
SLOW_DATA = 0.05  # share of the time spent on batches that the user is told of
NAN_PATIENCE = 20  # updates in a row with a NaN or infinite gradient before the run is given up


class Trainer:
    """Trains one task in one folder. `config` must be resolved: device, precision, workers and threads are given."""

    def __init__(
        self,
        task: Task,
        config: TrainConfig,
        folder: Path,
        display: Display | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.task, self.config, self.folder, self.callbacks = task, config, folder, callbacks
        self.ended = False  # by a callback
        self.display = display or Silence()
        self.device = torch.device(config.device)
        self.names: dict[Tensor, str] = {value: name for name, value in task.model.named_parameters()}
        self.progress = Progress()
        self.stopping: int | None = None  # the signal that asked for it
        self.skipped = 0
        self.prefetcher = Prefetcher(task)
        self.said_slow = False  # that batches take too long
        self.speed = 0.0  # tokens per second since the last line of metrics.jsonl
        self.current_epoch: tuple[int, Sequence[Indices]] | None = None  # its number and batches

    def fit(self, learning_rate: float) -> Plan:
        """Choose what the recipe leaves open of `[train]` by the budget and the data (`harken.training.fitting`)."""
        torch.set_num_threads(self.config.threads or 1)
        return fit(self.task, self.config, learning_rate)

    def run(self, resume: bool = False) -> Progress:
        """Train until the budget is spent, validation stops improving, or a signal comes.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP came; a checkpoint was saved.
            UserError: the loss is NaN, nothing can be trained on, or the folder cannot be written.
            MachineError: out of memory, or a worker was killed.
        """
        torch.set_num_threads(self.config.threads or 1)
        self.task.model.to(self.device).train()
        move_carried(self.task, self.device)
        workers = self.config.workers or 1 if self.device.type == "cpu" else 1
        self.prefetcher = prefetcher_for(self.task, self.device)
        self.workers = Workers(self.task, workers, self.config.seed, self._autocast, self.config.threads or 1)
        try:
            self.optimizer = build_optimizer(self.task.model, self.config)
            self.average = Average(self.task.model, self.config.average)
            restored = self._restore() if resume else False
            self.log = MetricsLog(self.folder, self.progress.step if restored else None)
            if not self._done():
                self.display.start("resuming" if restored else "training", self._spent())
                with self._signals():
                    self._train()
        except (torch.OutOfMemoryError, MemoryError) as problem:
            where = "the GPU" if self.device.type == "cuda" else "this machine"
            raise MachineError(
                f"{where} ran out of memory at step {self.progress.step}; lower train.batch_tokens "
                f"({self.config.batch_tokens}) or the model's width, and continue with resume=True"
            ) from problem
        finally:
            self.workers.close()
            self.prefetcher.close()
            self.display.stop()
        return self.progress

    def _train(self) -> None:
        state, config = self.progress, self.config
        state.finished, state.stopped_by = False, ""
        self.clock = time.perf_counter()
        batches = self._batches()
        if state.step == 0:
            self._epoch()
            self._save()  # from here on there is always something to resume from
        while self._spent() < 1 and not self.ended:
            chosen = [next(batches) for _ in range(config.accumulate)]
            self.prefetcher.expect(self._upcoming())
            self._update(chosen)
            self._tick()
            self._show()
            if state.step % config.log_every == 0:
                self._log_training()
            if state.step % config.validate_every == 0 and self._can_afford_validation() and self._validate():
                break
            if state.step % config.checkpoint_every == 0:
                self._save()
            if self.stopping is not None:
                self._save()
                raise Interrupted(self.stopping)
        if state.step and state.step != state.validated_step:
            self._validate()
        state.finished, state.stopped_by = True, "callback" if self.ended else self._limit_reached()
        self._save()

    def _can_afford_validation(self) -> bool:
        """With a budget in minutes, validation may take `VALIDATION_SHARE` of the time; else it is always due."""
        state = self.progress
        if self.config.max_minutes is None or not state.validations:
            return True
        mean = state.validation_seconds / state.validations
        return state.validation_seconds + mean <= VALIDATION_SHARE * state.seconds

    def _update(self, batches: list[Indices]) -> None:
        state, config = self.progress, self.config
        state.step += 1
        num_tokens = sum(self.task.size(indices) for indices in batches)
        loss = self.workers.backward(state.step, batches, max(num_tokens, 1))
        norm = clip_by_global_norm(self.names, config.clip_norm)
        rate = config.learning_rate * factor(
            config.schedule, state.step, self._spent(), config.warmup_steps, state.reduced
        )
        if math.isfinite(loss) and bool(torch.isfinite(norm)):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.average.update(state.step)
            state.window_loss += loss
            state.window_tokens += num_tokens
            self.skipped = 0
        else:
            self.skipped += 1
            if self.skipped >= NAN_PATIENCE:
                raise UserError(
                    f"the loss or its gradient is NaN or infinite since step {state.step - self.skipped + 1}; lower "
                    f"train.learning_rate ({config.learning_rate}) or train.clip_norm and train into a new folder"
                )
        state.tokens += num_tokens
        self.rate = rate

    def _show(self) -> None:
        state = self.progress
        mean = state.window_loss / max(state.window_tokens, 1)
        self.display.step(state.step, self._spent(), mean, self.rate, self.speed)

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

    def _done(self) -> bool:
        """Whether the run has finished and its budget was not raised since."""
        return self.progress.finished and (self._spent() >= 1 or self._patience_exhausted())

    def _patience_exhausted(self) -> bool:
        return self.config.patience is not None and self.progress.stale >= self.config.patience

    def _shares(self) -> dict[str, float]:
        """Which share of each limit is used up."""
        state, config = self.progress, self.config
        shares = {}
        if config.max_steps:
            shares["max_steps"] = state.step / config.max_steps
        if config.max_epochs:
            shares["max_epochs"] = (state.epoch + state.position / len(self._epoch())) / config.max_epochs
        if config.max_minutes:
            shares["max_minutes"] = state.seconds / (60 * config.max_minutes)
        return shares

    def _spent(self) -> float:
        """The share of the budget that is used up, by whichever limit is nearest."""
        return min(1.0, max(self._shares().values(), default=0.0))

    def _limit_reached(self) -> str:
        """The limit that ends the run."""
        shares = self._shares()
        nearest = max(shares, key=lambda name: shares[name], default="")
        return nearest if shares and shares[nearest] >= 1 else "patience"

    def _tick(self, training: bool = True) -> None:
        """Add the time since the last call to the run's time."""
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.progress.seconds += passed
        if training:
            self.progress.window_seconds += passed
            self.speed = self.progress.window_tokens / max(self.progress.window_seconds, 1e-9)

    def _record(self, entry: dict[str, Any]) -> None:
        """A line of metrics.jsonl, also for the callbacks."""
        self.log.write(entry)
        for callback in self.callbacks:
            self.ended = callback(dict(entry)) is True or self.ended

    def _log_training(self) -> None:
        state = self.progress
        data_wait = round(self.prefetcher.share_of(state.window_seconds), 4)
        entry = {
            "kind": "train",
            "step": state.step,
            "epoch": state.epoch,
            "loss": state.window_loss / max(state.window_tokens, 1),
            "learning_rate": self.rate,
            "tokens": state.window_tokens,
            "tokens_per_second": state.window_tokens / max(state.window_seconds, 1e-9),
            "data_wait": data_wait,
            "seconds": state.seconds,
        }
        self._record(entry)
        if data_wait > SLOW_DATA and not self.said_slow:
            self.said_slow = True
            self.display.note(f"note: {data_wait:.0%} of the time of the last updates was spent waiting for batches")
        state.window_loss, state.window_tokens, state.window_seconds = 0.0, 0, 0.0

    def _validate(self) -> bool:
        """Evaluate the averaged weights and save them if they are the best; True where patience is exhausted."""
        state, config = self.progress, self.config
        began = state.seconds
        with self.average.applied():
            metrics = self.workers.validate()
            score = metrics[self.task.monitor]
            last = math.nan if state.best is None else state.best  # NaN is worse than any score
            better = math.isnan(last) or (score > last if self.task.mode == "max" else score < last)
            if better:
                state.best, state.best_step, state.stale, state.waited = score, state.step, 0, 0
                save_tensors(self.folder / MODEL, state_of(self.task.model))
            else:
                state.stale += 1
                state.waited += 1
                if state.waited > config.plateau_patience:
                    state.reduced, state.waited = state.reduced * config.plateau_factor, 0
        self._tick(training=False)
        state.validated_step, state.validations = state.step, state.validations + 1
        state.validation_seconds += state.seconds - began
        self._record({"kind": "valid", "step": state.step, **metrics, "best": better, "seconds": state.seconds})
        shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        self.display.note(f"step {state.step:>6}  validation: {shown}{'  (best)' if better else ''}")
        return self._patience_exhausted()

    def _save(self) -> None:
        tensors = {f"model.{name}": value for name, value in state_of(self.task.model).items()}
        tensors |= {f"average.{name}": value for name, value in self.average.shadow.items()}
        tensors |= dict(optimizer_tensors(self.optimizer, self.names))
        tensors |= {f"carried.{name}": value for name, value in carried_by(self.task).items()}
        save_checkpoint(self.folder, tensors, self.progress, self._settings())

    def _restore(self) -> bool:
        found = load_checkpoint(self.folder)
        if found is None:
            return False
        found = found._replace(tensors=with_current_names(self.task.model, found.tensors))
        for key, value in self._settings().items():
            if found.settings.get(key) != value:
                old = str(found.settings.get(key))[:100]
                raise UserError(
                    f"{self.folder} was trained with train.{key} = {old}, not {value}; resume with the old value "
                    f"(--set train.{key}={old}) or train into a new folder"
                )
        wanted = {f"model.{name}": value for name, value in state_of(self.task.model).items()}
        wanted |= {f"average.{name}": value for name, value in self.average.shadow.items()}
        wanted |= {f"carried.{name}": value for name, value in carried_by(self.task).items()}
        for name, value in wanted.items():
            if name not in found.tensors or found.tensors[name].shape != value.shape:
                raise UserError(
                    f"the checkpoint in {self.folder} has no {name} of shape {tuple(value.shape)}, so it belongs to "
                    "another recipe or version; train into a new folder, or start this run over with restart=True"
                )
        with torch.no_grad():
            for name, value in wanted.items():
                value.copy_(found.tensors[name])
        self.progress = found.progress
        restore_optimizer(self.optimizer, self.names, found.tensors)
        if found.warning:
            self.display.note(f"{found.warning}; resuming from the checkpoint before it, at step {self.progress.step}")
        return True

    def _settings(self) -> dict[str, Any]:
        """The settings that must not change when a run is resumed."""
        config = self.config
        return {"seed": config.seed, "batch_tokens": config.batch_tokens, "precision": config.precision}

    def _autocast(self) -> AbstractContextManager[Any]:
        return autocast(self.config)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT (Ctrl-C), SIGTERM and SIGHUP finish the step and save; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.stopping is not None:
                raise KeyboardInterrupt
            self.stopping = number
            with suppress(RuntimeError, OSError):  # no print inside an interrupted print, nor to a lost terminal
                self.display.note("stopping: saving a checkpoint first ...")

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
