"""BLEU against training FLOPs: families of networks on one data set, each at the same budgets of counted operations.

    flops      of training on one target token, by `harken.models.sizing` at the mean length of the data; padding and
               validation count nothing. For a mixture of experts those of the active experts
    run        trains for budget / flops target tokens, rounded up to whole updates; what it did is counted again
    trials     settings of learning rate and dropout, the same for all families, at the smallest budget with the first
               seed. The validation loss chooses one, which larger budgets and other seeds keep
    report     BLEU on pairs that chose nothing, and a paired bootstrap against Transformer base at the same budget
    ensemble   of the first three seeds of one family, at the sum of their FLOPs

Every run is a run folder of its own and a process of its own. What ended is appended to `record.jsonl` and not done
again; a run that was stopped goes on from its checkpoint. The data is read, tokenized and encoded once for all.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write
from harken.lab.ladder import RECURRENT, Rung
from harken.recipe import as_recipe
from harken.recipe.files import parse, read_text
from harken.sweeps.local import import_trainer, machine_overrides
from harken.sweeps.processes import run_each

RECIPE, RECORD, SHARED = "europarl-table2", "record.jsonl", "shared.json"
BUDGETS = (1e15, 3e15, 1e16)
REFERENCE = 1e15  # FLOPs at which batches are as large as the recipe says
SETTINGS = ((1.0, 0.1), (2.0, 0.0), (0.5, 0.1), (1.0, 0.0), (2.0, 0.1), (0.5, 0.0))  # factor of the rate, dropout
HELD_OUT = 1000  # pairs of the training text to choose by, and as many to report, where no development set is given
MEMBERS, ENSEMBLE = 3, "ensemble"
BASELINE = "transformer-base"


@dataclass(frozen=True)
class Family(Rung):
    """One kind of network: its `[model]` but for the dropout, and the largest budget that it is trained with."""

    most: float = math.inf


LSTM: dict[str, Any] = {**RECURRENT, "cell": "lstm", "layers": 2, "embedding": 512, "width": 512}
CONVOLUTIONAL = {"architecture": "convolutional", "embedding": 512, "width": 512}
SMALL = {"architecture": "transformer", "layers": 3, "width": 256, "heads": 4, "feedforward": 1024}
BASE = {"architecture": "transformer", "layers": 6, "width": 512, "heads": 8, "feedforward": 2048}
GNMT = {"connections": "residual", "connections_from": 3, "look_from": "bottom", "context_to": "all"}
FAMILIES = (
    Family(BASELINE, "Transformer base, 6+6 layers, width 512", BASE),
    Family("transformer-small", "Transformer, 3+3 layers, width 256", SMALL),
    Family("lstm-attention", "2+2 LSTM layers, additive attention", {**LSTM, "attention": "additive"}, 1e16),
    Family(
        "gnmt",
        "4+4 LSTM layers, residual, attention (GNMT)",
        {**LSTM, **GNMT, "layers": 4, "bidirectional": "first", "attention": "additive"},
        1e16,
    ),
    Family("convs2s", "6+6 gated convolutions (ConvS2S)", {**CONVOLUTIONAL, "style": "convs2s", "layers": 6}, 1e16),
    Family("bytenet", "10+10 dilated blocks (ByteNet)", {**CONVOLUTIONAL, "style": "bytenet", "layers": 10}, 1e16),
    Family("experts", "Transformer small, 2 of 8 experts", {**SMALL, "experts": 8, "experts_active": 2}),
    Family("decoder-only", "Transformer, one stack of 6 layers", {**BASE, "architecture": "decoder-only"}),
    Family("lstm", "2+2 LSTM layers, no attention", {**LSTM, "attention": "none"}, 1e16),
    Family("rnn", "2+2 vanilla RNN layers, no attention", {**LSTM, "cell": "rnn", "attention": "none"}, 1e16),
)


@dataclass(frozen=True)
class Run:
    """One network at one budget; `trial` is the number of its setting."""

    family: str
    budget: float
    seed: int
    trial: int

    @property
    def name(self) -> str:
        """That of its folder.

        >>> Run("rnn", 3e15, 1, 0).name
        'rnn-3e15-seed1-trial0'
        """
        return f"{self.family}-{self.budget:g}-seed{self.seed}-trial{self.trial}".replace("e+0", "e").replace("e+", "e")


@dataclass(frozen=True)
class Cost:
    """The size of a family's network, and the FLOPs of training it on one target token."""

    flops: float
    parameters: int
    active: int  # parameters that a token meets
    tokens: int  # target tokens of an epoch, EOS counted


