"""The state of a run folder by its own files, whatever its state: finished, running, stopped, or damaged.

Nothing is locked, loaded or changed: recipe.toml, metrics.jsonl and the lock file are read, so that a list of many runs
takes milliseconds and a run in progress is not disturbed.
"""

from __future__ import annotations

import json
import math
import socket
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from harken.errors import UserError
from harken.machine import is_alive
from harken.recipe import DEFAULT_TASK
from harken.training.folder import CARD, CHECKPOINTS, LOCK, MODEL, RECIPE
from harken.training.log import METRICS, NOT_METRICS, read_metrics

DEPTH = 4  # folders below the one that is searched
LARGEST = 10_000_000  # bytes of a recipe
RECENT = 20  # training entries that the speed is taken from
QUIET = 600.0  # seconds after which a run on another machine no longer counts as running
# Of the metrics that fit, the first of these is shown: what is usually reported comes before the loss.
HIGHER = ("bleu", "chrf", "f1", "macro_f1", "accuracy", "exact_match")  # is better
LOWER = ("wer", "cer", "error", "mase", "perplexity", "loss")
PREFERRED = (*HIGHER, *LOWER)


@dataclass
class Run:
    """One run folder."""

    folder: Path
    state: str  # finished, running, stopped, started or damaged
    recipe: dict[str, Any] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)  # of metrics.jsonl
    problem: str = ""  # why it is damaged

    @property
    def task(self) -> str:
        """The job."""
        return str(self.recipe.get("task", DEFAULT_TASK if self.recipe else ""))

    @property
    def model(self) -> str:
        """The architecture in a word or two."""
        table = self.table("model")
        return " ".join(str(table[key]) for key in ("architecture", "cell") if table.get(key))

    def table(self, name: str) -> dict[str, Any]:
        """A table of the recipe."""
        table = self.recipe.get(name)
        return table if isinstance(table, dict) else {}

    @property
    def training(self) -> list[dict[str, Any]]:
        """Entries of training."""
        return [entry for entry in self.entries if entry.get("kind") == "train"]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """Entries of validation."""
        return [entry for entry in self.entries if entry.get("kind") == "valid"]

    @property
    def step(self) -> int:
        """The last update that is known of."""
        return max((int(entry.get("step", 0)) for entry in self.entries), default=0)

    @property
    def seconds(self) -> float:
        """Of training, validation included."""
        return max((number(entry, "seconds") or 0.0 for entry in self.entries), default=0.0)

    @property
    def tokens_per_second(self) -> float | None:
        """The median of the last entries."""
        rates = [rate for entry in self.training[-RECENT:] if (rate := number(entry, "tokens_per_second"))]
        return median(rates) if rates else None

    @property
    def data_wait(self) -> float | None:
        """The share of training time spent waiting for batches, the median of the last entries."""
        shares = [share for entry in self.training[-RECENT:] if (share := number(entry, "data_wait")) is not None]
        return median(shares) if shares else None

    @property
    def metric(self) -> str | None:
        """The monitored metric; in the log of an earlier version the one whose best values are marked as best."""
        last = self.validations[-1] if self.validations else {}
        return str(last["monitor"]) if "monitor" in last else monitored(self.validations)

    @property
    def sign(self) -> int:
        """1 where a larger value of the monitored metric is better, -1 where a smaller one is."""
        last = self.validations[-1] if self.validations else {}
        return 1 if last.get("mode", "max" if self.metric in HIGHER else "min") == "max" else -1

    @property
    def best(self) -> dict[str, Any] | None:
        """The entry of the weights that were kept."""
        return next((entry for entry in reversed(self.validations) if entry.get("best")), None)

    @property
    def score(self) -> float | None:
        """The monitored metric of the weights that were kept."""
        return None if self.best is None or self.metric is None else number(self.best, self.metric)

    @property
    def parameters(self) -> int | None:
        """Numbers in model.safetensors, by its header; None where there is no such file, or a damaged one."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.folder / MODEL, "numpy") as stored:
                return sum(math.prod(stored.get_slice(name).get_shape()) for name in stored.keys())  # noqa: SIM118
        except (OSError, SafetensorError):
            return None

    @property
    def done(self) -> float | None:
        """The share of the budget that is used up; None where it is not known."""
        if self.state == "finished":
            return 1.0
        train = self.table("train")
        last = self.training[-1] if self.training else {}
        shares = []
        for key, value in (
            ("max_steps", self.step),
            ("max_minutes", self.seconds / 60),
            ("max_epochs", number(last, "epoch") or 0.0),
        ):
            limit = train.get(key)
            if isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0:
                shares.append(value / limit)
        return min(1.0, max(shares)) if shares else None

    @property
    def changed(self) -> float:
        """When a file of the run was last written, in seconds since 1970."""
        times = [_modified(self.folder / name) for name in (METRICS, CARD, *CHECKPOINTS, MODEL, RECIPE)]
        return max(times)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "folder": str(self.folder),
            "state": self.state,
            "problem": self.problem or None,
            "task": self.task or None,
            "model": self.model or None,
            "metric": self.metric,
            "score": self.score,
            "parameters": self.parameters,
            "best_step": None if self.best is None else self.best.get("step"),
            "step": self.step,
            "done": self.done,
            "tokens_per_second": self.tokens_per_second,
            "data_wait": self.data_wait,
            "seconds": self.seconds,
            "age_seconds": max(0.0, time.time() - self.changed),
        }


def read_run(folder: Path) -> Run:
    """A run folder in any state.

    Raises:
        UserError: there is no run in this folder.
    """
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}; give a folder that harken train has made")
    if not is_run(folder):
        raise UserError(f"{folder} holds no run: it has neither {RECIPE} nor {METRICS}; give a run folder")
    problem, recipe, entries = "", dict[str, Any](), list[dict[str, Any]]()
    try:
        recipe = _read_recipe(folder / RECIPE)
    except FileNotFoundError:
        problem = f"{RECIPE} is missing"
    except (OSError, ValueError, RecursionError):
        problem = f"{RECIPE} cannot be read"
    try:
        entries = read_metrics(folder)
    except OSError:
        problem = problem or f"{METRICS} cannot be read"
    if not problem and (folder / CARD).is_file() and not (folder / MODEL).is_file():
        problem = f"{MODEL} is missing"
    running = is_running(folder)
    state = "running" if running else "damaged" if problem else _state(folder)
    return Run(folder, state, recipe, entries, "" if running else problem)


def find_runs(folder: Path) -> list[Run]:
    """All runs in a folder and below, the one that changed last first; a folder that is a run itself is the only one.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}; give a folder with runs")
    return sorted((read_run(path) for path in folders_of_runs(folder)), key=lambda run: -run.changed)


