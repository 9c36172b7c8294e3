"""Which values of a recipe are paths: they are recognised by their type, wherever they stand.

    PathStr        a file or folder; relative to the recipe
    PathInDir      a file, folder or pattern; relative to `dir` of the same table where that is set, else to the recipe
    BaseDir        the folder that the `PathInDir` of its table are relative to, and nothing that is read itself
    VectorsPath    a file or folder of embeddings, or the word "own"
    OutputDir      a folder that is written to; relative to the recipe, and no part of the data

>>> from pydantic import BaseModel
>>> class Data(BaseModel):
...     dir: BaseDir | None = None
...     train: FilesInDir = "a.txt"
...     name: str = "no path"
>>> [(place.key, place.value, place.folder) for place in paths_in(Data(dir="corpus", train=["a", "b"]), "data")]
[('data.dir', 'corpus', None), ('data.train[0]', 'a', 'corpus'), ('data.train[1]', 'b', 'corpus')]
>>> map_paths(Data(), lambda place: place.value.upper())
Data(dir=None, train='A.TXT', name='no path')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel

IN_MEMORY = "a table in memory"  # begins what a recipe says in the place of a file: `harken.data.io.in_memory`


@dataclass(frozen=True)
class RecipePath:
    """Marks a string as a path.

    Args:
        in_dir: relative to `dir` of its table.
        is_base: others are relative to it.
        is_output: written, not read.
        words: values that are no path.
    """

    in_dir: bool = False
    is_base: bool = False
    is_output: bool = False
    words: tuple[str, ...] = ()


PathStr = Annotated[str, RecipePath()]
PathInDir = Annotated[str, RecipePath(in_dir=True)]
BaseDir = Annotated[str, RecipePath(is_base=True)]
OutputDir = Annotated[str, RecipePath(is_output=True)]
VectorsPath = Annotated[str, RecipePath(words=("own",))]
Files = PathStr | list[PathStr]
FilesInDir = PathInDir | list[PathInDir]

M = TypeVar("M", bound=BaseModel)


class Place(NamedTuple):
    """One path in a recipe."""

    key: str  # data.train, or data.train[1] in a list
    value: str
    kind: RecipePath
    folder: str | None  # that a `PathInDir` is relative to; None: the recipe

    @property
    def is_path(self) -> bool:
        """Whether the value names a file or folder: it is not empty, no table in memory and no word of its own."""
        return bool(self.value) and self.value not in self.kind.words and not self.value.startswith(IN_MEMORY)


def map_paths(model: M, change: Callable[[Place], str], prefix: str = "", folder: str | None = None) -> M:
    """The table, or the whole recipe, with every path replaced by `change(place)`; itself where nothing changes."""
    changed: dict[str, Any] = {}
    folder = getattr(model, "dir", None) or folder
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), f"{prefix}.{name}" if prefix else name
        kind = _path_kind((*field.metadata, field.annotation))
        base = folder if kind is not None and kind.in_dir else None
        new: Any = value
        if isinstance(value, BaseModel):
            new = map_paths(value, change, key, folder)
        elif isinstance(value, dict):
            # one table under the name of its key was written without it: [data.test] source = ...
            new = {
                own: map_paths(item, change, key if [*value] == [name] else f"{key}.{own}", folder)
                if isinstance(item, BaseModel)
                else item
                for own, item in value.items()
            }
        elif kind is not None and isinstance(value, str):
            new = change(Place(key, value, kind, base))
        elif kind is not None and isinstance(value, list):
            new = [change(Place(f"{key}[{row}]", item, kind, base)) for row, item in enumerate(value)]
        if new is not value and new != value:
            changed[name] = new
    return model.model_copy(update=changed) if changed else model


def paths_in(model: BaseModel, prefix: str = "") -> Iterator[Place]:
    """Every path of a table or recipe."""
    places: list[Place] = []

    def note(place: Place) -> str:
        places.append(place)
        return place.value

    map_paths(model, note, prefix)
    yield from places


def _path_kind(annotations: Any) -> RecipePath | None:
    """The mark in an annotation, however deep: of `list[PathStr] | None` too."""
    for part in annotations:
        if isinstance(part, RecipePath):
            return part
        if isinstance(part, type) and issubclass(part, BaseModel):
            continue
        inside = _path_kind(get_args(part))
        if inside is not None:
            return inside
    return None
