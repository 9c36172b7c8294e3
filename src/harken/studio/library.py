"""The models that the studio knows: names, folders, and what of them is loaded.

Inspection attaches hooks to a model while it runs it, so the studio holds models of its own, in worker processes that
run one task at a time, and never those that answer the API.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from harken.data.text.locations import BILINGUAL
from harken.errors import UserError
from harken.registry import plugin_places
from harken.run_folders.reading import Run, folders_of_runs, is_running, read_run
from harken.serving.operations import operations_of
from harken.studio.example import NAME, example_folder, is_trained
from harken.tasks.registry import interface_of
from harken.training.folder import CARD, MODEL, RECIPE
from harken.training.log import METRICS

LOADED = 6  # models kept in memory; the one that was not used for longest is dropped


@dataclass
class LoadedModel:
    """A loaded model and its job."""

    name: str
    model: Any
    job: Any

    @property
    def task(self) -> str:
        """The job it was trained for."""
        return str(self.model.recipe.task)


class Library:
    """Run folders by name.

    Args:
        folders: name -> folder, of models that are given one by one.
        root: a folder of runs; every run below it is found, also those that begin later.
        device: where models are loaded.
    """

    def __init__(
        self, folders: Mapping[str, str | Path] | None = None, root: str | Path | None = None, device: str = "auto"
    ) -> None:
        self.given = {name: Path(folder) for name, folder in (folders or {}).items()}
        self.root, self.device = None if root is None else Path(root), device
        self._opened: OrderedDict[str, tuple[float, LoadedModel]] = OrderedDict()

    def to_json(self) -> dict[str, Any]:
        """The arguments of the same library in another process, and the plugins that its models need."""
        root = None if self.root is None else str(self.root)
        folders = {name: str(folder) for name, folder in self.given.items()}
        return {"folders": folders, "root": root, "device": self.device, "plugins": plugin_places()}

    def folders(self) -> dict[str, Path]:
        """Every run, by its name: what was given, then what lies below the root."""
        folders = dict(self.given)
        if self.root is not None:
            for folder in folders_of_runs(self.root):
                name = folder.relative_to(self.root).as_posix() if folder != self.root else folder.resolve().name
                folders.setdefault(name, folder)
        return folders

    def folder(self, name: str) -> Path:
        """The folder of a run.

        Raises:
            UserError: there is no run of this name.
        """
        known = self.folders()
        if name == NAME and is_trained():
            known.setdefault(name, example_folder())
        if name not in known:
            raise UserError(f"there is no run {name!r}; known are {', '.join(known) or 'none'}")
        return known[name]

    def models(self) -> list[dict[str, Any]]:
        """Name, task and network of every folder with weights."""
        return [describe_model(name, folder) for name, folder in self.folders().items() if (folder / MODEL).is_file()]

    def with_example(self) -> list[dict[str, Any]]:
        """The models, and where none of them is recurrent and reads text, the studio's own one, once it is trained."""
        models = self.models()
        if is_trained() and not any(model["recurrent"] and model["reads_text"] for model in models):
            models.append(describe_model(NAME, example_folder()))
        return models

    def open(self, name: str, operation: str | None = None) -> LoadedModel:
        """A model, loaded on first use and again where its weights have changed.

        Raises:
            UserError: there is none, its folder does not hold together, or its job has no such operation.
        """
        from harken.api import load
        from harken.tasks.registry import job_of

        weights = self.folder(name) / MODEL
        changed = weights.stat().st_mtime if weights.is_file() else 0.0
        cached = self._opened.get(name)
        if cached is None or cached[0] != changed:
            model = load(weights.parent, self.device)
            self._opened[name] = cached = (changed, LoadedModel(name, model, job_of(model.recipe.task)))
            while len(self._opened) > LOADED:
                self._opened.popitem(last=False)
        self._opened.move_to_end(name)
        opened = cached[1]
        if operation is not None and operation not in operations_of(opened.task):
            raise UserError(
                f"{name} was trained for the task {opened.task!r}, whose job has no {operation!r}; choose another model"
            )
        return opened


