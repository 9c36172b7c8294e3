"""A recipe that was inferred from data, and its file beside the run that uses it."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write, refuse_kernel_file
from harken.recipe.files import apply

MINUTES = 10.0


@dataclass
class Inferred:
    """A recipe that was inferred, and why."""

    task: str
    reason: str
    data: dict[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # others than [data] and [train]
    rows: list[tuple[str, str]] | None = None  # of a table that has to be written: a file and its text

    def values(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The tables of the recipe, with overrides applied; what is not in them has its default."""
        budget = int(minutes) if minutes == int(minutes) else minutes
        tables = {"task": self.task, "data": self.data, **self.tables, "train": {"max_minutes": budget}}
        values = deepcopy(tables)
        for override in overrides:
            apply(values, override)
        return values

    def to_toml(self, minutes: float = MINUTES, overrides: Sequence[str] = ()) -> str:
        """The recipe, with the reason as a comment."""
        import tomli_w

        text = tomli_w.dumps(self.values(minutes, overrides))
        return f"# {self.task}: {self.reason} (inferred by harken)\n\n{text}"


MOST_TOML = 100_000  # bytes that are read to tell a recipe with another ending from data


def write_recipe(
    inferred: Inferred, path: Path, minutes: float, replace: bool = False, overrides: Sequence[str] = ()
) -> Path:
    """Write an inferred recipe, and the table that goes with it.

    A recipe may be there already that differs in nothing but what the overrides set.

    Raises:
        UserError: another file is there.
    """
    content = ""
    if inferred.rows is not None:
        table = path.with_suffix(".tsv").resolve()
        names = ("audio", "text") if inferred.task == "transcribe" else ("image", "caption")
        rows = io.StringIO()
        csv.writer(rows, delimiter="\t", lineterminator="\n").writerows([names, *inferred.rows])
        content = rows.getvalue()
        inferred.data["train"] = str(table)
    text = inferred.to_toml(minutes, overrides)
    if path.exists() and not replace and _with_overrides(path, overrides) != inferred.values(minutes, overrides):
        raise UserError(
            f"{path} exists and differs from the recipe for this data; train with it, give another --out, or replace "
            "it (harken train --restart)"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if content:
        atomic_write(table, content)
    atomic_write(path, text)
    return path


def _with_overrides(path: Path, overrides: Sequence[str]) -> dict[str, Any] | None:
    """The values of a recipe file with overrides applied; None where it is no recipe."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        for override in overrides:
            apply(values, override)
    except (OSError, ValueError, RecursionError, UserError):
        return None
    return values


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
