"""A recipe describes one training run. It is read from TOML and validated before heavy libraries are imported.

A recipe is a name that ships with harken or a TOML file. Paths in a file are relative to it (`harken.recipe.paths`).
Overrides have the form `section.key=value`; the value is parsed as TOML, or taken as a plain string.

>>> recipe = load_recipe("phrasebook-transformer", ["train.max_steps=10", "data.name=mine"])
>>> recipe.train.max_steps, recipe.data.name
(10, 'mine')
>>> load_recipe("phrasebook-transformer", ["model.wdith=64"])
Traceback (most recent call last):
    ...
harken.errors.UserError: model.wdith (from the override model.wdith=64) is not a key of [model] with \
architecture = "transformer"; did you mean model.width?
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic.fields import FieldInfo

from harken.errors import UserError
from harken.paths import paths_in
from harken.recipe.errors import config_classes, explain
from harken.recipe.files import apply, check_limits, describe, parse, read_text, recipe_names, recipe_text
from harken.recipe.paths import require_paths, resolve_paths
from harken.registry import recipe_class
from harken.training.config import TrainConfig
from harken.training.digests import require_unchanged
from harken.training.folder import MODEL, RECIPE

__all__ = [
    "TRAIN",
    "Recipe",
    "Section",
    "TableColumn",
    "as_recipe",
    "describe",
    "load_recipe",
    "model_recipe",
    "recipe_names",
    "recipe_text",
    "require_paths",
]

DEFAULT_TASK = "translate"
TRAIN: Any = Field(  # of every job: a recipe without the table trains for ten minutes
    TrainConfig.model_validate({}),
    description="training settings; ten minutes where no budget is set",
)


class TableColumn(NamedTuple):
    """A column of a table that a job reads or predicts."""

    key: str | None  # of `[data]`, which names the column; None: of texts, each a line of the training file
    kinds: tuple[str, ...]  # of its cells, as `harken.data.io.columns` has them, or "list"; the likeliest first
    noun: str  # of a cell, for messages
    names: tuple[str, ...] = ()  # usual ones, in lower case
    is_joined: bool = False  # whether several columns may be read as one


TEXT_NAMES = ("text", "sentence", "review", "content", "body", "question", "message", "tweet")
TEXT_LINES = TableColumn(None, ("text",), "text", TEXT_NAMES)


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, and no value is changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Recipe(Section):
    """The keys of every recipe; each job adds its own sections (`harken.tasks`).

    TOML has no null, so the string "none" unsets an optional key: `clip_norm = "none"`.
    """

    input_column: ClassVar[TableColumn | None] = None  # of tables that recipes are inferred from, and of estimators
    target_column: ClassVar[TableColumn | None] = None
    cuts_at_end: ClassVar[bool] = False  # whether held-out parts are cut off the end of the data, and not drawn

    task: str = Field(description="the job")
    train: TrainConfig = TRAIN

    _source: str | None = PrivateAttr(None)
    _path_notes: list[str] = PrivateAttr(default_factory=list)
    _written_paths: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _replace_none(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if "embeddings" in values and "embeddings" not in cls.model_fields:
            raise ValueError("embeddings is set, but models of this task read no words; remove it")
        if isinstance(values.get("model"), Mapping) and {*values["model"]} == {"start"}:  # `completed` reads the folder
            values = {**values, "model": {"architecture": "transformer", **values["model"]}}
        classes = {name: config_classes(field.annotation) for name, field in cls.model_fields.items()}
        values = {name: _renamed(value, classes.get(name, ())) for name, value in values.items()}
        return {name: _read_none(value, classes.get(name, ())) for name, value in values.items()}

    @property
    def source(self) -> str | None:
        """The name or file this recipe was loaded from."""
        return self._source

    @property
    def path_notes(self) -> list[str]:
        """A note for the user about paths that are not relative to the recipe."""
        return self._path_notes

    @property
    def written_paths(self) -> dict[str, str]:
        """Key -> path as the recipe or the override has it, before it was made absolute."""
        return self._written_paths

    @classmethod
    def data_fields(cls) -> dict[str, FieldInfo]:
        """The keys of `[data]`."""
        tables = config_classes(cls.model_fields["data"].annotation) if "data" in cls.model_fields else []
        return {key: field for table in tables for key, field in table.model_fields.items()}

    @classmethod
    def column_names(cls) -> dict[TableColumn, str]:
        """The columns that the job declares, each with its name where `[data]` does not say it."""
        names, fields = {}, cls.data_fields()
        for column in (cls.input_column, cls.target_column):
            if column is not None:
                default = fields[column.key].default if column.key in fields else None
                stem = str(column.key).removesuffix("_column")
                names[column] = default if isinstance(default, str) else next(iter(column.names), stem)
        return names

    @classmethod
    def recognise(cls, path: Path) -> tuple[str, dict[str, Any]] | None:
        """What a file or folder is, and the `[data]` that reads it, where its format is one of this job alone."""
        return None

    @classmethod
    def default_tables(cls, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Tables of an inferred recipe that suit texts like these, beside `[data]` and `[train]`."""
        return {}

    def require_data(self, origin: str) -> None:
        """Raise a UserError that names the missing keys if the recipe needs data that does not ship."""

    def completed(self) -> Self:
        """The recipe with the tables that follow from others, such as those of a model that it starts from.

        Here: where `model.start` is all of `[model]`, that of the folder, and the length it can read.

        Raises:
            UserError: the folder holds no finished model.
        """
        model = getattr(self, "model", None)
        folder = getattr(model, "start", None)
        if model is None or folder is None or model.model_fields_set - {"architecture", "start"}:
            return self
        start = model_recipe(Path(folder))
        if not isinstance(start, recipe_class("masked")):
            raise UserError(
                f"model.start is {folder}, a model of the task {start.task!r}; name one of the task 'masked'"
            )
        update: dict[str, Any] = {"model": start.model.model_copy(update={"start": folder})}
        data, longest = getattr(self, "data", None), start.model.longest
        if longest is not None and (getattr(data, "max_tokens", longest) or math.inf) > longest:
            update["data"] = data.model_copy(update={"max_tokens": longest})  # type: ignore[union-attr]
        return self.model_copy(update=update)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    def to_toml(self) -> str:
        """All keys and values; `load_recipe` reads back an equal recipe."""
        import tomli_w

        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return tomli_w.dumps(
            {name: _dump(value) if isinstance(value, BaseModel) else value for name, value in sections.items()}
        )


