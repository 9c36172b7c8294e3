"""Parts of models and jobs by the name that a recipe gives them, open to other packages: tasks, cells, scores,
positions, encoders and metrics.

A recipe names what ships, what was registered, or "module:Name":

    cell = "lstm"                 ships
    cell = "minimal"              registered in code that was imported: @harken.register_cell("minimal")
    cell = "mypkg.cells:Minimal"  of a module that you named with --plugin (plugins= in Python) or imported yourself

or, in the `pyproject.toml` of an installed package, found without an import:

    [project.entry-points."harken.cells"]
    minimal = "mypkg.cells:Minimal"

No recipe makes harken import a module: loading a model folder runs only what its user installed, imported or named.
Nothing here imports torch.

>>> shapes = Registry("shape", "example.shapes", {"path": "pathlib:PurePath"})
>>> @shapes.register("square")
... class Square: ...
>>> shapes.names(), shapes.find("square").__name__, shapes.find("path").__name__
(['path', 'square'], 'Square', 'PurePath')
>>> shapes.find("sqare")
Traceback (most recent call last):
harken.errors.UserError: shape is 'sqare', which is not known; did you mean square? \
(a name from a plugin needs --plugin MODULE, or plugins=["MODULE"] in Python)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from harken.errors import UserError

T = TypeVar("T")
FROM_PLUGIN = '(a name from a plugin needs --plugin MODULE, or plugins=["MODULE"] in Python)'


class Registry:
    """Names of one kind: those that ship, those registered by a decorator, those of entry points, and references.

    Args:
        kind: what the names are of, for messages.
        group: of the entry points.
        shipped: name -> "module:attribute", imported when it is first asked for.
        base: "module:class" that what a reference names has to be derived from. Without one, only modules named as
            plugins count: whatever else is imported was not written to be called by a recipe.
    """

    def __init__(self, kind: str, group: str, shipped: Mapping[str, str], base: str | None = None) -> None:
        self.kind, self.group, self.shipped, self.base = kind, group, dict(shipped), base
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

    def in_plugins(self) -> list[str]:
        """References to the classes of the right base that modules named as plugins define."""
        if self.base is None or not _PLUGINS:
            return []
        home, _, attribute = self.base.partition(":")
        base = getattr(import_module(home), attribute)
        return [
            f"{place}:{name}"
            for place, module in _PLUGINS.items()
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
        ]

    def __contains__(self, name: object) -> bool:
        """Whether a name is known; a reference is, or `find` raises."""
        if name in self.shipped or name in self._registered or name in self._entry_points():
            return True
        return isinstance(name, str) and ":" in name and self._referenced(name) is not None

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
        if ":" in name:
            return self._referenced(name)
        near = get_close_matches(str(name), self.names(), 1)
        known = f"there are {', '.join(self.names())}" if self.names() else 'none is registered; give "module:name"'
        hint = f"did you mean {near[0]}?" if near else known
        raise UserError(f"{self.kind} is {name!r}, which is not known; {hint} {FROM_PLUGIN}")

    def _referenced(self, name: str) -> Any:
        """The object that "module:Name" stands for, of a module that is there already.

        Raises:
            UserError: the module was neither named as a plugin nor imported, or has no such class.
        """
        place, _, attribute = name.partition(":")
        module = _plugin(place) or (sys.modules.get(place) if self.base else None)
        if module is None:
            raise UserError(
                f'{self.kind} is "{name}", and harken imports no module because a recipe names it; if you trust '
                f'{place}, name it yourself: --plugin {place}, or plugins=["{place}"] in Python'
            )
        value = getattr(module, attribute, None) if attribute.isidentifier() else None
        if value is None:
            near = get_close_matches(attribute, [name for name in vars(module) if not name.startswith("_")], 1)
            hint = f"; did you mean {place}:{near[0]}?" if near else ""
            raise UserError(f'{self.kind} is "{name}", but {place} has no {attribute or "such name"}{hint}')
        if self.base is not None:
            home, _, attribute_name = self.base.partition(":")
            base = getattr(import_module(home), attribute_name)
            if not isinstance(value, type) or not issubclass(value, base):
                raise UserError(f'{self.kind} is "{name}", which is no class derived from {home}.{attribute_name}')
        return value

    def _added(self) -> list[str]:
        return list(dict.fromkeys([*self._registered, *self._entry_points()]))

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._installed is None:
            self._installed = {entry.name: entry for entry in entry_points(group=self.group)}
        return self._installed


JOBS: tuple[str, ...] = (
    "translate",
    "answer",
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

TASKS = Registry(
    "task", "harken.tasks", {name: f"harken.tasks.{name}.job:JOB" for name in JOBS}, "harken.tasks.job:Job"
)
CELLS = Registry(
    "cell",
    "harken.cells",
    {
        "rnn": "harken.nn.recurrent.rnn:RNNCell",
        "lstm": "harken.nn.recurrent.lstm:LSTMCell",
        "gru": "harken.nn.recurrent.gru:GRUCell",
    },
    "harken.nn.recurrent.cell:Cell",
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
    "torch.nn:Module",
)
POSITIONS = Registry(
    "positions",
    "harken.positions",
    {
        "sinusoidal": "harken.nn.positions.absolute:SinusoidalPositions",
        "learned": "harken.nn.positions.absolute:LearnedPositions",
        "relative": "harken.nn.positions.relative:RelativePositions",
        "dependency": "harken.nn.positions.relative:RelativePositions",
        "rotary": "harken.nn.positions.rotary:RotaryPositions",
        "alibi": "harken.nn.positions.alibi:AlibiPositions",
        "buckets": "harken.nn.positions.buckets:BucketPositions",
        "none": "harken.nn.positions.base:AttentionPositions",
    },
    "torch.nn:Module",
)
ENCODERS = Registry("encoder", "harken.encoders", {}, "harken.models.base:Encoder")
METRICS = Registry("metric", "harken.metrics", {})


def recipe_class(task: Any) -> Any:
    """The class of recipes with this `task`; of a job that ships it is read without torch.

    Raises:
        UserError: there is no such job.
    """
    if not isinstance(task, str):
        raise UserError(f"task is {str(task)[:80]}, but must be a name, such as {JOBS[0]!r}")
    return import_module(f"harken.tasks.{task}.recipe").RECIPE if task in JOBS else TASKS.find(task).recipe


register_task, register_cell, register_score = TASKS.register, CELLS.register, SCORES.register
register_positions, register_encoder, register_metric = POSITIONS.register, ENCODERS.register, METRICS.register

_PLUGINS: dict[str, ModuleType] = {}  # modules that the user named, by the name that a reference has
_PLACES: list[str] = []  # the same as they were named, for other processes


def _plugin(place: str) -> ModuleType | None:
    """The module of this name, where the user named it or a package that it is in."""
    if place in _PLUGINS:
        return _PLUGINS[place]
    if any(place.startswith(f"{known}.") and hasattr(module, "__path__") for known, module in _PLUGINS.items()):
        try:
            return import_module(place)
        except ModuleNotFoundError:
            return None
    return None


def import_plugin(place: str) -> None:
    """Import a module by its name, or a file by its path, so that what it registers is known and a recipe may refer to
    what it has: "module:Name", or "file:Name" for file.py.

    Raises:
        UserError: there is no such module or file.
    """
    if not place.endswith(".py"):
        try:
            _PLUGINS[place] = import_module(place)
            _PLACES.append(place)
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
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    _PLUGINS[path.stem] = module
    _PLACES.append(str(path.absolute()))


def plugin_places() -> list[str]:
    """The plugins that were imported, for `import_plugins` in another process."""
    return list(dict.fromkeys(_PLACES))


def import_plugins(places: Sequence[str]) -> None:
    """`import_plugin` for each; one name alone is also taken."""
    for place in [places] if isinstance(places, str) else places:
        import_plugin(str(place))