def cached_run(folder: Path) -> Run:
    """A run folder, read again where a file of it has changed: the page asks every few seconds.

    Its state is finished, running or stopped.
    """
    try:
        run = _read(folder, *(_stamp(folder / name) for name in (RECIPE, METRICS, CARD)))
    except UserError:  # it was removed since it was listed
        run = Run(folder, "stopped")
    state = "running" if is_running(folder) else "finished" if (folder / CARD).is_file() else "stopped"
    return replace(run, state=state)


@lru_cache(maxsize=64)
def _read(folder: Path, *stamps: tuple[int, int]) -> Run:
    return read_run(folder)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def describe_model(name: str, folder: Path) -> dict[str, Any]:
    """The facts that the page needs of a model, from its recipe."""
    recipe = cached_run(folder).recipe
    model, data, search = (recipe.get(table, {}) for table in ("model", "data", "search"))
    return {
        "name": name,
        "task": recipe.get("task", ""),
        "architecture": str(model.get("architecture", "")),
        "network": network_name(model),
        "beam": search.get("beam"),
        "length_penalty": search.get("length_penalty"),
        "corpus": str(data.get("corpus", "")),
        "attends": model.get("attention") != "none",
        "recurrent": "recurrent" in parts_of(model),
        "reads_text": reads_text(recipe.get("task", "")) and data.get("kind", "text") == "text",
        "direction": str(data.get("direction", "")),
        "languages": languages_of(data),
    }


def reads_text(task: str) -> bool:
    """Whether models of a job may read a text; False where the job is not known here.

    >>> reads_text("elmo"), reads_text("caption"), reads_text("none")
    (True, False, False)
    """
    try:
        interface = interface_of(task)
    except UserError:
        return False
    return interface is not None and interface.input.is_text


def parts_of(model: Mapping[str, Any]) -> set[str]:
    """The architectures in a recipe's `[model]`: its own, and that of its decoder where that differs."""
    decoder = model.get("decoder")
    own = {str(model.get("architecture", "recurrent"))}
    return own | ({str(decoder.get("architecture", ""))} if isinstance(decoder, Mapping) else set())


def languages_of(data: Mapping[str, Any]) -> list[str]:
    """The language codes of the two sides in a recipe's `[data]`; none where they are not known.

    >>> languages_of({"corpus": "phrasebook", "direction": "en-fr"}), languages_of({"pair": "de-en"}), languages_of({})
    (['en', 'fr'], ['de', 'en'], [])
    """
    named = str(data.get("pair") or (data.get("direction") if data.get("corpus") in BILINGUAL else "") or "-")
    codes = [data.get("source_language"), data.get("target_language")]
    pair = [str(code or part) for code, part in zip(codes, named.partition("-")[::2], strict=True)]
    return pair if all(pair) else []


def network_name(model: Mapping[str, Any]) -> str:
    """A network in a few words.

    >>> network_name({"architecture": "recurrent", "cell": "lstm", "attention": "additive", "width": 256})
    'LSTM, additive attention, width 256'
    >>> network_name({"architecture": "transformer", "layers": 3, "heads": 4, "width": 128})
    'transformer, 3 layers, 4 heads, width 128'
    >>> network_name({"architecture": "convolutional", "layers": 1, "width": 128})
    'convolutional, 1 layer, width 128'
    """
    kind = str(model.get("architecture", ""))
    parts = [str(model["cell"]).upper() if kind == "recurrent" and "cell" in model else kind]
    if kind == "recurrent" and "attention" in model:
        parts.append("no attention" if model["attention"] == "none" else f"{model['attention']} attention")
    if kind != "recurrent":
        counts = {key: model[key] for key in ("layers", "heads") if isinstance(model.get(key), int)}
        parts += [f"{count} {key[: -1 if count == 1 else None]}" for key, count in counts.items()]
    if isinstance(model.get("width"), int):
        parts.append(f"width {model['width']}")
    return ", ".join(filter(None, parts))
