"""Every command with its arguments, options and examples as a page, from the Typer application."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import typer

from harken.cli.app import app

HEADER = """# Commands

```sh
harken --help                # the commands
harken train --help          # the options of one, with examples
```

A *recipe* is the name of one that ships, a TOML file, or data to infer one from. A *model* is a folder that
`harken train` made. Every command that prints data takes `--json`. Pictures are written as `.html`, `.svg` or `.png`,
by the ending of the file.

`harken --plugin MODULE COMMAND` imports a module or a `.py` file first, which may register jobs, cells and scores
([extending](../how-to/extend.md)). `harken --install-completion` installs completion for the current shell.

| Exit status | Meaning |
| --- | --- |
| 0 | success |
| 1 | internal error: please report it |
| 2 | usage error: one sentence on standard error names the file, the line or the key, and what to do |
| 130 | interrupted; `harken train` has saved a checkpoint |
"""


def reference() -> str:
    """The page."""
    commands = typer.main.get_command(app).commands
    names = sorted(name for name, command in commands.items() if not command.hidden)
    index = ", ".join(f"[{name}](#{name})" for name in names)
    return "\n".join([HEADER, f"{index}\n", *(section(name, commands[name], 2) for name in names)])


def section(name: str, command: Any, level: int) -> str:
    """The part of the page about one command, and about those below it."""
    options = [
        one for one in command.params if one.param_type_name == "option" and not one.hidden and one.name != "help"
    ]
    arguments = [one for one in command.params if one.param_type_name == "argument" and not one.hidden]
    usage = " ".join(["harken", name, *(usage_of(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"{'#' * level} {name}", "", text(command.help), "", f"```text\n{usage}\n```", ""]
    lines += [f"`{label(one)}`: {text(one.help)}\n" for one in arguments if one.help]
    if options:
        lines += ["| option | values | default | meaning |", "| --- | --- | --- | --- |", *map(row, options), ""]
    if examples := list(examples_of(command.epilog or "")):
        lines += ["```sh", *examples, "```", ""]
    below = getattr(command, "commands", {})
    return "\n".join([*lines, *(section(f"{name} {inner}", below[inner], level + 1) for inner in below)])


def label(argument: Any) -> str:
    """The name of an argument as the usage line has it."""
    return str(argument.metavar or argument.name.upper())


def usage_of(argument: Any) -> str:
    """An argument of the usage line; those that may be left out in brackets."""
    name = label(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def row(option: Any) -> str:
    """One option."""
    flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    plain = option.default in (None, False, "", [], ()) or not option.show_default
    default = "required" if option.required else "" if plain else f"`{option.default}`"
    cells = [flags, values(option), default, text(option.help)]
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def values(option: Any) -> str:
    """What may be given."""
    if option.is_flag:
        return ""
    kind = option.type_descriptor.annotation
    if get_origin(kind) in (UnionType, list):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    name = option.metavar or {int: "whole number", float: "number", str: "text"}.get(kind, "path")
    least, most = option.min, option.max
    bounds = [f"at least {least:g}"] if least is not None else []
    bounds += [f"at most {most:g}"] if most is not None else []
    return ", ".join([f"`{name}`" if option.metavar else name, *bounds])


def text(help_text: str | None) -> str:
    """A help text without the escapes of rich; words in capitals with underscores as code."""
    plain = (help_text or "").replace("\\[", "[").replace("\b", "")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", plain)]
    return "\n\n".join(re.sub(r"(?<!`)\b[A-Z]+_[A-Z]+\b", r"`\g<0>`", part) for part in paragraphs).replace("<", "&lt;")


def examples_of(epilog: str) -> Iterator[str]:
    """The commands of an epilog; a remark in parentheses becomes a comment."""
    for line in epilog.splitlines():
        if line.strip() and line.strip() != "Examples:":
            command, _, remark = line.strip().partition("      (")
            yield f"{command:<60}  # {remark.rstrip(')')}" if remark else command
