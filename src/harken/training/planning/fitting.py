"""Defaults fitted to the budget and the data: batch size, learning rate, warm-up, regularisation, size of the network.

A batch of 4,096 tokens and a warm-up of 400 updates suit hours of training; in three minutes on two cores they leave 87
updates, all inside the warm-up. So what a recipe leaves open is chosen once the data is read, and written into the run
folder's recipe. The number of updates is what counts most in a short run, so that is planned first:

N                updates with batches of `TRIAL` tokens that the budget pays for: epochs x batches of an epoch, or
                 minutes / the time of a few real updates
size             the largest of a few networks for which N is at least 4,000 (`choose_size`)
batch_tokens     TRIAL, and more where N is above 4,000
learning_rate    inversely proportional to the width (Yang et al., 2022): 2e-3 at 256
warmup_steps     5% of the updates
regularisation   none where the data is seen less than twice, half of the default up to six times; no label smoothing
                 where perplexity is the score, which it raises
average          a window of 1% of the updates
validate_every   eight validations
validate_sentences  300 in a run of less than half an hour, and fewer where these would take a tenth of it

The rules were chosen on validation data: benchmarks/records/2026-11-16-fitted-defaults.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from harken.training.config import Decision, TrainConfig
from harken.training.planning.batch_size import choose_batch_tokens
from harken.training.planning.measuring import epoch_with, seconds_per_update, seconds_per_validation
from harken.training.stopping import LEAST_SHARE
from harken.training.task import Indices, Task, with_settings

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

FITTED = (
    *("batch_tokens", "learning_rate", "warmup_steps", "label_smoothing", "average"),
    *("validate_every", "validate_sentences", "checkpoint_every"),
)
TRIAL = 1024  # tokens of a batch; a task may ask for another number (`smallest_batch`)
UPDATES = 4000  # with fewer, a smaller network learns more in the same time
LARGEST = {"cpu": 4, "cuda": 32}  # batch size, as a multiple of the smallest
BATCHES_PER_EPOCH = 20  # at least, where the data is small
TRIAL_SECONDS, TRIAL_SHARE = 1.5, 0.01  # of updates that are timed, and at most this share of a budget in minutes
TRAINING_SHARE = 0.9  # of the time; the rest is validation
SENTENCES, LEAST_SENTENCES = 300, 30  # that a validation of a short run decodes
VALIDATION_SHARE = 0.1  # of a budget in minutes that one validation may take, else it decodes fewer
PLANNING_SHARE = 0.2  # of a budget in minutes after which no size is measured but the smallest

C = TypeVar("C")


class Fit(NamedTuple):
    """The expected course of a run: its complete settings, its length, and the decisions behind them."""

    config: TrainConfig  # complete
    updates: int
    epochs: float  # how often the data is seen
    decisions: tuple[Decision, ...]


def fit(task: Task, config: TrainConfig, learning_rate: float, group: Group | None = None, elapsed: float = 0.0) -> Fit:
    """Choose the values of `FITTED` that the recipe leaves open.

    Args:
        learning_rate: the peak that suits the network (`peak_rate`).
        group: the ranks of a torchrun job, all of which call this.
        elapsed: seconds of a budget in minutes that are spent already, the same on all ranks.
    """
    torch.set_num_threads(config.threads or 1)
    decisions: list[Decision] = []
    if config.auto_batch:
        budget = choose_batch_tokens(task, config, group)
        decisions.append(Decision("train.batch_tokens", budget, "the most whose batches fit into memory"))
        config = config.model_copy(update={"batch_tokens": budget})
    open_keys = [key for key in FITTED if key not in config.model_fields_set | getattr(task, "unread", set())]
    updates, epochs, batch = config.max_steps or 1, math.inf, config.batch_tokens
    if open_keys and config.max_steps is None:
        smallest = getattr(task, "smallest_batch", None) if "batch_tokens" in open_keys else None
        trial = smallest or batch
        epoch = epoch_with(task, config, trial)
        batches = planned_updates(with_settings(task, config), config, epoch, group, elapsed)
        if smallest:
            most = min(LARGEST[torch.device(config.device).type], len(epoch) / BATCHES_PER_EPOCH)
            batch = round_batch(trial * max(1.0, min(most, batches / UPDATES)))
        updates = max(1, round(batches * trial / batch))
        epochs = batches * config.accumulate / len(epoch)
    smoothing = getattr(task, "smoothing", config.label_smoothing)
    seen = "many" if epochs == math.inf else f"{epochs:.1f}"
    values = {
        "batch_tokens": (batch, f"about {updates:,} updates in the budget"),
        "learning_rate": (learning_rate, "by the width of the network"),
        "warmup_steps": (max(1, min(4000, updates // 20)), "5% of the updates"),
        "label_smoothing": (
            regularisation(smoothing, epochs),
            f"data seen {seen} times" if smoothing else "perplexity is the score",
        ),
        "average": (round(max(0.8, min(0.9995, 1 - 10 / updates)), 4), "a window of 1% of the updates"),
        "validate_every": (max(1, updates // 8), "eight validations"),
        "validate_sentences": (None, "all of them in a run of half an hour or more"),
        "checkpoint_every": (max(1, min(500, updates // 8)), "an eighth of the updates, at most 500"),
    }
    if "validate_sentences" in open_keys and (config.max_minutes or math.inf) < 30:
        values["validate_sentences"] = choose_sentences(task, config, group)
    decisions += [Decision(f"train.{key}", *values[key]) for key in open_keys]
    chosen = {decision.name: decision.value for decision in decisions}
    return Fit(config.model_copy(update=chosen), updates, epochs, tuple(decisions))


def peak_rate(model: Any) -> float:
    """A peak learning rate for AdamW by the `[model]` table: lower for wide, post-norm and pretrained networks.

    >>> from types import SimpleNamespace as Table
    >>> [peak_rate(Table(width=width)) for width in (64, 128, 256, 512)], peak_rate(Table(width=512, norm="post"))
    ([0.004, 0.004, 0.002, 0.001], 0.0004)
    """
    rate = 0.512 / max(128, getattr(model, "width", 256))
    if getattr(model, "norm", "pre") == "post":
        rate *= 0.4
    if getattr(model, "start", None) is not None:
        rate *= 0.25
    return float(f"{rate:.1g}")


def choose_size(
    sizes: Sequence[C],
    build: Callable[[C], Task],
    config: TrainConfig,
    few: int = UPDATES,
    elapsed: Callable[[], float] = lambda: 0.0,
) -> tuple[C, float]:
    """The first size that the budget pays `few` updates for, else the last; and how often it sees the data.

    Where much of the budget is spent already, as on a machine that is busy, the last is taken at once.

    Args:
        sizes: from large to small.
        build: the task with the network of a size.
        elapsed: seconds of a budget in minutes that are spent by now.
    """
    given, epoch = "batch_tokens" in config.model_fields_set, list[Indices]()
    for number, size in enumerate(sizes, start=1):
        if number < len(sizes) and elapsed() > PLANNING_SHARE * 60 * (config.max_minutes or math.inf):
            continue
        task = build(size)
        batch = config.batch_tokens if given else getattr(task, "smallest_batch", TRIAL)
        epoch = epoch or epoch_with(task, config, batch)
        batches = planned_updates(task, config, epoch, elapsed=elapsed())
        chosen = size, batches * config.accumulate / len(epoch)
        if batches >= few:
            break
    return chosen


def choose_sentences(task: Task, config: TrainConfig, group: Group | None = None) -> tuple[int, str]:
    """How many sentences a validation of a short run decodes, and why.

    On a CPU it is measured: on a busy machine, the last validation alone could exceed a budget of a minute or two.
    """
    if group is None and torch.device(config.device).type == "cpu":
        affordable = VALIDATION_SHARE * 60 * (config.max_minutes or math.inf)
        seconds = seconds_per_validation(task, config.model_copy(update={"validate_sentences": SENTENCES}))
        if seconds > affordable:
            few = max(LEAST_SENTENCES, int(SENTENCES * affordable / seconds))
            return few, f"{SENTENCES} would take {seconds:.0f} s at the current speed of this machine"
    return SENTENCES, "a run of less than half an hour"


def regularisation(default: float, epochs: float) -> float:
    """Dropout or label smoothing for data that is seen this often: it only slows down what is seen once.

    >>> [regularisation(0.1, epochs) for epochs in (0.5, 3, 20)]
    [0.0, 0.05, 0.1]
    """
    return 0.0 if epochs < 2 else default / 2 if epochs < 6 else default


def round_batch(tokens: float) -> int:
    """Two binary digits of precision.

    >>> [round_batch(tokens) for tokens in (512, 700, 1000, 3000)]
    [512, 768, 1024, 3072]
    """
    unit = 1 << max(0, math.floor(math.log2(tokens)) - 1)
    return round(tokens / unit) * unit


def planned_updates(
    task: Task, config: TrainConfig, epoch: Sequence[Indices], group: Group | None = None, elapsed: float = 0.0
) -> float:
    """Updates with batches as in `epoch` that a budget pays for, of which `elapsed` seconds are spent."""
    limits = [] if config.max_epochs is None else [config.max_epochs * len(epoch) / config.accumulate]
    if config.max_minutes is not None:
        whole = 60 * config.max_minutes
        trial = min(TRIAL_SECONDS, TRIAL_SHARE * whole)
        seconds = seconds_per_update(task, config, epoch, trial, *([group] if group else []))
        limits.append(TRAINING_SHARE * max(LEAST_SHARE * whole, whole - elapsed) / seconds)
    return max(1.0, min(limits))
