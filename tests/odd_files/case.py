"""The form of a case: a file as a program or a download site writes it, and what reading it has to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """A file and what is expected of it.

    Args:
        name: the file's name; the same name may occur in several cases.
        content: its bytes; None where `write` makes it.
        expect: what reading it gives; its type is for the module of the cases to choose.
        title: what is odd about it.
        write: makes the file, or a folder, at a path.
        needs: a module without which the case is skipped.
    """

    name: str
    content: bytes | None
    expect: Any
    title: str = ""
    write: Callable[[Path], object] | None = None
    needs: str | None = None

    def __str__(self) -> str:
        return self.title or self.name

    def create(self, folder: Path) -> Path:
        """Write the file into a folder; returns its path."""
        path = folder / self.name
        if self.write is not None:
            self.write(path)
        else:
            path.write_bytes(self.content or b"")
        return path
