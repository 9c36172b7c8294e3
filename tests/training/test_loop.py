"""The trainer with a task of numbers: budgets, patience, accumulation, clipping, averages and bad numbers."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from harken.errors import UserError
from harken.training import loop
from harken.training.average import EVERY
from harken.training.checkpoints import load_checkpoint
from harken.training.folder import MODEL
from harken.training.log import read_metrics
from harken.training.monitor import NAN_PATIENCE
from harken.training.planning import measuring


def steps_of(trainer: Any) -> int:
    return trainer.run().step


def weights(task: Any) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in task.model.parameters()]


def test_it_learns_and_keeps_the_best(trainer: Callable, table: Any, tmp_path: Path) -> None:
    state = trainer(table(dropout=0.0), max_steps=300, validate_every=50, average=0.9).run()
    scores = [entry for entry in read_metrics(tmp_path / "run") if entry["kind"] == "valid"]
    assert [entry["step"] for entry in scores] == [50, 100, 150, 200, 250, 300]
    losses = [entry["loss"] for entry in scores]
    assert losses[-1] < 0.02 < losses[0]
    assert state.best == min(losses)
    assert state.best_step == scores[int(np.argmin(losses))]["step"]
    assert [entry["best"] for entry in scores] == [loss == min(losses[: i + 1]) for i, loss in enumerate(losses)]


def test_the_best_weights_are_kept_not_the_last(trainer: Callable, table: Any, tmp_path: Path) -> None:
    scores = iter([3.0, 1.0, 2.0, 4.0])

    class Judged(table):
        def score(self, results: list[Any]) -> dict[str, float]:
            return {"loss": next(scores)}

    task = Judged()
    seen = {}
    task.validate = lambda part, parts: seen.setdefault(len(seen), weights(task)) and None
    state = trainer(task, max_steps=20, average=0.0).run()
    assert (state.best, state.best_step, state.stale) == (1.0, 10, 2)
    kept = load_file(tmp_path / "run" / MODEL)
    for (name, _), best, last in zip(task.model.named_parameters(), seen[1], seen[3], strict=True):
        assert torch.equal(kept[name], best) and not torch.equal(kept[name], last)


def test_higher_can_be_better(trainer: Callable, table: Any) -> None:
    scores = iter([1.0, 3.0, 2.0, math.nan])

    class Judged(table):
        mode = "max"

        def score(self, results: list[Any]) -> dict[str, float]:
            return {"loss": next(scores)}

    state = trainer(Judged(), max_steps=20).run()
    assert (state.best, state.best_step) == (3.0, 10)


def test_a_first_score_that_is_no_number_can_be_beaten(trainer: Callable, table: Any) -> None:
    scores = iter([math.nan, 5.0, 6.0, 4.0])

    class Judged(table):
        def score(self, results: list[Any]) -> dict[str, float]:
            return {"loss": next(scores)}

    assert trainer(Judged(), max_steps=20).run().best == 4.0


def test_of_equal_scores_the_lower_loss_is_kept(trainer: Callable, table: Any, tmp_path: Path) -> None:
    """As BLEU is 0 at first; patience goes on counting."""
    task, losses = table(dropout=0.0), iter([2.0, 1.0, 3.0])
    task.monitor, task.mode = "score", "max"
    task.score = lambda results: {"score": 0.0, "loss": next(losses)}
    state = trainer(task, max_steps=6, validate_every=2).run()
    assert (state.best, state.best_step, state.best_loss, state.stale) == (0.0, 4, 1.0, 2)
    assert [entry["best"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "valid"] == [
        True,
        True,
        False,
    ]


def test_a_checkpoint_is_written_every_ten_minutes(
    trainer: Callable, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    saved: list[int] = []
    run = trainer(table(), max_steps=3, validate_every=100, checkpoint_every=100)
    monkeypatch.setattr(loop.Trainer, "_save", lambda self: saved.append(self.progress.step))
    run.run()
    assert saved == [0, 1, 2, 3, 3]


def test_the_end_is_validated_too(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), max_steps=7).run()
    assert [entry["step"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "valid"] == [5, 7]


def test_a_budget_of_steps(trainer: Callable, table: Any) -> None:
    assert steps_of(trainer(table(), max_steps=13)) == 13


@pytest.mark.parametrize(("epochs", "steps"), [(1, 6), (2, 12), (2.5, 15), (0.1, 1)])
def test_a_budget_of_epochs(trainer: Callable, table: Any, epochs: float, steps: int) -> None:
    assert steps_of(trainer(table(), max_epochs=epochs)) == steps


class Clock:
    """A clock that moves where it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (loop, measuring):
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def timed(self, table: Any, update: float, validation: Callable[[int], float]) -> Any:
        """A task whose updates take this long, and whose validations as long as is said of the updates so far."""
        clock = self

        class Timed(table):
            updates = 0

            def loss(self, model: Any, batch: Any) -> Any:
                clock.now += update
                self.updates += 1
                return super().loss(model, batch)

            def validate(self, part: int, parts: int) -> Any:
                clock.now += validation(self.updates) / parts
                return super().validate(part, parts)

        return Timed()