def load_recipe(
    name_or_path: str | Path, overrides: Sequence[str] = (), *, with_data: bool = True, complete: bool = True
) -> Any:
    """Read a recipe by name or from a file, apply `overrides` and validate it with the class of its job.

    Args:
        name_or_path: a recipe that ships, or a TOML file.
        overrides: strings of the form "section.key=value".
        with_data: whether the recipe must name its data.
        complete: whether to read the tables that follow from others (`Recipe.completed`); that of a finished run has
            them.

    Raises:
        UserError: one sentence that names the file and line, or the key, and what is allowed.
    """
    text, origin = read_text(name_or_path)
    path = Path(name_or_path)
    is_file = origin == str(name_or_path) and path.is_file()  # else it ships
    folder = path.absolute().parent if is_file else None
    recipe = _validated(parse(text, origin), origin, overrides, with_data, folder, complete)
    recipe._source = str(name_or_path)
    return recipe


def model_recipe(folder: Path) -> Any:
    """The recipe of a finished model folder, also of one whose keys have the names of an earlier version.

    Whoever made the folder chose what the recipe says, so it makes nobody read a file outside of the folder: a glossary
    or model that `[search]` names elsewhere is left out with a warning. What only training reads stays as it is.

    Raises:
        UserError: no finished folder, or one whose files changed.
    """
    for name in (RECIPE, MODEL):
        if not (folder / name).is_file():
            raise UserError(f"{folder} has no {name}, so it is no finished model folder; train one with harken train")
    require_unchanged(folder)
    with warnings.catch_warnings():  # older names of keys are no fault of the folder's user
        warnings.simplefilter("ignore", FutureWarning)
        recipe = load_recipe(folder / RECIPE, with_data=False, complete=False)  # an adopted model names no data
    return _without_outside_files(recipe, folder)