def is_run(folder: Path) -> bool:
    """Whether a run was started here."""
    return any((folder / name).is_file() for name in (RECIPE, METRICS))


def is_running(folder: Path) -> bool:
    """Whether the process that the lock file names is alive; on another machine, whether it wrote lately."""
    try:
        owner = json.loads((folder / LOCK).read_text(encoding="utf-8"))
        pid, host = int(owner["pid"]), str(owner["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if host != socket.gethostname():
        return time.time() - max(_modified(folder / METRICS), _modified(folder / LOCK)) < QUIET
    return is_alive(pid)


def monitored(validations: Sequence[dict[str, Any]]) -> str | None:
    """The metric that the entries marked as best are best by.

    >>> monitored([{"loss": 2.0, "bleu": 5.0, "best": True}, {"loss": 1.0, "bleu": 4.0, "best": False}])
    'bleu'
    """
    names = [name for entry in validations for name in entry if name not in NOT_METRICS]
    ordered = sorted(dict.fromkeys(names), key=lambda name: PREFERRED.index(name) if name in PREFERRED else -1)
    values = [{name: number(entry, name) for name in ordered} for entry in validations]
    for name in (*(name for name in PREFERRED if name in ordered), *ordered):
        for sign in (1,) if name in HIGHER else (-1,) if name in LOWER else (1, -1):
            if _marks(values, name, sign) == [bool(entry.get("best")) for entry in validations]:
                return name
    return ordered[0] if ordered else None


def _marks(values: Sequence[dict[str, float | None]], name: str, sign: int) -> list[bool]:
    """Which entries would be marked as best by this metric."""
    best, marks = None, []
    for entry in values:
        value = entry[name]
        better = value is not None and (best is None or sign * value > sign * best)
        best = value if better else best
        marks.append(better)
    return marks


def number(entry: dict[str, Any], name: str) -> float | None:
    """A number of an entry; None where it is missing, or no number."""
    value = entry.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _state(folder: Path) -> str:
    if (folder / CARD).is_file():
        return "finished"
    return "stopped" if any((folder / name).is_file() for name in CHECKPOINTS) else "started"


def folders_of_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Run folders, at most `depth` levels down, by name; a run inside a run is not one of them."""
    if is_run(folder):
        yield folder
        return
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return
    for path in inside if depth else ():
        if not path.is_symlink() or is_run(path):
            yield from folders_of_runs(path, depth - 1)


def _read_recipe(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST:
        raise ValueError("too large")
    with open(path, "rb") as stream:
        return tomllib.load(stream)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