def test_a_budget_of_minutes(trainer: Callable, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    state = trainer(clock.timed(table, 1.0, lambda _: 0.0), max_minutes=0.2, validate_every=1000).run()
    assert state.step == 12 and state.seconds == 12 and state.stopped_by == "max_minutes"


@pytest.mark.parametrize("every", [10, 10_000])
@pytest.mark.parametrize(
    "validation",
    [lambda _: 0.5, lambda _: 20.0, lambda updates: 40.0 if updates < 20 else 4.0, lambda updates: 2.0 + updates / 100],
    ids=["fast", "slow", "slow at first", "slower and slower"],
)
def test_a_budget_of_minutes_is_that_of_the_whole_command(
    trainer: Callable, table: Any, monkeypatch: pytest.MonkeyPatch, validation: Callable[[int], float], every: int
) -> None:
    clock = Clock(monkeypatch)
    run = trainer(clock.timed(table, 0.1, validation), max_minutes=2, validate_every=every, checkpoint_every=10_000)
    run.started = clock.now
    clock.now += 25  # modules are loaded, data is read, a tokenizer is trained
    lines: list[str] = []
    run.display.log = lines.append
    state = run.run()
    assert not any(line.startswith("note:") for line in lines)  # there is time for training
    assert 0.8 * 120 <= clock.now - run.started <= 1.02 * 120
    assert state.stopped_by == "max_minutes" and state.validated_step == state.step
    after = clock.now
    again = trainer(clock.timed(table, 0.1, validation), max_minutes=2, validate_every=every).run(resume=True)
    assert again.step == state.step and clock.now == after  # it has spent its budget, though less of it in the loop
    more = trainer(clock.timed(table, 0.1, validation), max_minutes=3, validate_every=every).run(resume=True)
    assert more.step > state.step


def test_a_budget_that_is_spent_before_the_first_update_trains_a_little(
    trainer: Callable, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    lines: list[str] = []
    run = trainer(clock.timed(table, 0.1, lambda _: 1.0), max_minutes=1)
    run.display.log = lines.append
    clock.now += 90
    assert run.run().seconds == pytest.approx(6, abs=2)
    [note] = [line for line in lines if line.startswith("note:")]
    assert "max_minutes = 1 is left for training: 90 s passed before it" in note and "max_minutes = 1.8" in note
    state = trainer(clock.timed(table, 0.1, lambda _: 1e4), "slow", max_minutes=1).run()
    assert state.step == 1 and state.validated_step == 1


def test_the_first_budget_reached_ends_the_run(trainer: Callable, table: Any) -> None:
    assert steps_of(trainer(table(), max_steps=100, max_epochs=1.5)) == 9
    assert steps_of(trainer(table(), "other", max_steps=4, max_epochs=1.5)) == 4


def test_patience(trainer: Callable, table: Any, tmp_path: Path) -> None:
    class Stuck(table):
        def score(self, results: list[Any]) -> dict[str, float]:
            return {"loss": 1.0}

    state = trainer(Stuck(), max_steps=1000, patience=3).run()
    assert (state.step, state.best_step, state.finished) == (20, 5, True)
    again = trainer(Stuck(), max_steps=1000, patience=3).run(resume=True)
    assert again.step == 20
    assert trainer(Stuck(), max_steps=1000, patience=4).run(resume=True).step == 25


def test_every_epoch_has_its_own_order(trainer: Callable, table: Any) -> None:
    class Counted(table):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[list[int]] = []

        def summed(self, examples: np.ndarray) -> Tensor:
            if self.model.training:
                self.seen.append(examples.tolist())
            return super().summed(examples)

    task = Counted()
    trainer(task, max_epochs=2).run()
    first, second = (np.concatenate(part).tolist() for part in (task.seen[:6], task.seen[6:]))
    assert sorted(first) == sorted(second) == list(range(24))
    assert first != second


@pytest.mark.parametrize("clip", [None, 0.01])
def test_two_half_batches_accumulated_are_one(trainer: Callable, table: Any, clip: float | None) -> None:
    whole, halves = table(0.0, batch=8, shuffled=False), table(0.0, batch=4, shuffled=False)
    one = trainer(whole, "one", max_steps=12, clip_norm=clip).run()
    two = trainer(halves, "two", max_steps=12, accumulate=2, clip_norm=clip).run()
    assert (one.tokens, one.epoch, one.position) == (96, 3, 3)
    assert (two.tokens, two.epoch, two.position) == (96, 3, 6)
    for left, right in zip(weights(whole), weights(halves), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
    assert not torch.equal(weights(whole)[0], weights(table(0.0))[0])


def test_gradients_are_clipped_together(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), max_steps=1, clip_norm=0.125).run()
    found = load_checkpoint(tmp_path / "run")
    assert found is not None
    first = [value.flatten() for name, value in found[0].items() if name.startswith("optimizer.exp_avg.")]
    assert len(first) == 4
    assert float(torch.cat(first).norm()) == pytest.approx((1 - 0.9) * 0.125, rel=1e-4)  # m = (1 - beta) g


def test_plateau_lowers_the_rate(trainer: Callable, table: Any, tmp_path: Path) -> None:
    class Stuck(table):
        def score(self, results: list[Any]) -> dict[str, float]:
            return {"loss": 1.0}

    settings = {"schedule": "plateau", "plateau_factor": 0.1, "plateau_patience": 1, "log_every": 5}
    trainer(Stuck(), max_steps=35, learning_rate=0.5, **settings).run()
    rates = [entry["learning_rate"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "train"]
    assert rates == pytest.approx([0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005])


def test_the_rate_of_a_schedule_that_ends_with_the_budget(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), max_steps=10, schedule="linear", learning_rate=1.0, log_every=5).run()
    rates = [entry["learning_rate"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "train"]
    assert rates == pytest.approx([0.5, 0.0])


def test_averaged_weights_are_what_is_kept(trainer: Callable, table: Any, watcher: Any, tmp_path: Path) -> None:
    task = table()
    average, display = weights(task), watcher()
    display.step = lambda step, *_: fold(step)

    def fold(step: int) -> None:
        if step % EVERY == 0:
            decay = min(0.7, (1 + step) / (10 + step)) ** EVERY
            for mean, now in zip(average, weights(task), strict=True):
                mean.lerp_(now, 1 - decay)

    trainer(task, display=display, max_steps=16, validate_every=16, average=0.7).run()
    kept, found = load_file(tmp_path / "run" / MODEL), load_checkpoint(tmp_path / "run")
    assert found is not None
    for (name, now), mean in zip(task.model.named_parameters(), average, strict=True):
        torch.testing.assert_close(kept[name], mean, rtol=1e-6, atol=1e-7)
        assert torch.equal(found[0][f"average.{name}"], kept[name])
        assert torch.equal(found[0][f"model.{name}"], now)
        assert not torch.equal(kept[name], now)


def test_lines_of_the_log(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), max_steps=6, accumulate=3).run()
    lines = [entry for entry in read_metrics(tmp_path / "run") if entry["kind"] == "train"]
    assert [entry["step"] for entry in lines] == [2, 4, 6]
    assert [entry["tokens"] for entry in lines] == [24, 24, 24]
    assert [entry["epoch"] for entry in lines] == [0, 1, 2]
    assert all(entry["loss"] > 0 and entry["tokens_per_second"] > 0 for entry in lines)


def test_the_speed_that_is_shown_is_one_that_was_reached(
    trainer: Callable, table: Any, watcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, display = Clock(monkeypatch).timed(table, 1.0, lambda _: 1.0), watcher()
    trainer(task, display=display, max_steps=12, log_every=3, validate_every=4).run()
    assert [shown[0] for shown in display.steps] == list(range(1, 13))
    assert [shown[4] for shown in display.steps] == [4.0] * 12  # four rows a step, a second a step
    assert [shown[1] for shown in display.steps] == pytest.approx([step / 12 for step in range(1, 13)])


def test_numbers_that_are_none_are_skipped(trainer: Callable, table: Any, watcher: Any, tmp_path: Path) -> None:
    class Flawed(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            found = super().summed(examples)
            return found * math.nan if 5 in examples and self.model.training else found

    task, seen = Flawed(batch=4, shuffled=False), []
    display = watcher()
    display.step = lambda *_: seen.append(weights(task))
    state = trainer(task, display=display, max_steps=12, log_every=3).run()
    assert state.step == 12
    same = [torch.equal(seen[i][0], seen[i + 1][0]) for i in range(11)]
    assert same == [True, False, False, False, False, False, True, False, False, False, False]  # row 5: steps 2 and 8
    assert all(bool(torch.isfinite(value).all()) for value in weights(task))
    lines = [entry for entry in read_metrics(tmp_path / "run") if entry["kind"] == "train"]
    assert [entry["tokens"] for entry in lines] == [8, 12, 8, 12]
    assert all(math.isfinite(entry["loss"]) for entry in lines)


def test_a_loss_that_stays_infinite_ends_the_run_with_a_remedy(trainer: Callable, table: Any) -> None:
    class Broken(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            return super().summed(examples) * (math.inf if self.model.training else 1)

    task = Broken()
    before = weights(task)
    run = trainer(task, max_steps=1000, learning_rate=0.25)
    with pytest.raises(UserError, match=r"NaN or infinite since step 1; lower train\.learning_rate \(0\.25\)"):
        run.run()
    assert run.progress.step == NAN_PATIENCE
    assert all(torch.equal(one, other) for one, other in zip(before, weights(task), strict=True))


def test_nothing_to_train_on_is_no_endless_loop(trainer: Callable, table: Any) -> None:
    class Empty(table):
        def epoch(self, number: int) -> list[np.ndarray]:
            return []

    with pytest.raises(UserError, match="there are no training batches"):
        trainer(Empty(), max_steps=5).run()
