"""Reading recipes: those that ship and those in files, parsed as TOML, with overrides applied.

>>> values = parse("[train]\\nmax_steps = 5", "mine.toml")
>>> apply(values, "train.max_steps=7"), values
(('train.max_steps', 'train.max_steps=7'), {'train': {'max_steps': 7}})
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import read_limited

LARGEST = 10_000_000  # bytes of a recipe; the longest that ships has two thousand


def recipe_names() -> list[str]:
    """The names of the recipes that ship, sorted."""
    return sorted(_shipped())


def recipe_text(name: str) -> str:
    """The TOML of a recipe that ships, with comments."""
    shipped = _shipped()
    if name not in shipped:
        raise UserError(_unknown_name(name))
    text: str = shipped[name].read_text(encoding="utf-8")
    return text


def describe(name: str) -> str:
    """The one-line description of a recipe that ships: its first comment."""
    return recipe_text(name).splitlines()[0].lstrip("# ").rstrip()


def _shipped() -> dict[str, Any]:
    """Name -> file of every recipe in `recipes/TASK/`."""
    folders = [folder for folder in (files("harken") / "recipes").iterdir() if folder.is_dir()]
    return {
        item.name.removesuffix(".toml"): item
        for folder in folders
        for item in folder.iterdir()
        if item.name.endswith(".toml")
    }


def read_text(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a recipe and its name for messages."""
    name = str(name_or_path)
    if isinstance(name_or_path, str) and name in recipe_names():
        return recipe_text(name), f"recipe {name}"
    path = Path(name_or_path)
    try:
        return read_limited(path, LARGEST).decode("utf-8-sig"), name
    except FileNotFoundError:
        if path.suffix == ".toml" or path.name != name:
            raise UserError(
                f"recipe file {name} was not found; check the path, or use one that ships: {', '.join(recipe_names())}"
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
    hint = f"did you mean {near[0]}?" if near else f"the recipes that ship are {', '.join(recipe_names())}"
    return f"there is no recipe or file called {name!r}; {hint}"


def parse(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML; a syntax error is a UserError with line and column."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UserError(f"{origin} is not a recipe: its tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        message = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
        if message is None:
            raise UserError(f"{origin} is not valid TOML: {error}") from None
        line, column = message[2] or str(text.count("\n") + 1), message[3]
        position = f"line {line}" + (f", column {column}" if column else " (the end of the file)")
        raise UserError(f"{origin}, {position}: not valid TOML: {message[1][:1].lower()}{message[1][1:200]}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise UserError(f"{origin} is not valid TOML: {str(error)[:200]}") from None


def apply(values: dict[str, Any], override: str) -> tuple[str, str]:
    """Apply one override `a.b=c` in place; return its key and the override as written, for messages."""
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise UserError(f"the override {override!r} must have the form section.key=value, such as train.max_steps=1000")
    table = values
    for depth, part in enumerate(parts[:-1], 1):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            prefix = ".".join(parts[:depth])
            raise UserError(f"the override {override!r} is not possible: {prefix} is {table!r}, not a table")
    table[parts[-1]] = _value(text.strip())
    return ".".join(parts), override


def _value(text: str) -> Any:
    """A TOML value, or the text itself if it is not TOML (a path, a word)."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # TOMLDecodeError is a ValueError
        return text
    return parsed["value"] if len(parsed) == 1 else text


DEFAULT = 10**12  # steps, bytes, tokens: more than any run uses
LIMITS = {
    "layers": 1_000,
    "encoder_layers": 1_000,
    "decoder_layers": 1_000,
    "depth": 1_000,
    "heads": 1_024,
    "experts": 4_096,
    "width": 131_072,
    "embedding": 131_072,
    "feedforward": 1_048_576,
    "channels": 131_072,
    "kernel": 10_001,
    "kernels": 10_001,
    "max_length": 10_000_000,
    "mixtures": 10_000,
    "beam": 10_000,
    "length_penalty": 100,  # lengths to a higher power overflow
    "workers": 4_096,
    "threads": 4_096,
    "batch_tokens": 10**9,
    "image_size": 16_384,
    "horizon": 1_000_000,
    "seed": 2**63 - 1,
}
DEPTH = 20  # tables inside tables


def check_limits(values: Any, origin: str, key: str = "", name: str = "", depth: int = 0) -> None:
    """Refuse numbers past their bound, and tables nested too deeply, anywhere in a recipe.

    Raises:
        UserError: with the key, what was found and the bound.
    """
    if depth > DEPTH:
        raise UserError(f"{key[:80]} in {origin} is nested more than {DEPTH} tables deep; a recipe has two or three")
    if isinstance(values, Mapping):
        for inner, value in values.items():
            check_limits(value, origin, f"{key}.{inner}" if key else str(inner), str(inner), depth + 1)
    elif isinstance(values, (list, tuple)):
        for index, value in enumerate(values):
            check_limits(value, origin, f"{key}[{index}]", name, depth + 1)
    elif isinstance(values, (int, float)) and not isinstance(values, bool):
        limit = LIMITS.get(name, DEFAULT)
        if abs(values) > limit and abs(values) != float("inf"):
            shown = str(values) if abs(values) < 10**30 else f"a number of {len(str(int(abs(values))))} digits"
            raise UserError(f"{key[:80]} is {shown} in {origin}, but must be at most {limit:,}")


def start_overrides(start: str | Path | None, mix: str | Path | None) -> list[str]:
    """`--start` and `--mix` as overrides with TOML strings: keys of `[adapt]`, or of `[model]` for an encoder."""
    table = "model" if start is not None and _is_masked(Path(start)) else "adapt"
    given = {f"{table}.start": start, "adapt.mix": mix}
    return [f"{key}={json.dumps(str(value))}" for key, value in given.items() if value is not None]


def _is_masked(folder: Path) -> bool:
    """Whether a folder holds a masked language model."""
    path = folder.expanduser() / "recipe.toml"
    return path.is_file() and parse(path.read_text(encoding="utf-8"), str(path)).get("task") == "masked"
