"""Paths in a recipe file are relative to it; those of overrides and `Recipe` objects to the working directory.

After loading, every path is absolute, so that the `recipe.toml` of a run works from any directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any

from harken.data.io.files import suggestion
from harken.errors import UserError
from harken.files import expand_user
from harken.paths import Place, map_paths, paths_in

WILD = "*?["


def resolve_paths(recipe: Any, origin: str, base: Path | None, overrides: Sequence[str] = ()) -> tuple[Any, list[str]]:
    """The recipe with absolute paths, and notes on those that were found beside the working directory only.

    Args:
        origin: the recipe's name or file, for messages.
        base: the folder of the recipe file; None: the working directory.
        overrides: keys that were given on the command line.

    Raises:
        UserError: a `~user` that does not exist.
    """
    here, notes = Path.cwd(), list[str]()

    def resolved(declared: Place) -> str:
        if not declared.is_path or declared.folder is not None:
            return declared.value
        try:
            path = expand_user(declared.value)
        except UserError as problem:
            raise UserError(f"{declared.key}: {problem}") from None
        if path.is_absolute():
            return str(path)
        from_here = _joined(here, path)
        if base is None or base == here or any(_is_within(declared.key, key) for key in overrides):
            return from_here
        from_recipe = _joined(base, path)
        if _exists(from_recipe) or not _exists(from_here):
            return from_recipe
        better = os.path.relpath(from_here, base)
        notes.append(
            f'{declared.key} = "{declared.value}" was found in the working directory, but paths are relative to '
            f'{origin}; write "{better}"'
        )
        return from_here

    return map_paths(recipe, resolved), notes


def require_paths(recipe: Any, section: str = "") -> None:
    """Check that every file and folder that a recipe names is there; `section` restricts this to one table.

    Raises:
        UserError: the first that is missing, with its key.
    """
    for declared in paths_in(recipe):
        path = location(declared)
        if path is None or declared.kind.is_output or _exists(path) or not declared.key.startswith(section):
            continue
        source = f" in {recipe.source}" if getattr(recipe, "source", None) else ""
        raise UserError(f"{declared.key} is {path}{source}, which does not exist: {suggestion(Path(path))}")


def location(declared: Place) -> str | None:
    """The absolute form of a path or pattern; None where the value is no path."""
    if not declared.is_path:
        return None
    path = expand_user(declared.value)
    return str(path if declared.folder is None else expand_user(declared.folder) / path)


def is_pattern(path: str) -> bool:
    """Whether a path has `*`, `?` or `[`."""
    return any(sign in path for sign in WILD)


def _exists(path: str) -> bool:
    return os.path.exists(path) or (is_pattern(path) and bool(glob(path, recursive=True)))


def _joined(base: Path, path: Path) -> str:
    """base/path without `..` and `.`, unless a symbolic link gives `..` another meaning."""
    whole = os.path.join(base, path)
    short = os.path.normpath(whole)
    return short if os.path.realpath(short) == os.path.realpath(whole) else whole


def _is_within(key: str, table: str) -> bool:
    return key == table or key.startswith((f"{table}.", f"{table}["))
