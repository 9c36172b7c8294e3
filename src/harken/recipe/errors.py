"""Validation errors of a recipe as one sentence: the key, what was found, what is allowed.

Pydantic reports `("model", "transformer", "heads"): Input should be a valid integer`; the user who wrote
`heads = "many"` reads: model.heads is "many" in my.toml, but must be an integer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

Location = Sequence[str | int]

_MUST_BE = {  # pydantic's error type -> what is allowed
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "a smaller integer",
    "int_type": "an integer",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "too_long": "a list of at most {max_length} values",
    "too_short": "a list of at least {min_length} values",
    "tuple_type": "a list",
}


def explain(
    error: ValidationError,
    recipe: type[BaseModel],
    values: Mapping[str, Any],
    origin: str,
    overrides: Sequence[tuple[str, str]] = (),
) -> str:
    """One sentence for the first problem, and the number of others. Unknown keys come first: a typo causes the rest.

    Args:
        error: what pydantic raised for `values`.
        recipe: the class that validated them.
        values: the values of the recipe, with overrides applied.
        origin: the recipe's name or file.
        overrides: `(key, override as written)` of the overrides that were applied.
    """
    problems: dict[str, list[Any]] = {}  # by key: a union has one error per member
    for details in error.errors(include_url=False):
        tag = ".architecture" if details["type"].startswith("union_tag") else ""
        problems.setdefault(_key(_path(details["loc"], values)) + tag, []).append(details)
    keys = [key for key in problems if not any(other.startswith(f"{key}[") for other in problems)]
    keys.sort(
        key=lambda key: "." in key or problems[key][0]["type"] != "extra_forbidden"
    )  # stable: unknown tables first
    sentence = _sentence(
        keys[0], problems[keys[0]], recipe, values, _place(keys[0], problems[keys[0]], origin, overrides)
    )
    others = len(keys) - 1
    return sentence + (f" (and {others} other problem{'s' * (others > 1)})" if others else "")


def _sentence(
    key: str, problems: Sequence[Any], recipe: type[BaseModel], values: Mapping[str, Any], source_note: str
) -> str:
    first = problems[0]
    kind, location, context = first["type"], first["loc"], first.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(key, location, recipe, values, source_note)
    if kind == "missing" and isinstance(location[-1], int):
        return f"{key} has too few values{source_note}{_default(recipe, location)}"
    if kind == "missing":
        return _missing_key(key, location, recipe, values, source_note)
    if kind == "union_tag_not_found":
        tags, table = [_architecture(cls) for cls in _tables(recipe, location)], key.removesuffix(".architecture")
        return f"{key} is missing{source_note}; add architecture = {' or '.join(map(written, tags))} to [{table}]"
    if kind in ("value_error", "assertion_error"):
        message = str(context.get("error", first["msg"]))
        if key.startswith("model.decoder"):  # validated like [model]
            message = re.sub(r"model\.(?!decoder\.)", "model.decoder.", message)
        return f"{message} ({source_note.strip(' ()')})"
    value = context["tag"] if kind == "union_tag_invalid" else first["input"]
    allowed = dict.fromkeys(_allowed(problem) for problem in problems)
    sentence = f"{key} is {written(value)}{source_note}, but must be {' or '.join(allowed)}"
    choices = re.findall(r"'([^']*)'", str(context.get("expected") or context.get("expected_tags", "")))
    near = get_close_matches(str(value), choices, n=1)
    return sentence + (f"; did you mean {written(near[0])}?" if near else "")


def _allowed(problem: Any) -> str:
    if problem["type"] == "union_tag_invalid":
        return str(problem["ctx"]["expected_tags"]).replace("'", '"').replace(", ", " or ")
    pattern = _MUST_BE.get(problem["type"])
    if pattern is None:
        message = str(problem["msg"])
        return message.removeprefix("Input should be ").removeprefix("Value should be ")
    return pattern.format(**problem.get("ctx", {})).replace("'", '"')


def _unknown_key(
    key: str, location: Location, recipe: type[BaseModel], values: Mapping[str, Any], source_note: str
) -> str:
    section, _, name = key.rpartition(".")
    tables = _tables(recipe, location[:-1])
    names = sorted({field for table in tables for field in table.model_fields})
    chosen = _at(values, section).get("architecture") if section.split(".")[0] == "model" else None
    where = (f"[{section}]" if section else "a recipe") + (f" with architecture = {written(chosen)}" if chosen else "")
    sentence = f"{key}{source_note} is not a key of {where}"
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    if near:
        return f"{sentence}; did you mean {section + '.' * bool(section)}{near[0]}?"
    if chosen and any(name in table.model_fields for table in _tables(recipe, ["model"])):
        return (
            f"{sentence}; it belongs to another architecture: remove it, or give the whole table with "
            f"--set '{section}={{architecture = {written(chosen)}}}'"
        )
    for other in recipe.model_fields:
        if any(name in table.model_fields for table in _tables(recipe, [other])):
            return f"{sentence}; did you mean {other}.{name}?"
    near = get_close_matches(name, names, n=1)
    if near:
        return f"{sentence}; did you mean {section + '.' * bool(section)}{near[0]}?"
    return f"{sentence}; choose from {', '.join(names)}"


def _at(values: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """The table of a dotted name; empty if there is none."""
    for part in section.split("."):
        values = values.get(part, {})
        if not isinstance(values, Mapping):
            return {}
    return values


def _missing_key(
    key: str, location: Location, recipe: type[BaseModel], values: Mapping[str, Any], source_note: str
) -> str:
    name = str(location[-1])
    for table in _tables(recipe, location[:-1]):
        if name in table.model_fields:
            meaning = table.model_fields[name].description
            thing = f"the table [{key}]" if _tables(recipe, location) and "." not in key else key
            return f"{thing} is missing{source_note}; add it" + (f" ({meaning})" if meaning else "")
    return f"{key} is missing{source_note}; add it"


def _default(recipe: type[BaseModel], location: Location) -> str:
    *section, key = [item for item in location if isinstance(item, str)]
    default = _tables(recipe, section)[0].model_fields[key].default
    return f"; for example, use {list(default)}" if isinstance(default, (list, tuple)) else ""


def _place(key: str, problems: Sequence[Any], origin: str, overrides: Sequence[tuple[str, str]]) -> str:
    """The file or override that the key came from; an unknown table came from an override of a key in it."""
    is_unknown = problems[0]["type"] == "extra_forbidden"
    for overridden, written_as in reversed(overrides):
        is_inside = key.startswith((f"{overridden}.", f"{overridden}["))
        if key == overridden or is_inside or (is_unknown and overridden.startswith(f"{key}.")):
            return f" (from the override {written_as})"
    return f" in {origin}"


def _path(location: Location, values: Any) -> list[str | int]:
    """The keys as the user wrote them: pydantic's location without the tags of unions."""
    path: list[str | int] = []
    for position, item in enumerate(location):
        last = position == len(location) - 1
        in_table = isinstance(values, Mapping) and item in values
        in_list = isinstance(values, (list, tuple)) and isinstance(item, int) and item < len(values)
        if in_table or in_list:
            values = values[item]
        elif not (last and isinstance(values, Mapping)):
            continue
        path.append(item)
    return path


def _key(path: Sequence[str | int]) -> str:
    return "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in path).lstrip(".")


def _tables(recipe: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    """The config classes that are allowed at a location."""
    tables = [recipe]
    for item in location:
        inner = [
            cls
            for table in tables
            if item in table.model_fields
            for cls in config_classes(table.model_fields[str(item)].annotation)
        ]
        tagged = [table for table in tables if _architecture(table) == item]
        if inner or any(item in table.model_fields for table in tables):
            tables = inner
        elif tagged:
            tables = tagged
    return tables


def config_classes(annotation: Any) -> list[type[BaseModel]]:
    """The config classes in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [cls for part in get_args(annotation) for cls in config_classes(part)]


def _architecture(table: type[BaseModel]) -> str | None:
    field = table.model_fields.get("architecture")
    return field.default if field else None


def written(value: Any) -> str:
    """A value as TOML, truncated to 80 characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = f'"{value}"'
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