def _without_outside_files(recipe: Any, folder: Path) -> Any:
    """The recipe with `[search]` naming no file outside of the model's folder, links followed."""
    inside, left_out = os.path.realpath(folder), dict[str, Any]()
    for place in paths_in(getattr(recipe, "search", None) or Section(), "search"):
        if place.is_path and not Path(os.path.realpath(place.value)).is_relative_to(inside):
            name = place.key.removeprefix("search.")
            left_out[name] = None
            warnings.warn(
                f"{place.key} of {folder / RECIPE} is {place.value}, which is outside of that folder and is not read; "
                f"give it as the option {name}, or copy it into the folder",
                stacklevel=3,
            )
    if "language_model" in left_out:
        left_out["lm_weight"] = 0.0
    return recipe.model_copy(update={"search": recipe.search.model_copy(update=left_out)}) if left_out else recipe


def _validated(
    values: dict[str, Any],
    origin: str,
    overrides: Sequence[str],
    with_data: bool,
    folder: Path | None = None,
    complete: bool = True,
) -> Any:
    """A recipe from its values, with the class of its job; its paths are relative to `folder`."""
    applied = [apply(values, override) for override in overrides]
    check_limits(values, origin)
    task = values.get("task", DEFAULT_TASK)
    kind = recipe_class(task)
    named = kind.model_fields["task"].default if ":" in task else None  # a reference stands for the job's own name
    try:
        recipe = kind.model_validate({**values, "task": named} if isinstance(named, str) else values)
    except ValidationError as error:
        raise UserError(explain(error, kind, values, origin, applied)) from None
    recipe = recipe.model_copy(update={"task": task}) if isinstance(named, str) else recipe
    if with_data:
        recipe.require_data(origin)
    written = {declared.key: declared.value for declared in paths_in(recipe) if declared.is_path}
    recipe, notes = resolve_paths(recipe, origin, folder, [key for key, _ in applied])
    recipe = recipe.completed() if complete else recipe
    recipe._path_notes, recipe._written_paths = notes, written
    return recipe


def as_recipe(
    recipe: str | Path | Mapping[str, Any] | Recipe, overrides: Sequence[str] = (), *, with_data: bool = True
) -> Any:
    """A recipe from its name, its file, a dict of its tables, or itself.

    Paths of a dict and of a Recipe object are relative to the working directory.

    Raises:
        UserError: as `load_recipe`; or overrides for a Recipe object.
    """
    if isinstance(recipe, Mapping):
        return _validated(deepcopy(dict(recipe)), "the dict", overrides, with_data)
    if not isinstance(recipe, Recipe):
        return load_recipe(recipe, overrides, with_data=with_data)
    if overrides:
        raise UserError("overrides apply to the name or file of a recipe; change the Recipe object instead")
    return resolve_paths(recipe, "the recipe", None)[0]


def _renamed(section: Any, classes: Sequence[type[BaseModel]]) -> Any:
    """A table with older names of its keys replaced (`harken.data.io.keys`)."""
    from harken.data.io.keys import DataTable

    for cls in classes:
        section = cls.renamed(section) if issubclass(cls, DataTable) else section
    return section


def _optional(cls: type[BaseModel], key: str) -> bool:
    field = cls.model_fields.get(key)
    return (
        field is not None
        and get_origin(field.annotation) in (Union, UnionType)
        and type(None) in get_args(field.annotation)
    )


def _read_none(section: Any, classes: Sequence[type[BaseModel]]) -> Any:
    if not isinstance(section, Mapping):
        return section
    values = {}
    for key, value in section.items():
        inside = [
            inner
            for cls in classes
            if key in cls.model_fields
            for inner in config_classes(cls.model_fields[key].annotation)
        ]
        empty = value == "none" and any(_optional(cls, key) for cls in classes)
        values[key] = None if empty else _read_none(value, inside)
    return values


def _dump(section: BaseModel) -> dict[str, Any]:
    """The section as TOML values: None is omitted, or "none" if omitting it would mean another default."""
    values = {}
    for key, value in section.model_dump(exclude_none=False).items():
        if value is not None:
            values[key] = _without_none(value)
        elif type(section).model_fields[key].get_default(call_default_factory=True) is not None:
            values[key] = "none"
    return values


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value]
    return value
