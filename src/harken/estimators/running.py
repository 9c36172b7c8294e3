"""A run without a trace: trained in a temporary folder, whose files are kept as bytes.

The bytes are those of a model folder (`recipe.toml`, `model.safetensors` ...), so that what is pickled with an
estimator holds no code of its own, and `harken.load` reads what `save` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from harken.api import load
from harken.card import write_card
from harken.plan import resolve
from harken.recipe import Recipe
from harken.tasks.job import Prepared
from harken.tasks.registry import job_of
from harken.training.digests import write_digests
from harken.training.folder import CHECKPOINT, PREVIOUS, RECIPE
from harken.training.loop import Trainer

Files = dict[str, bytes]


def train_quietly(recipe: Recipe, prepare: Callable[[Recipe, Path], Prepared]) -> Files:
    """Train what `prepare` prepares; torch's random state and threads are left as they were."""
    recipe, _ = resolve(recipe)
    job, threads = job_of(recipe.task), torch.get_num_threads()
    with TemporaryDirectory(prefix="harken-") as name, torch.random.fork_rng(devices=[]):
        folder = Path(name)
        torch.manual_seed(recipe.train.seed)
        try:
            prepared = prepare(recipe, folder)
            (folder / RECIPE).write_text(recipe.to_toml(), encoding="utf-8")
            write_digests(folder, job.artifact_names())
            state = Trainer(prepared.task, recipe.train, folder).run()
        finally:
            torch.set_num_threads(threads)
        write_card(folder, recipe, job, prepared, state)
        paths = (path for path in sorted(folder.iterdir()) if path.name not in (CHECKPOINT, PREVIOUS))
        return {path.name: path.read_bytes() for path in paths}


def load_files(files: Mapping[str, bytes], device: str = "cpu") -> Any:
    """The job's object of a folder that is held as bytes."""
    with TemporaryDirectory(prefix="harken-") as name, torch.random.fork_rng(devices=[]):
        write(files, Path(name))
        return load(name, device)


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """The folder as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
