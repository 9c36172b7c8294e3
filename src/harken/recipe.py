"""A recipe: everything one training run needs to know, read from TOML and checked before anything heavy is loaded.

A recipe is a name that ships with harken or a TOML file. Relative paths in it are relative to the working directory.
Overrides are written `section.key=value`; the value is read as TOML, or else taken as a plain string.

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

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from harken.data.config import DataConfig, TokenizerConfig
from harken.errors import UserError
from harken.models.config import ModelConfig
from harken.recipe_errors import explain
from harken.search.config import SearchConfig
from harken.training.config import TrainConfig


class Recipe(BaseModel):
    """All the sections of a recipe, every value filled in.

    TOML has no word for "nothing", so the string "none" stands for it where a key may be absent: `clip_norm = "none"`.
    """

    model_config = ConfigDict(extra="forbid")

    task: Literal["translate"] = Field("translate", description="the job the model learns")
    data: DataConfig = Field(description="where the sentence pairs come from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text becomes ids")
    model: ModelConfig = Field(description="the network; begin with architecture")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")
    search: SearchConfig = Field(SearchConfig.model_validate({}), description="how an output is looked for")

    _source: str | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_word(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        classes = {name: _classes(field.annotation) for name, field in cls.model_fields.items()}
        return {name: _read_none(value, classes.get(name, ())) for name, value in values.items()}

    @model_validator(mode="after")
    def _tied_needs_joint(self) -> Recipe:
        if self.model.tied == "all" and not self.tokenizer.joint:
            raise ValueError(
                'model.tied is "all", which needs one vocabulary for both sides: set tokenizer.joint = true, '
                'or model.tied = "output"'
            )
        return self

    @property
    def source(self) -> str | None:
        """The name or file this recipe was loaded from."""
        return self._source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    def to_toml(self) -> str:
        """Every key with its value, so that `load_recipe` gives an equal recipe back."""
        import tomli_w

        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return tomli_w.dumps(
            {name: _dump(value) if isinstance(value, BaseModel) else value for name, value in sections.items()}
        )


def load_recipe(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe by name or from a file, apply `overrides`, and check every key.

    Raises:
        UserError: one sentence that names the file and line, or the key, and what would be right.
    """
    text, origin = _read(name_or_path)
    values = _parse(text, origin)
    applied = [_apply(values, override) for override in overrides]
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error, Recipe, values, origin, applied)) from None
    _require_data(recipe, origin)
    recipe._source = str(name_or_path)
    return recipe


def _require_data(recipe: Recipe, origin: str) -> None:
    """A recipe for a corpus that does not ship leaves its place to the user: say what to add."""
    data = recipe.data
    if data.corpus or data.source or data.target:
        return
    wanted = (("--set data.dir=DIR", data.dir), ("--set data.pair=en-de", data.pair))
    missing = [what for what, value in wanted if not value]
    if missing:
        raise UserError(
            f"{origin} does not say where its data is: add {' '.join(missing)} (DIR is a folder with train.en.gz, "
            "train.de.gz, val.en.gz, val.de.gz and test files), or set data.source and data.target to your own files"
        )


def recipe_names() -> list[str]:
    """The recipes that ship, in the order of their names."""
    return sorted(item.name.removesuffix(".toml") for item in _shelf().iterdir() if item.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    """The TOML of a recipe that ships, comments and all."""
    if name not in recipe_names():
        raise UserError(_unknown_name(name))
    return (_shelf() / f"{name}.toml").read_text(encoding="utf-8")


def describe(name: str) -> str:
    """The one-line description of a recipe that ships: its first comment."""
    return recipe_text(name).splitlines()[0].lstrip("# ").rstrip()


def _shelf() -> Any:
    return files("harken") / "recipes"


def _read(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a recipe and what to call it in a message."""
    name = str(name_or_path)
    if isinstance(name_or_path, str) and name in recipe_names():
        return recipe_text(name), f"recipe {name}"
    path = Path(name_or_path)
    try:
        return path.read_bytes().decode("utf-8-sig"), name
    except FileNotFoundError:
        if path.suffix == ".toml" or path.name != name:
            raise UserError(
                f"recipe file {name} was not found; check the path, or choose one that ships: "
                f"{', '.join(recipe_names())}"
            ) from None
        raise UserError(_unknown_name(name)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{name}, line {line}, is not valid UTF-8; save the recipe as UTF-8") from None
    except IsADirectoryError:
        hint = f"give {path / 'recipe.toml'}" if (path / "recipe.toml").is_file() else "give a TOML file or a name"
        raise UserError(f"{name} is a folder, not a recipe; {hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"recipe file {name!r} cannot be read ({reason}); check its name and permissions") from None


def _unknown_name(name: str) -> str:
    near = get_close_matches(name, recipe_names(), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"those that ship are {', '.join(recipe_names())}"
    return f"there is no recipe or file called {name!r}; {hint}"


def _parse(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
        if found is None:
            raise UserError(f"{origin} is not valid TOML: {error}") from None
        line, column = found[2] or str(text.count("\n") + 1), found[3]
        place = f"line {line}" + (f", column {column}" if column else " (the end of the file)")
        raise UserError(f"{origin}, {place}: not valid TOML: {found[1][:1].lower()}{found[1][1:]}") from None


def _apply(values: dict[str, Any], override: str) -> tuple[str, str]:
    """Put one `a.b=c` into the tree; give back its key and itself, for messages."""
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise UserError(f"the override {override!r} should be written section.key=value, such as train.max_steps=1000")
    table = values
    for depth, part in enumerate(parts[:-1], 1):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            place = ".".join(parts[:depth])
            raise UserError(f"the override {override!r} does not fit: {place} is {table!r}, not a table")
    table[parts[-1]] = _value(text.strip())
    return ".".join(parts), override


def _value(text: str) -> Any:
    """A TOML value, or the text itself where it is none (a path, a word)."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _classes(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The configuration classes an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(found for part in get_args(annotation) for found in _classes(part))


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
            found for cls in classes if key in cls.model_fields for found in _classes(cls.model_fields[key].annotation)
        ]
        empty = value == "none" and any(_optional(cls, key) for cls in classes)
        values[key] = None if empty else _read_none(value, inside)
    return values


def _dump(section: BaseModel) -> dict[str, Any]:
    """The section as TOML values: an absent value is left out, or "none" where leaving it out means something else."""
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