class Record:
    """What ended, a line of JSON each; a line that a kill cut short is no line."""

    def __init__(self, path: Path) -> None:
        self.path, self.entries = path, dict[Run, dict[str, Any]]()
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines():
            try:
                values = json.loads(line)
                run = Run(*(values.pop(key) for key in ("family", "budget", "seed", "trial")))
            except (ValueError, KeyError, AttributeError):
                continue
            if "error" not in values:  # what failed is tried again
                self.entries.setdefault(run, {}).update(values)

    def add(self, run: Run, values: dict[str, Any]) -> None:
        """Append what a run gave."""
        if "error" not in values:
            self.entries.setdefault(run, {}).update(values)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            file.seek(max(0, file.tell() - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write((b"\n" * torn) + (json.dumps({**asdict(run), **values}, ensure_ascii=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def scored(self, family: str, budget: float) -> list[tuple[Run, dict[str, Any]]]:
        """The runs of a row that were reported, by seed."""
        runs = (run for run in self.entries if (run.family, run.budget) == (family, budget))
        return [
            (run, self.entries[run]) for run in sorted(runs, key=lambda run: run.seed) if "bleu" in self.entries[run]
        ]


class Table2:
    """The runs of a table in a folder.

    Args:
        recipe: what all runs share.
        overrides: changes to it, for every family.
        trials: settings of `SETTINGS` that every family is tried with.
        ensemble: the family whose seeds are also scored together.
    """

    def __init__(
        self,
        folder: Path,
        recipe: str | Path = RECIPE,
        overrides: Sequence[str] = (),
        *,
        families: Sequence[Family] = FAMILIES,
        budgets: Sequence[float] = BUDGETS,
        seeds: int = 1,
        trials: int = 2,
        ensemble: str = BASELINE,
    ) -> None:
        if not 1 <= trials <= len(SETTINGS) or seeds < 1 or not budgets or min(budgets) <= 0:
            raise UserError(
                f"--trials is 1 to {len(SETTINGS)}, --seeds at least 1, and --budgets are FLOPs above 0; change them"
            )
        self.folder, self.recipe, self.overrides = folder, recipe, list(overrides)
        self.families = {family.name: family for family in families}
        self.budgets, self.trials, self.ensemble = sorted(set(budgets)), trials, ensemble
        self.seeds = list(range(1, seeds + 1))
        self.record = Record(folder / RECORD)
        self.costs: dict[str, Cost] = {}
        self.errors: dict[Run, str] = {}

    def run(
        self, jobs: int = 1, seconds: float | None = None, report: Callable[[str], None] = lambda line: None
    ) -> None:
        """Do what is missing, the smallest budget of all families first.

        Args:
            jobs: runs at once.
            seconds: stop what then still runs; it goes on the next time.

        Raises:
            UserError: a recipe or data that is wrong, or a folder with the table of another recipe.
        """
        until = None if seconds is None else time.monotonic() + seconds
        self._own_folder()
        import_trainer(as_recipe(*self.recipe_of(next(iter(self.families.values())))))
        for _, outcome in run_each(lambda item, slot: self.measure(), [0]):  # a fork of CUDA would not work
            if outcome.error:
                raise UserError(outcome.error)
            self.costs = outcome.value
        for family, cost in self.costs.items():
            report(f"{family}: {cost.parameters:,} parameters, {cost.flops:.3g} FLOPs a target token")
        order: list[tuple[Run, bool]] = []
        for index, outcome in run_each(partial(self.train, jobs), self._queue(order), jobs, until):
            run, scores = order[index]
            self.record.add(run, {"error": outcome.error} if outcome.error else outcome.value)
            if outcome.error:
                self.errors[run] = outcome.error
            self._remove_checkpoints(run)
            entry = self.record.entries.get(run, {})
            shown = f"BLEU {entry.get('bleu', math.nan):.2f}" if scores else f"loss {entry.get('loss', math.nan):.3f}"
            report(f"{run.name}: {outcome.error or shown}, {len(self.missing())} to do")

    def missing(self) -> list[tuple[Run, bool]]:
        """What can be done now, the most telling first: runs, and whether they are scored on the reported pairs."""
        first, smallest = self.seeds[0], self.budgets[0]
        items = [(Run(ENSEMBLE, budget, 0, 0), True) for budget in self.budgets if self.members(budget)]
        for seed in self.seeds:
            for budget in self.budgets:
                for name, family in self.families.items():
                    if budget <= family.most and (trial := self.choice(name)) is not None:
                        items.append((Run(name, budget, seed, trial), True))
                for trial in range(self.trials if self.trials > 1 and (seed, budget) == (first, smallest) else 0):
                    items += [(Run(name, budget, seed, trial), False) for name in self.families]
        known = self.record.entries
        return [(run, scores) for run, scores in items if ("bleu" if scores else "loss") not in known.get(run, {})]

    def choice(self, family: str) -> int | None:
        """The setting with the lowest validation loss; None while a trial is missing."""
        if self.trials == 1:
            return 0
        runs = [Run(family, self.budgets[0], self.seeds[0], trial) for trial in range(self.trials)]
        losses = [self.record.entries.get(run, {}).get("loss") for run in runs]
        if any(loss is None and run not in self.errors for run, loss in zip(runs, losses, strict=True)):
            return None
        known = [(loss, trial) for trial, loss in enumerate(losses) if loss is not None]
        return min(known)[1] if known else None

    def members(self, budget: float) -> list[Path]:
        """The folders of an ensemble, where its models are there."""
        runs = [run for run, _ in self.record.scored(self.ensemble, budget)][:MEMBERS]
        folders = [self._folder(run) for run in runs]
        return folders if len(folders) == MEMBERS and all((path / "card.md").is_file() for path in folders) else []

    def recipe_of(self, family: Family) -> tuple[dict[str, Any], list[str]]:
        """The recipe with a family's network, and the overrides."""
        values = parse(*read_text(self.recipe))
        shared = {key: value for key, value in values.get("model", {}).items() if key == "tied"}
        return {**values, "model": {**shared, **family.words}}, self.overrides

    def overrides_of(self, run: Run, train: Any, model: Any) -> list[str]:
        """The budget, the batch size, the setting and the seed of a run."""
        from harken.training.planning.fitting import peak_rate, round_batch

        cost, (factor, dropout) = self.costs[run.family], SETTINGS[run.trial]
        batch = round_batch(train.batch_tokens * math.sqrt(max(1.0, run.budget / REFERENCE)))
        return [
            f"train.max_epochs={run.budget / (cost.flops * cost.tokens):.6g}",
            f"train.batch_tokens={batch}",
            f"train.learning_rate={factor * peak_rate(model):.3g}",
            f"model.dropout={dropout}",
            f"train.seed={run.seed}",
            f"train.validate_every={10**9}",  # at the end alone
            "train.max_minutes=none",
            "train.max_steps=none",
        ]

    def measure(self) -> dict[str, Cost]:
        """The costs of all families; leaves the data tokenized and encoded for the runs."""
        from harken.models.build import build_model
        from harken.models.sizing import count_parameters, measure, uninitialised
        from harken.nn.transformer.experts import Experts
        from harken.plan import prepare

        recipes = {name: as_recipe(*self.recipe_of(family)) for name, family in self.families.items()}
        task: Any = prepare(next(iter(recipes.values())), self.folder / "data").task
        lengths, costs = task.train.target.lengths, {}
        mean = round((float(lengths.mean()) + float(task.train.source.lengths.mean())) / 2)
        for name, recipe in recipes.items():
            model = uninitialised(partial(build_model, recipe.model, task.source.size, task.target.size))
            idle = sum(
                sum(weight.numel() for weight in layer.parameters() if weight is not layer.gate.weight)
                * (layer.experts - layer.active)
                // layer.experts
                for layer in model.modules()
                if isinstance(layer, Experts)
            )
            total = sum(count_parameters(model).values())
            costs[name] = Cost(measure(model, mean).flops, total, total - idle, int(lengths.sum()))
        return costs

    def train(self, jobs: int, item: tuple[Run, bool], slot: int) -> dict[str, Any]:
        """Train a run, or resume it, and score it where that is asked for; in a process of its own."""
        from harken.api import load, train
        from harken.training.checkpoints import load_checkpoint
        from harken.training.log import read_metrics

        run, scores = item
        folder, values = self._folder(run), dict[str, Any]()
        if run.family == ENSEMBLE:
            translator = load(self.members(run.budget))
            known = [entry for _, entry in self.record.scored(self.ensemble, run.budget)][:MEMBERS]
            values = {key: sum(entry[key] for entry in known) for key in ("flops", "seconds", "parameters", "active")}
        else:
            recipe, overrides = self.recipe_of(self.families[run.family])
            given = as_recipe(recipe, overrides)
            overrides = [*overrides, *self.overrides_of(run, given.train, given.model)]
            overrides += [] if folder.exists() else machine_overrides(given.train, jobs, slot)
            with redirect_stdout(sys.stderr):
                translator = train(recipe, folder, overrides=overrides, resume=folder.exists(), progress=False)
            stored, cost = load_checkpoint(folder), self.costs[run.family]
            if stored is not None:
                state, train_config = stored[1], translator.recipe.train
                best = [entry for entry in read_metrics(folder) if entry["kind"] == "valid"][-1]
                values = {
                    "loss": best["loss"],
                    "tokens": state.tokens,
                    "updates": state.step,
                    "flops": cost.flops * state.tokens,
                    "seconds": state.seconds - state.validation_seconds,
                    "parameters": cost.parameters,
                    "active": cost.active,
                    "learning_rate": train_config.learning_rate,
                    "dropout": SETTINGS[run.trial][1],
                    "batch_tokens": train_config.batch_tokens,
                    "device": train_config.device,
                    "jobs": jobs,
                }
            elif run not in self.record.entries:
                raise UserError(f"{folder} has lost its checkpoint, so its cost is not known; delete the folder")
        return values | (self._score(run, translator) if scores else {})

    def _score(self, run: Run, translator: Any) -> dict[str, Any]:
        from harken.tasks.registry import job_of

        pairs = job_of(translator.recipe.task).held_out(translator, "test")
        scores = translator.evaluate(pairs)
        for name, lines in ((run.name, scores.hypotheses), ("reference", scores.references)):
            atomic_write(self.output(name), "".join(" ".join(line.split()) + "\n" for line in lines))
        return {"bleu": scores.bleu.value, "signature": scores.bleu.signature, "chrf": scores.chrf.value}

    def output(self, name: str) -> Path:
        """The file of a run's translations of the reported pairs."""
        (self.folder / "outputs").mkdir(parents=True, exist_ok=True)
        return self.folder / "outputs" / f"{name}.txt"

    def _folder(self, run: Run) -> Path:
        return self.folder / "runs" / run.name

    def _queue(self, order: list[tuple[Run, bool]]) -> Iterator[tuple[Run, bool] | None]:
        """Whatever is missing when a process is free; None where all of it runs or waits for trials."""
        while items := self.missing():
            item = next((item for item in items if item not in order), None)
            if item is not None:
                order.append(item)
            yield item

    def _own_folder(self) -> None:
        """Note what all rows share; the files of the data may be in another place the next time.

        Raises:
            UserError: the folder holds the table of another recipe.
        """
        values = {key: table for key, table in parse(*read_text(self.recipe)).items() if key not in ("data", "model")}
        shared = json.dumps([values, [change for change in self.overrides if not change.startswith("data.")]], indent=1)
        path = self.folder / SHARED
        if path.is_file() and path.read_text(encoding="utf-8") != shared:
            raise UserError(f"{self.folder} holds the table of another recipe or --set; choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write(path, shared)

    def _remove_checkpoints(self, run: Run) -> None:
        """Leave the model of a run that is in the record, not the state of its optimizer."""
        from harken.training.folder import CHECKPOINTS

        for name in CHECKPOINTS if run in self.record.entries else ():
            (self._folder(run) / name).unlink(missing_ok=True)


def families_named(names: Sequence[str] | None) -> list[Family]:
    """The families of these names, in the order of `FAMILIES`; all of them for None.

    Raises:
        UserError: a name that is none.
    """
    known = {family.name: family for family in FAMILIES}
    for name in names or ():
        if name not in known:
            raise UserError(f"there is no family {name!r}; choose from {', '.join(known)}")
    return [family for family in FAMILIES if names is None or family.name in names]


def divide_dev(source: Path, target: Path, folder: Path) -> list[str]:
    """Divide a development set: its first half is chosen by, the second reported. Halves, so that documents stay whole.

    Returns:
        Overrides of the recipe.

    Raises:
        UserError: files that are not there, or not of the same number of lines.
    """
    from harken.data.io.files import read_lines

    sides = {"source": list(read_lines(source)), "target": list(read_lines(target))}
    counts = [len(lines) for lines in sides.values()]
    if counts[0] != counts[1] or counts[0] < 2:
        raise UserError(f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}; give as many, and two or more")
    overrides, middle = [], counts[0] // 2
    folder.mkdir(parents=True, exist_ok=True)
    for side, lines in sides.items():
        for part, chosen in (("valid", lines[:middle]), ("test", lines[middle:])):
            path = folder / f"{part}.{side}.txt"
            atomic_write(path, "".join(f"{line}\n" for line in chosen))
            key = "data.valid" if part == "valid" else "data.test.test"
            overrides.append(f"{key}.{side}={path}")
    return overrides
