"""Docstrings of this project as Markdown: an extension of griffe, which reads the sources for mkdocstrings.

Here an example starts with `>>>` and needs no heading, and equations and lists of arguments are laid out in columns.
Markdown would join their lines, so both become code blocks.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples):$")


class CodeBlocks(griffe.Extension):
    """Fences around the examples and the columns of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(inspect.cleandoc(obj.docstring.value))


def fenced(text: str) -> str:
    """The docstring with its code in fences; sections such as `Args:` are left to griffe."""
    return "\n\n".join(block(part) for part in re.split(r"\n\s*\n", text))


def block(part: str) -> str:
    """One paragraph."""
    lines = part.splitlines()
    if SECTION.match(lines[0].strip()):
        return part
    if lines[0].startswith(">>>"):
        return f"```pycon\n{part}\n```"
    is_laid_out = any(line.startswith(" ") for line in lines) or any(re.search(r"\S {2,}\S", line) for line in lines)
    return f"```text\n{inspect.cleandoc(part)}\n```" if is_laid_out and not part.startswith(("- ", "* ")) else part
