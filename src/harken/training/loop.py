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
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harken.errors import Interrupted, MachineError, UserError
from harken.training.checkpoints import MODEL, Progress, load_checkpoint, save_tensors
from harken.training.config import TrainConfig
from harken.training.diagnosis import dead_gradients, keep_batch, loss_spike
from harken.training.display import Display, Silence, Throughput
from harken.training.fitting import Plan, fit
from harken.training.log import MetricsLog
from harken.training.machine import peak_flops
from harken.training.prefetch import Prefetcher, prefetcher_for
from harken.training.schedules import factor
from harken.training.strategies import StepResult, Strategy, choose_strategy
from harken.training.strategies.base import is_out_of_memory
from harken.training.task import Indices, Task, Work

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

VALIDATION_SHARE = 0.2  # of the time that a run limited in minutes may spend on validation before its end
Callback = Callable[[dict[str, Any]], Any]  # called with each line of metrics.jsonl; True ends the run
SLOW_DATA = 0.05  # share of the time spent on batches that the user is told of
DIAGNOSED = 3  # NaN or infinite losses whose origin is searched in a run
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
        group: Group | None = None,
    ) -> None:
        """`group`: the ranks of a torchrun job; rank 0 alone displays, calls the callbacks and writes the folder."""
        self.task, self.config, self.folder, self.callbacks, self.group = task, config, folder, callbacks, group
        self.is_main = group is None or group.is_main
        self.ended = False  # by a callback
        self.display = display if display is not None and self.is_main else Silence()
        self.device = torch.device(config.device)
        self.strategy: Strategy
        self.progress = Progress()
        self.stopping: int | None = None  # the signal that asked for it
        self.unread: deque[tuple[int, list[Indices], int, StepResult]] = deque()  # the last updates and their results
        self.was_split = False  # an update, because memory ran out
        self.diagnosed = 0  # updates with a NaN or infinite loss
        self.skipped = 0  # updates in a row
        self.prefetcher = Prefetcher(task)
        self.said_slow = False  # that batches take too long
        self.speed = Throughput(0.0)  # since the last line of metrics.jsonl
        self.work = Work(0, 0.0)  # likewise
        self.peak: float | None = None  # FLOP/s of the device
        self.current_epoch: tuple[int, Sequence[Indices]] | None = None  # its number and batches

    def fit(self, learning_rate: float) -> Plan:
        """Choose what the recipe leaves open of `[train]` by the budget and the data (`harken.training.fitting`)."""
        torch.set_num_threads(self.config.threads or 1)
        return fit(self.task, self.config, learning_rate, self.group)

    def run(self, resume: bool = False) -> Progress:
        """Train until the budget is spent, validation stops improving, or a signal comes.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP came; a checkpoint was saved.
            UserError: the loss is NaN, nothing can be trained on, or the folder cannot be written.
            MachineError: out of memory, or a worker was killed.
        """
        ranks = (0, 1) if self.group is None else (self.group.rank, self.group.world_size)
        self.prefetcher = prefetcher_for(self.task, self.device, *ranks)
        self.strategy = choose_strategy(self.task, self.config, self.group)
        self.peak = peak_flops(self.config.device)
        try:
            restored = self._restore(self.folder) if resume else False
            if not restored and self.config.branch_from is not None:
                self._branch(Path(self.config.branch_from))
            if self.is_main:
                self.log = MetricsLog(self.folder, self.progress.step if restored else None)
            if not self._done():
                self.display.start("resuming" if restored else "training", self._spent())
                with self._signals():
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
        self.rate = config.learning_rate * factor(
            *(config.schedule, state.step, self._spent(), config.warmup_steps, state.reduced, config.cooldown)
        )
        result = self.strategy.update(state.step, batches, num_tokens, self.rate)
        state.tokens += num_tokens
        if work := getattr(self.task, "work", None):
            self.work = reduce(Work.plus, map(work, batches), self.work)
        self.unread.append((state.step, batches, num_tokens, result))
        if self.strategy.pieces > 1 and not self.was_split:
            self.was_split = True
            self._event(
                f"memory ran out, so the batch was computed in {self.strategy.pieces} parts; if this happens often, a "
                f"lower train.batch_tokens than {config.batch_tokens} is faster"
            )
        self._read_results(keep=1 if isinstance(result.loss, Tensor) else 0)

    def _read_results(self, keep: int = 0) -> None:
        """Count the results of updates, but for the last `keep`: reading those of a GPU would wait for it."""
        state = self.progress
        while len(self.unread) > keep:
            step, batches, num_tokens, result = self.unread.popleft()
            if result.ready is not None:
                result.ready.synchronize()
            if not bool(result.skipped):
                state.window_loss += float(result.loss)
                state.window_tokens += num_tokens
                self.skipped = 0
                if spike := loss_spike(state, float(result.loss) / max(num_tokens, 1)):
                    self._event(spike)
                continue
            self.skipped += 1
            if self.skipped == 1 and self.diagnosed < DIAGNOSED:
                self._diagnose(step, batches)
            if self.skipped >= NAN_PATIENCE:
                raise UserError(
                    f"the loss or its gradient is NaN or infinite since step {step - self.skipped + 1}; lower "
                    f"train.learning_rate ({self.config.learning_rate}) or train.clip_norm and train into a new folder"
                )

    def _diagnose(self, step: int, batches: list[Indices]) -> None:
        """Say in which layer NaN or infinite values began, and keep the batch."""
        self.diagnosed += 1
        found = self.strategy.diagnose(step, batches)
        if not found:
            self._event(f"update {step} was skipped: its loss or gradient is NaN or infinite")
            return
        place, indices = found[0]
        kept = ""
        if self.is_main:
            path = keep_batch(self.folder, step, place, np.array(indices), self.task.collate(np.array(indices)))
            kept = f"; the batch is kept in {path.name}"
        self._event(f"update {step} was skipped: {place}{kept}")

    def _event(self, text: str) -> None:
        """A line for the user and in metrics.jsonl."""
        if self.is_main:
            self.log.write({"kind": "event", "step": self.progress.step, "event": text})
            self.display.note(f"step {self.progress.step:>6}  {text}")

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
        """Add the time since the last call to the run's time. Rank 0 has the clock; a signal to one rank is for all."""
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.progress.seconds += passed
        own = [self.progress.seconds if self.is_main else 0.0, float(self.stopping or 0)]
        self.progress.seconds, signalled = self.strategy.maximum(own)
        if signalled:
            self.stopping = int(signalled)
        if training:
            self.progress.window_seconds += passed
            seconds = max(self.progress.window_seconds, 1e-9)
            share = self.work.flops / seconds / self.peak if self.peak and self.work.flops else None
            self.speed = Throughput(self.progress.window_tokens / seconds, share)

    def _record(self, entry: dict[str, Any]) -> None:
        """A line of metrics.jsonl, also for the callbacks."""
        if self.is_main:
            self.log.write(entry)
            for callback in self.callbacks:
                self.ended = callback(dict(entry)) is True or self.ended
        self.ended = bool(self.strategy.maximum([float(self.ended)])[0])

    def _log_training(self) -> None:
        state = self.progress
        self._read_results()
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
        if self.work.tokens:  # source and target
            entry["all_tokens_per_second"] = self.work.tokens / max(state.window_seconds, 1e-9)
        if self.speed.utilisation is not None:
            entry["utilisation"] = self.speed.utilisation
        self._record(entry)
        self.work = Work(0, 0.0)
        if data_wait > SLOW_DATA and not self.said_slow:
            self.said_slow = True
            self.display.note(f"note: {data_wait:.0%} of the time of the last updates was spent waiting for batches")
        state.window_loss, state.window_tokens, state.window_seconds = 0.0, 0, 0.0

    def _validate(self) -> bool:
        """Evaluate the averaged weights and save them if they are the best; True where patience is exhausted."""
        state, config = self.progress, self.config
        began = state.seconds
        self._read_results()
        if dead := dead_gradients(state, self.task.model):
            self._event(dead)
        with self.strategy.average.applied():
            metrics = self.strategy.validate()
            score = metrics[self.task.monitor]
            last = math.nan if state.best is None else state.best  # NaN is worse than any score
            better = math.isnan(last) or (score > last if self.task.mode == "max" else score < last)
            if better:
                state.best, state.best_step, state.stale, state.waited = score, state.step, 0, 0
                weights = self.strategy.weights()
                if self.is_main:
                    save_tensors(self.folder / MODEL, weights)
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
        self._read_results()
        self.strategy.save(self.folder, self.progress, self._settings())

    def _branch(self, folder: Path) -> None:
        """Start from the checkpoint of another run; its scores are not this run's."""
        if not self._restore(folder):
            raise UserError(f"train.branch_from: there is no checkpoint in {folder}; name the folder of a run")
        self.progress = self.progress.branch()
        if self._spent() >= 1:
            raise UserError(
                f"train.branch_from: the run in {folder} is at step {self.progress.step}, which is all of this run's "
                "budget; raise train.max_steps, max_epochs or max_minutes, in which the earlier run counts"
            )

    def _restore(self, folder: Path) -> bool:
        found = load_checkpoint(folder)
        if found is None:
            return False
        for key, value in self._settings().items():
            if found.settings.get(key) != value:
                old = str(found.settings.get(key))[:100]
                raise UserError(
                    f"{folder} was trained with train.{key} = {old}, not {value}; resume with the old value "
                    f"(--set train.{key}={old}) or train into a new folder"
                )
        self.strategy.restore(found.tensors, folder)
        self.progress = found.progress
        if found.warning:
            self.display.note(f"{found.warning}; resuming from the checkpoint before it, at step {self.progress.step}")
        return True

    def _settings(self) -> dict[str, Any]:
        """The settings that must not change when a run is resumed."""
        config = self.config
        return {"seed": config.seed, "batch_tokens": config.batch_tokens, "precision": config.precision}

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT (Ctrl-C), SIGTERM and SIGHUP finish the step and save; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.stopping is not None and self.group is None:  # torchrun sends its own after that of the terminal
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
