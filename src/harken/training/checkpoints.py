"""Checkpoints: everything needed to resume a run exactly, in one file that is replaced atomically.

Tensors (weights, their average, optimizer state) and a JSON state (step, position in the data, best score, time) are in
one safetensors file: reading it can run no code, and a kill at any moment leaves either the old or the new checkpoint.
Random numbers need no entry: every step seeds them by (seed, step, worker).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harken.errors import UserError

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Progress:
    """The state of a run."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch already used
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0  # spent in the loop, validation included
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best
    waited: int = 0  # validations without progress, for the plateau schedule
    reduced: float = 1.0  # factor of the plateau schedule so far
    window_loss: float = 0.0  # of the steps since the last line of metrics.jsonl
    window_tokens: int = 0
    window_seconds: float = 0.0
    finished: bool = False


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file to a temporary name, flush it to disk, and rename it.

    Raises:
        UserError: it cannot be written, usually because the disk is full.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    temporary = path.with_name(path.name + ".part")
    try:
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, temporary, metadata)
    except SafetensorError as problem:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written ({problem}); free disk space and continue with --resume"
        ) from problem
    with open(temporary, "rb") as written:
        os.fsync(written.fileno())
    os.replace(temporary, path)


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], progress: Progress, settings: dict[str, Any]) -> None:
    """Save a checkpoint; `settings` must be equal when the run is resumed: seed, precision ..."""
    state = json.dumps({"progress": asdict(progress), "settings": settings})
    save_tensors(folder / CHECKPOINT, tensors, {"state": state})


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], Progress, dict[str, Any]] | None:
    """Read what `save_checkpoint` wrote, or None where there is no checkpoint."""
    from safetensors import SafetensorError, safe_open

    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as stored:
            state = json.loads((stored.metadata() or {})["state"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        return tensors, Progress(**state["progress"]), state["settings"]
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise UserError(
            f"{path} is not a checkpoint of this version of harken ({problem}); remove it to train from the start"
        ) from problem


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file into a model, all tensors or none.

    Raises:
        UserError: the file is damaged or belongs to another recipe.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except SafetensorError as problem:
        raise UserError(f"{path} is damaged ({problem}); train the model again or copy it again") from problem
    parameters = dict(model.named_parameters())
    wrong = sorted(set(tensors) ^ set(parameters)) or [
        name for name, value in tensors.items() if value.shape != parameters[name].shape
    ]
    if wrong:
        raise UserError(
            f"{path} does not match the recipe.toml beside it (first difference: {wrong[0]}); was one replaced?"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
