"""The served models: their names, jobs, language pairs and ways through a third language; which folders have changed.

A model is named on the command line as FOLDER or FOLDER@en-fr; without languages those of its recipe are taken.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.data.text.languages import canonical, languages_of
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.registry import interface_of

UNKNOWN = "source", "target"  # codes where neither the recipe nor the command line names the languages
WATCHED = ("model.safetensors", "recipe.toml", "card.md")


@dataclass
class ServedModel:
    """One model folder."""

    name: str
    folder: Path
    task: str
    recipe: Any = field(repr=False)
    source: str | None = None  # language codes of a translator
    target: str | None = None
    signature: tuple[Any, ...] = ()

    @property
    def search_defaults(self) -> dict[str, Any]:
        """The model's own options of search, as far as it has any."""
        search = getattr(self.recipe, "search", None)
        return {} if search is None else vars(search)

    @property
    def verb(self) -> str:
        """The name of the first operation of its job; empty where that declares no interface."""
        interface = interface_of(self.task)
        return "" if interface is None else interface.verb

    @property
    def advice(self) -> str:
        """How to name the languages of a translator where they are not known; else empty."""
        if self.source not in UNKNOWN and self.target not in UNKNOWN:
            return ""
        return (
            f"the languages of {self.name} are not known, so clients have to write {self.source} and {self.target}; "
            f"name them by harken serve {self.folder}@de-en"
        )

    @classmethod
    def open(cls, given: str | Path, name: str | None = None) -> ServedModel:
        """Read the recipe of FOLDER or FOLDER@SOURCE-TARGET.

        Raises:
            UserError: no model folder, or languages that cannot be understood.
        """
        from harken.recipe import model_recipe

        text, at, pair = str(given).rpartition("@")
        if not at or Path(given).is_dir():
            text, pair = str(given), ""
        folder = expand_user(text)
        recipe = model_recipe(folder)
        interface = interface_of(recipe.task)
        has_languages = interface is not None and interface.has_languages
        source, target = _languages(recipe, pair) if has_languages else (None, None)
        return cls(name or folder.resolve().name, folder, recipe.task, recipe, source, target, signature_of(folder))


def _languages(recipe: Any, pair: str) -> tuple[str, str]:
    """Language codes: those given, those of the recipe, or `UNKNOWN`."""
    if pair:
        codes = pair.split("-") if pair.count("-") == 1 else pair.split("_to_")
        if len(codes) != 2 or not all(codes):
            raise UserError(f"{pair!r} after @ is no language pair; write it as en-fr")
        return canonical(codes[0]), canonical(codes[1])
    source, target = languages_of(recipe.data)
    return source or UNKNOWN[0], target or UNKNOWN[1]


def signature_of(folder: Path) -> tuple[Any, ...]:
    """Times and sizes of the files of a folder, which change where it is written anew."""
    states: list[Any] = []
    for name in WATCHED:
        try:
            status = os.stat(folder / name)
            states.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            states.append(None)
    return tuple(states)


class Registry:
    """All served models.

    Args:
        given: folders, each perhaps with @languages.

    Raises:
        UserError: a folder is no model, or there is none.
    """

    def __init__(self, given: Sequence[str | Path]) -> None:
        if not given:
            raise UserError("there is no model to serve; name at least one folder")
        self.models: dict[str, ServedModel] = {}
        self._signatures: dict[str, tuple[Any, ...]] = {}
        for folder in given:
            model = ServedModel.open(folder)
            base, number = model.name, 2
            while model.name in self.models:
                model.name, number = f"{base}-{number}", number + 1
            self.models[model.name] = model

    @property
    def folders(self) -> dict[str, Path]:
        """The folder of every model."""
        return {name: model.folder for name, model in self.models.items()}

    def find(self, name: str | None, task: str) -> ServedModel:
        """A model of a job by its name; the first one where no name is given.

        Raises:
            UserError: there is none.
        """
        known = [model for model in self.models.values() if model.task == task]
        if name is None:
            if not known:
                raise UserError(f"no model of the task {task!r} is served")
            return known[0]
        model = self.models.get(name)
        if model is None:
            raise UserError(f"there is no model called {name!r}; choose from {', '.join(self.models)}")
        if model.task != task:
            raise UserError(f"the model {name!r} is of the task {model.task!r}, not {task!r}")
        return model

    def translators(self) -> list[ServedModel]:
        """All models that translate."""
        return [model for model in self.models.values() if model.source is not None]

    def sources(self) -> list[str]:
        """Languages that are read."""
        return list(dict.fromkeys(model.source for model in self.translators() if model.source))

    def targets(self, source: str) -> list[str]:
        """Languages that a language can be translated into, directly or through others."""
        reachable = [source]
        for code in reachable:
            following = (model.target for model in self.translators() if model.source == code and model.target)
            reachable += [target for target in dict.fromkeys(following) if target not in reachable]
        return reachable[1:]

    def served_pairs(self) -> str:
        """The languages that are served, and how those of a model are named; the end of an error's sentence."""
        pairs = dict.fromkeys(f"{model.source} to {model.target}" for model in self.translators())
        return f"served: {', '.join(pairs) or 'none'} (harken serve FOLDER@de-en names the languages of a model)"

    def route(self, source: str, target: str) -> list[ServedModel]:
        """The shortest chain of models from one language to another; empty where both are the same.

        Raises:
            UserError: there is none.
        """
        source, target = canonical(source), canonical(target)
        routes: dict[str, list[ServedModel]] = {source: []}
        waiting = deque([source])
        while waiting:
            code = waiting.popleft()
            if code == target:
                return routes[code]
            for model in self.translators():
                if model.source == code and model.target and model.target not in routes:
                    routes[model.target] = [*routes[code], model]
                    waiting.append(model.target)
        raise UserError(f"no model translates from {source} to {target}; {self.served_pairs()}")

    def changed(self) -> list[ServedModel]:
        """Models whose folder was written anew and has been left alone since the last call; read again.

        A folder that cannot be read, as it is being written, is left for a later call.
        """
        changed = []
        for name, model in list(self.models.items()):
            now = signature_of(model.folder)
            settled, self._signatures[name] = self._signatures.get(name) == now, now
            if now == model.signature or not settled or None in now[:2]:
                continue
            try:
                fresh = ServedModel.open(model.folder, name)
            except UserError:
                continue
            model.recipe, model.signature = fresh.recipe, now
            changed.append(model)
        return changed
