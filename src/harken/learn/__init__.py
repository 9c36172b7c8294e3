"""The course of `docs/learn`: its chapters, notebooks made of them, the answers to its exercises.

A chapter is a Python script in jupytext's percent format: cells begin with `# %% name`, those of text with
`# %% name [markdown]`. It runs as a script; `harken learn --out FOLDER` writes it as a notebook.

>>> from harken.learn import chapters, check
>>> check("ex1a", 2)
Not yet. You squared the differences and added them; a distance is the square root of that sum.
>>> check("ex1a", 2**0.5).right
True
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.inspection.figure import Figure
from harken.inspection.pictures.picture import Picture, Plot
from harken.learn.exercises import EXERCISES, Exercise, Verdict, check

__all__ = ["EXERCISES", "Cell", "Chapter", "Exercise", "Verdict", "chapters", "check", "show"]

FOLDER = Path(__file__).parent / "chapters"  # a link to docs/learn; in a wheel, a copy of it
START = re.compile(r"^# %% ([a-z0-9-]+)( \[markdown\])?$\n", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A piece of a chapter, addressed by its name."""

    name: str
    is_text: bool
    source: str  # Markdown, or Python

    def to_notebook(self) -> dict[str, Any]:
        """The cell in the notebook format 4.5."""
        cell = {"id": self.name, "metadata": {"name": self.name}, "source": self.source.splitlines(True)}
        if self.is_text:
            return {"cell_type": "markdown", **cell}
        return {"cell_type": "code", "execution_count": None, "outputs": [], **cell}


@dataclass(frozen=True)
class Chapter:
    """One chapter; `chapter["equation"]` is the cell of this name."""

    path: Path
    cells: list[Cell]

    @classmethod
    def read(cls, path: Path) -> Chapter:
        """The cells of a script, without the `# ` before their text."""
        _, *parts = START.split(path.read_text(encoding="utf-8"))
        cells = []
        for name, marker, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            source = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if marker else body
            cells.append(Cell(name, bool(marker), source.strip("\n")))
        return cls(path, cells)

    @property
    def number(self) -> int:
        """The number of the chapter, from 1 on."""
        return int(self.path.name.split("-")[0])

    @property
    def title(self) -> str:
        """The first heading."""
        return self.cells[0].source.splitlines()[0].removeprefix("# ")

    def __getitem__(self, name: str) -> Cell:
        return {cell.name: cell for cell in self.cells}[name]

    def to_notebook(self) -> dict[str, Any]:
        """The chapter as the content of an .ipynb file."""
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
        cells = [cell.to_notebook() for cell in self.cells]
        return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def chapters() -> list[Chapter]:
    """All chapters in their order."""
    return [Chapter.read(path) for path in sorted(FOLDER.glob("[0-9]-*.py"))]


def show(drawn: Picture | Figure) -> None:
    """Show a picture or a figure: in a notebook as a drawing, elsewhere as text."""
    picture = Plot([drawn]) if isinstance(drawn, Figure) else drawn
    notebook = sys.modules.get("IPython")
    if notebook is not None and notebook.get_ipython() is not None:
        notebook.display.display(picture)
    else:
        print(picture)
