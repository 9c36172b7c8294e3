"""Tasks, recurrent cells and attention scores by the name that a recipe gives them, open to other packages.

In code that is imported before the recipe is read:

    @harken.register_cell("minimal")
    class MinimalGatedUnit(Cell): ...

In the `pyproject.toml` of an installed package, found without an import:

    [project.entry-points."harken.cells"]
    minimal = "my_package.cells:MinimalGatedUnit"

A recipe names what is registered and never a module: loading a model folder imports only what its user installed or
imported. Nothing here imports torch.

>>> shapes = Registry("shape", "example.shapes", {"path": "pathlib:PurePath"})
>>> @shapes.register("square")
... class Square: ...
>>> shapes.names(), shapes.find("square").__name__, shapes.find("path").__name__
(['path', 'square'], 'Square', 'PurePath')
>>> shapes.find("sqare")
Traceback (most recent call last):
harken.errors.UserError: shape is 'sqare', which is not known; did you mean square?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from harken.errors import UserError

T = TypeVar("T")


class Registry:
    """Names of one kind: those that ship, those registered by a decorator, and those of entry points."""

    def __init__(self, kind: str, group: str, shipped: Mapping[str, str]) -> None:
        """`shipped` maps a name to "module:attribute", imported when it is first asked for."""
        self.kind, self.group, self.shipped = kind, group, dict(shipped)
        self._registered: dict[str, Any] = {}
        self._installed: dict[str, EntryPoint] | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that makes the object known under `name`; a second one replaces the first.

        Raises:
            ValueError: the name ships with harken.
        """
        if name in self.shipped:
            raise ValueError(f"{self.kind} {name!r} ships with harken; register yours under another name")

        def remember(value: T) -> T:
            self._registered[name] = value
            return value

        return remember

    def names(self) -> list[str]:
        """All known names, those that ship first."""
        return [*self.shipped, *(name for name in self._added() if name not in self.shipped)]

    def __contains__(self, name: object) -> bool:
        return name in self.shipped or name in self._registered or name in self._entry_points()

    def find(self, name: str) -> Any:
        """The object behind a name.

        Raises:
            UserError: the name is not known, with the nearest one that is.
        """
        if name in self.shipped:
            module, _, attribute = self.shipped[name].partition(":")
            return getattr(import_module(module), attribute)
        if name in self._registered:
            return self._registered[name]
        if name in self._entry_points():
            return self._entry_points()[name].load()
        near = get_close_matches(str(name), self.names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.names())}"
        raise UserError(f"{self.kind} is {name!r}, which is not known; {hint}")

    def _added(self) -> list[str]:
        return list(dict.fromkeys([*self._registered, *self._entry_points()]))

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._installed is None:
            self._installed = {entry.name: entry for entry in entry_points(group=self.group)}
        return self._installed


JOBS: tuple[str, ...] = (
    "answer",
    "translate",
    "language",
    "classify",
    "forecast",
    "transcribe",
    "caption",
    "handwriting",
    "tag",
    "masked",
    "regress",
    "elmo",
    # one job a line
)

TASKS = Registry("task", "harken.tasks", {name: f"harken.tasks.{name}.job:JOB" for name in JOBS})
CELLS = Registry(
    "cell",
    "harken.cells",
    {
        "rnn": "harken.nn.recurrent.rnn:RNNCell",
        "lstm": "harken.nn.recurrent.lstm:LSTMCell",
        "gru": "harken.nn.recurrent.gru:GRUCell",
    },
)
SCORES = Registry(
    "score",
    "harken.scores",
    {
        "dot": "harken.nn.attention.scores:DotScore",
        "scaled": "harken.nn.attention.scores:ScaledDotScore",
        "multiplicative": "harken.nn.attention.scores:MultiplicativeScore",
        "additive": "harken.nn.attention.scores:AdditiveScore",
        "cosine": "harken.nn.attention.scores:CosineScore",
    },
)

register_task, register_cell, register_score = TASKS.register, CELLS.register, SCORES.register


def import_plugin(place: str) -> None:
    """Import a module by its name, or a file by its path, so that what it registers is known.

    Raises:
        UserError: there is no such module or file.
    """
    if not place.endswith(".py"):
        try:
            import_module(place)
        except ModuleNotFoundError as problem:
            if problem.name != place.partition(".")[0] and problem.name != place:
                raise
            raise UserError(
                f"the plugin {place} is not installed; install it, or give the path of a .py file"
            ) from None
        return
    path = Path(place)
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"the plugin {place} does not exist; check the path")
    spec.loader.exec_module(module_from_spec(spec))
