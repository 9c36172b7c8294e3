"""Train any `torch.nn.Module` with harken's loop: `harken.train(module, out, data=..., loss=...)`.

The loop is that of the recipes: AdamW, schedules, clipping, weight averaging, checkpoints that resume bit for bit,
`metrics.jsonl`, early stopping, worker processes. A run folder of a module has no recipe: `model.safetensors` in it
holds the best weights, which the module has when `train` returns.

>>> import tempfile
>>> line = nn.Linear(1, 1)
>>> data = [(torch.tensor([float(x)]), torch.tensor([2.0 * x + 1])) for x in range(-4, 4)]
>>> def loss(model, batch):
...     inputs, targets = batch
...     return (model(inputs) - targets).square().mean()
>>> settings = {"max_steps": 400, "learning_rate": 0.05, "validate_every": 100}
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = train_module(line, folder, data=data, valid=data, loss=loss, settings=settings, progress=False)
>>> round(line(torch.tensor([10.0])).item(), 1)
21.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.utils.data import TensorDataset, default_collate

from harken.errors import UserError
from harken.recipe.errors import explain
from harken.run_folders.starting import WRITTEN, remove_run
from harken.training.checkpoints import has_checkpoint, saved_settings
from harken.training.config import TrainConfig
from harken.training.device import choose_machine, fill_open
from harken.training.display import choose_display
from harken.training.folder import MODEL, RunLock, is_empty_dir, is_follower, is_restarted, not_empty, request
from harken.training.loop import Trainer
from harken.training.reporting import Callback
from harken.training.strategies.group import joined
from harken.training.task import Indices, to_device
from harken.training.weights import load_weights

Loss = Callable[[Any, Any], Tensor | tuple[Tensor, int]]
Collate = Callable[[list[Any]], Any]
DEFAULTS: dict[str, Any] = {  # of [train], where a module has other ones than a recipe
    "batch_tokens": 32,
    "warmup_steps": 0,
    "schedule": "constant",
    "average": 0.0,
    "precision": "float32",
    "validate_every": 100,
    "workers": 1,
}
HELD_OUT = 0.1  # share of the data that validates where `valid` is not given


class ModuleTask:
    """A module, its data and its loss, as the loop sees them (`harken.training.task.Task`)."""

    monitor, mode = "loss", "min"

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        valid: Any,
        loss: Loss,
        collate: Callable[[list[Any]], Any],
        train: TrainConfig,
    ) -> None:
        self.model, self.splits, self._loss, self._collate = model, (data, valid), loss, collate
        self.settings = train

    def epoch(self, number: int) -> Sequence[Indices]:
        """All examples in an order drawn from (seed, epoch)."""
        order = np.random.default_rng([self.settings.seed, number]).permutation(len(self.splits[0]))
        batch = self.settings.batch_tokens
        return [order[start : start + batch] for start in range(0, len(order), batch)]

    def size(self, examples: Indices) -> int:
        """The number of examples."""
        return len(examples)

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Equal shares."""
        return np.array_split(examples, parts)

    def collate(self, indices: Indices, valid: bool = False) -> Any:
        """A batch on the CPU."""
        examples = self.splits[valid]
        return self._collate([examples[int(index)] for index in indices])

    def summed(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The sum of the loss over a batch, and how many terms it has."""
        loss = self._loss(model, batch)
        if isinstance(loss, tuple):
            return loss
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            kind = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise UserError(f"the loss returned {kind}; return the mean of the batch, one number, or (sum, count)")
        return loss.reshape(()) * count_of(batch), count_of(batch)

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The mean of the batch times its examples: the loop divides by `size`."""
        total, terms = self.summed(model, batch)
        examples = count_of(batch)
        return total * (examples / max(1, terms)), examples

    def validate(self, part: int, parts: int) -> Any:
        """The summed loss of one share of the validation data."""
        mine = np.arange(len(self.splits[1]))[part::parts]
        device, total, count = next(self.model.parameters()).device, 0.0, 0
        rows = self.settings.batch_tokens
        for start in range(0, len(mine), rows):
            batch = to_device(self.collate(mine[start : start + rows], valid=True), device)
            loss, terms = self.summed(self.model, batch)
            total, count = total + float(loss), count + terms
        return [total, count]

    def score(self, results: list[Any]) -> dict[str, float]:
        """The mean loss."""
        return {"loss": sum(total for total, _ in results) / max(1, sum(count for _, count in results))}


def count_of(batch: Any) -> int:
    """B, the examples of a batch: the first size of the first tensor in it."""
    if isinstance(batch, Tensor):
        return batch.shape[0]
    parts = batch.values() if isinstance(batch, Mapping) else batch
    return next((count_of(part) for part in parts if isinstance(part, Tensor | Mapping | tuple | list)), 1)


def train_module(
    module: nn.Module,
    out: str | Path,
    *,
    data: Any,
    loss: Loss,
    valid: Any = None,
    collate: Collate = default_collate,
    settings: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    restart: bool = False,
    progress: bool = True,
) -> nn.Module:
    """Train a module in place and return it with its best weights; the arguments are those of `harken.train`."""
    examples = TensorDataset(*data) if isinstance(data, tuple) and all(isinstance(x, Tensor) for x in data) else data
    valid = TensorDataset(*valid) if isinstance(valid, tuple) and all(isinstance(x, Tensor) for x in valid) else valid
    config = _settings({**DEFAULTS, **(settings or {})})
    if not hasattr(examples, "__len__") or not hasattr(examples, "__getitem__") or len(examples) == 0:
        raise UserError("data has to be a list, a tuple of tensors or a Dataset with a length, and not empty")
    if valid is None:
        order = np.random.default_rng([config.seed]).permutation(len(examples)).tolist()
        count = max(1, round(HELD_OUT * len(order)))
        examples, valid = _Part(examples, order[count:] or order), _Part(examples, order[:count])
    asked = request(out, resume, restart)
    folder = asked.folder
    with joined() as group, RunLock(folder):
        if asked.restart and not is_follower():
            remove_run(folder, WRITTEN)
        resuming = asked.resume and has_checkpoint(folder)
        if not (resuming or is_follower() or is_restarted() or is_empty_dir(folder)):
            raise not_empty(folder)
        config = choose_machine(fill_open(config, saved_settings(folder) if resuming else {}))[0]
        if group is not None:
            group.connect(config.device)
            resuming = group.broadcast(resuming)
        torch.manual_seed(config.seed)
        task = ModuleTask(module, examples, valid, loss, collate, config)
        Trainer(task, config, folder, choose_display(progress), callbacks, group).run(resume=resuming)
    load_weights(module, folder / MODEL)
    return module.eval()


class _Part(Sequence[Any]):
    """Some examples of a data set."""

    def __init__(self, data: Any, indices: list[int]) -> None:
        self.data, self.indices = data, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.data[self.indices[index]]


def _settings(values: dict[str, Any]) -> TrainConfig:
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as problem:
        raise UserError(explain(problem, TrainConfig, values, "settings")) from None
