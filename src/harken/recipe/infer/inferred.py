"""A recipe that was inferred from data, and its file beside the run that uses it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write, open_output, refuse_kernel_file
from harken.paths import paths_in
from harken.recipe.files import apply
from harken.recipe.infer.columns import Table
from harken.registry import TASKS, recipe_class

MINUTES = 10.0
EPOCHS = 8  # of fine-tuning; early stopping ends most runs before


@dataclass(frozen=True)
class Conversion:
    """A file that has to be written, since no job reads the data as it is: its ending, and its lines."""

    ending: str
    lines: Callable[[], Iterable[str]]


@dataclass
class Inferred:
    """A recipe that was inferred, and why."""

    task: str
    reason: str
    data: dict[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # others than [data] and [train]
    conversions: dict[str, Conversion] = field(default_factory=dict)  # by the key of [data] that names the file
    sample: Table | None = field(default=None, repr=False)  # rows that were looked at
    unit: str = "rows"  # of the sample: rows, or words of sentences that blank lines divide
    facts: Callable[[], dict[str, str]] = dict  # further ones for `harken look`, which take a reading of the data

    def values(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The tables of the recipe, with overrides applied; what is not in them has its default.

        Paths of overrides are relative to the working directory, and absolute in the result.

        Raises:
            UserError: overrides that make no valid recipe.
        """
        budget = int(minutes) if minutes == int(minutes) else minutes
        tables = {"task": self.task, "data": self.data, **self.tables, "train": {"max_minutes": budget}}
        if any(override.startswith(("adapt.start=", "model.start=")) for override in overrides):
            tables |= {"train": {"max_epochs": EPOCHS}}
            tables.pop("tokenizer", None)  # that of the start
        changes = [override for override in overrides if override.startswith("model.")]
        if changes and not all(override.startswith("model.start=") for override in changes):
            tables["model"] = _default_architecture(self.task)
        values = deepcopy(tables)
        if overrides:
            from harken.recipe import as_recipe

            recipe = as_recipe(tables, overrides)
            absolute = {recipe.written_paths[at.key]: at.value for at in paths_in(recipe) if at.is_path}
            for override in overrides:
                table, name = _table_of(values, apply(values, override)[0])
                table[name] = _replaced(table[name], absolute)
        return values

    def to_toml(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> str:
        """The recipe, with the reason as a comment."""
        import tomli_w

        text = tomli_w.dumps(self.values(minutes, overrides))
        return f"# {self.task}: {self.reason} (inferred by harken)\n\n{text}"

    def converted(self, path: Path) -> Inferred:
        """The same with the files named that `write_recipe` writes beside a recipe."""
        files = {key: str(self.location(path, key).resolve()) for key in self.conversions}
        return replace(self, data={**self.data, **files})

    def location(self, path: Path, key: str) -> Path:
        """The file of a conversion beside the recipe `path`."""
        part = "" if key in ("train", "source") else f".{key}"
        return path.with_name(f"{path.stem}{part}{self.conversions[key].ending}")


def recognise(path: Path, task: str | None) -> Inferred | None:
    """The recipe of a file or folder in a format that one job alone reads, where this is it."""
    for name in TASKS.names() if task is None else [task]:
        if recognised := recipe_class(name).recognise(path):
            return Inferred(name, *recognised)
    return None


def _default_architecture(task: str) -> dict[str, str]:
    """The beginning of a [model] table of which some keys are set."""
    default = recipe_class(task).model_fields["model"].get_default()
    return {"architecture": default.architecture} if hasattr(default, "architecture") else {}


def _table_of(values: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The innermost table of a dotted key, and the key in it."""
    *tables, name = key.split(".")
    for part in tables:
        values = values[part]
    return values, name


def _replaced(value: Any, absolute: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(inner, absolute) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, absolute) for inner in value]
    return absolute.get(value, value) if isinstance(value, str) else value


MOST_TOML = 100_000  # bytes that are read to tell a recipe with another ending from data


def write_recipe(
    inferred: Inferred, path: Path, minutes: float, replace: bool = False, overrides: Sequence[str] = ()
) -> Path:
    """Write an inferred recipe, and the files that the data is converted to.

    A recipe may be there already that differs in nothing but what the overrides set.

    Raises:
        UserError: another file is there, or the overrides make no valid recipe.
    """
    complete = inferred.converted(path)
    text = complete.to_toml(minutes, overrides)
    if path.exists() and not replace and not _is_same(path, tomllib.loads(text), overrides):
        raise UserError(
            f"{path} exists and differs from the recipe for this data; train with it, give another --out, or replace "
            "it (harken train --restart)"
        )
    for key in inferred.conversions:
        location = inferred.location(path, key)
        if location.exists() and not path.exists():
            raise UserError(f"{location} exists, where the data would be converted to; give another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    for key, conversion in inferred.conversions.items():
        with open_output(inferred.location(path, key)) as stream:
            try:
                stream.writelines(f"{line}\n" for line in conversion.lines())
            except UnicodeEncodeError as problem:  # JSON can write half of a surrogate pair
                character = ascii(problem.object[problem.start])
                raise UserError(f"data.{key} has {character}, which is no character; correct that text") from None
    atomic_write(path, text)
    return path


def _is_same(path: Path, values: dict[str, Any], overrides: Sequence[str]) -> bool:
    """Whether a recipe file has these values, the keys of the overrides aside."""
    try:
        saved = tomllib.loads(path.read_text(encoding="utf-8"))
        for override in overrides:
            key, _ = apply(saved, override)
            (table, name), (new, _) = _table_of(saved, key), _table_of(values, key)
            table[name] = new[name]
    except (OSError, ValueError, RecursionError, UserError):
        return False
    if "model" in saved and "model" in values:
        saved["model"] = {"architecture": values["model"].get("architecture")} | saved["model"]
    return saved == values


def is_data(name: str) -> bool:
    """Whether an argument names data rather than a recipe: it exists, and is neither TOML nor a model folder.

    Raises:
        UserError: a file of /proc.
    """
    from harken.recipe import recipe_names

    try:
        path = Path(name).expanduser()
        if name in recipe_names() or path.suffix == ".toml" or not (path.is_file() or path.is_dir()):
            return False  # pipes and devices are not read twice
    except (OSError, RuntimeError, ValueError):  # a name that no file can have
        return False
    if path.is_dir():
        return not (path / "recipe.toml").is_file()
    refuse_kernel_file(path)
    try:
        with path.open("rb") as stream:
            return not tomllib.loads(stream.read(MOST_TOML).decode())
    except (OSError, ValueError, RecursionError):  # neither text nor TOML
        return True
