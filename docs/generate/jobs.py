"""The command, the route and the options of every job as a page, from its interface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from harken.registry import recipe_class
from harken.tasks.interface import SEARCH_PANEL, Field, Files, Interface, Operation, fields_of
from harken.tasks.registry import JOBS, interface_of

HEADER = """# Reference of jobs

```sh
harken predict MODEL INPUT
curl -sf http://127.0.0.1:5000/v1/predict -H 'Content-Type: application/json' -d '{"text": "the black cat sleeps"}'
```

Every job has a command, a route and a form in the [studio](../how-to/studio.md); `harken predict` and
`POST /v1/predict` are those of the job that a model was trained for. A job of your own gets the same:
[extending](../how-to/extend.md). Commands also take `--json`, those that read
lines `--replace`, those that read tables `--format` and `--text-column`, and those with a figure `--out FILE`. Requests
also take `model` and `timeout`, and where results can be streamed `stream`.
"""


OPERATIONS = """`POST /v1/NAME` answers with a result for each text, and `harken NAME MODEL [FILE]` prints one as JSON
for each line. `harken attention`, `harken beam` and `harken score` are commands of their own, which draw or print a
table."""


def kind_name(kind: Any) -> str:
    """A type in words."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if isinstance(kind, UnionType) or (get_args(kind) and NoneType in get_args(kind)):
        return " or ".join(kind_name(one) for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Annotated:
        return kind_name(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return f"({', '.join(map(kind_name, get_args(kind)))})"
    names = {int: "whole number", float: "number", str: "text", bool: "flag", Path: "path"}
    if get_origin(kind) is list:
        return f"list of {kind_name(get_args(kind)[0])}"
    return names.get(
        kind, "table" if get_origin(kind) is dict or is_dataclass(kind) else str(getattr(kind, "__name__", kind))
    )


def bounds(field: Field) -> str:
    """The values that are allowed."""
    option = field.option
    parts = [f"at least {option.ge:g}"] if option.ge is not None else []
    parts += [f"above {option.gt:g}"] if option.gt is not None else []
    if option.le is not None and option.le < 1e6:
        parts.append(f"at most {option.le:g}")
    if option.served_le is not None:
        parts.append(f"in a request at most {option.served_le:g}")
    return ", ".join(parts)


def rows(interface: Operation) -> Iterator[str]:
    """A table row for every field of the input of a request and for every option."""
    is_form = isinstance(interface.input, Files)
    given = {} if is_form else fields_of(interface.input.request)
    if is_form:
        yield f"| | `file` | {', '.join(interface.input.endings)} | required | the file, in a form |"
    for field in given.values():
        yield row("", f"`{field.name}`", field)
    for field in fields_of(interface.options).values():
        option = field.option
        if not option.is_hidden and option.panel is None:
            flag = f"`{option.flag or '--' + field.name.replace('_', '-')}`" if option.in_command else ""
            yield row(flag, f"`{field.name}`" if option.in_request else "", field)


def row(flag: str, name: str, field: Field) -> str:
    """One row."""
    is_plain = field.default is None or field.default is False or field.default == ""
    default = "required" if field.default is MISSING else "" if is_plain else f"`{field.default}`"
    meaning = field.option.description.replace("|", r"\|")  # a bar would end the cell
    meaning = re.sub(r"\b[A-Z]+_[A-Z]+\b", r"`\g<0>`", meaning)  # variables of the environment
    values = ", ".join(filter(None, (kind_name(field.kind), bounds(field))))
    return f"| {flag} | {name} | {values} | {default} | {meaning} |"


def section(task: str, interface: Interface) -> str:
    """The part of the page about one job."""
    argument = interface.input.argument
    name = argument.metavar or argument.name.upper()
    usage = f"harken {interface.verb} MODEL {name if argument.is_required or argument.metavar else f'[{name}]'}"
    lines = [
        f"## {interface.verb}",
        "",
        f"{interface.help.splitlines()[0]} Task `{task}`; `{usage}`; `POST /v1/{interface.verb}`.",
        "",
        f"{name}: {argument.help}",
        "",
        *columns(task),
    ]
    heading = "| option | request | values | default | meaning |"
    lines += [heading, "| --- | --- | --- | --- | --- |", *rows(interface), ""]
    if any(field.option.panel == SEARCH_PANEL for field in fields_of(interface.options).values()):
        lines += ["Further options are those of the [search](../how-to/search.md).", ""]
    if interface.operations:
        names = (f"`{operation.verb}`" for operation in interface.operations)
        lines += [f"Further [operations](#operations): {', '.join(names)}.", ""]
    lines += ["```sh", *(example.partition("      (")[0] for example in interface.examples), "```", ""]
    return "\n".join(lines)


def columns(task: str) -> Iterator[str]:
    """The columns of a table that a job reads and predicts, and its estimator."""
    if names := recipe_class(task).column_names():
        keys = [f"`data.{column.key}` ({column.noun})" if column.key else f"a {column.noun} a row" for column in names]
        yield f'Tables: {", ".join(keys)}. [Estimator](../how-to/estimators.md): `harken.estimator_of("{task}")`.'
        yield ""


def operations(interfaces: list[Interface]) -> str:
    """The part of the page about the further operations of jobs."""
    jobs: dict[Operation, list[str]] = {}
    for interface in interfaces:
        for operation in interface.operations:
            jobs.setdefault(operation, []).append(f"[{interface.verb}](#{interface.verb})")
    lines = ["## Operations", "", OPERATIONS, ""]
    for operation, verbs in jobs.items():
        lines += [f"### {operation.verb}", "", f"{operation.help} Of {', '.join(verbs)}.", ""]
        lines += ["| option | request | values | default | meaning |", "| --- | --- | --- | --- | --- |"]
        lines += [*rows(operation), ""]
        if operation.takes_search:
            lines += ["Requests may also have the options of a [search](../how-to/search.md).", ""]
    return "\n".join(lines)


def reference() -> str:
    """The page."""
    interfaces = {task: interface for task in JOBS if (interface := interface_of(task)) is not None}
    sections = [section(task, interface) for task, interface in interfaces.items()]
    return "\n".join([HEADER, *sections, operations(list(interfaces.values()))])
