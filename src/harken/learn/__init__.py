"""The course of `docs/learn`: its chapters, notebooks and pages made of them, the answers to its exercises.

A chapter is a Python script in jupytext's percent format: cells begin with `# %% name`, those of text with
`# %% name [markdown]`. It runs as a script; `harken learn --out FOLDER` writes it as a notebook, and
`chapter.to_markdown(FOLDER)` runs it and gives a page with its outputs and pictures.

>>> from harken.learn import chapters, check
>>> check("ex1a", 2)
Not yet. You squared the differences and added them; a distance is the square root of that sum.
>>> check("ex1a", 2**0.5).right
True
"""

from __future__ import annotations

import io
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.files import atomic_write
from harken.inspection.figure import Figure
from harken.inspection.pictures.picture import Picture, Plot
from harken.learn.exercises import EXERCISES, Exercise, Verdict, check, read_answer

__all__ = ["EXERCISES", "Cell", "Chapter", "Exercise", "Verdict", "chapters", "check", "read_answer", "show"]

FOLDER = Path(__file__).parent / "chapters"  # a link to docs/learn; in a wheel, a copy of it
Outputs = list[str | Picture]  # what a cell printed and showed, in order
OUTPUTS: ContextVar[Outputs | None] = ContextVar("OUTPUTS", default=None)  # of the cell that `Chapter.run` runs
IMAGE = re.compile(r"!\[[^\]]*\]\(([\w-]+\.png)\)")  # beside the chapters
START = re.compile(r"^# %% ([a-z0-9-]+)( \[markdown\])?$\n", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A piece of a chapter, addressed by its name."""

    name: str
    is_text: bool
    source: str  # Markdown, or Python

    def images(self) -> dict[str, str]:
        """The images in the text, by their file names, in base64."""
        names = IMAGE.findall(self.source) if self.is_text else []
        return {name: b64encode((FOLDER / name).read_bytes()).decode() for name in names}

    def to_notebook(self) -> dict[str, Any]:
        """The cell in the notebook format 4.5, with its images.

        A notebook can lie anywhere, so a link to another chapter leads to its notebook, and one to a file of harken
        or of its documentation becomes the name of the file.
        """
        cell = {"id": self.name, "metadata": {"name": self.name}}
        if not self.is_text:
            code = self.source.splitlines(True)
            return {"cell_type": "code", "execution_count": None, "outputs": [], "source": code, **cell}
        text = IMAGE.sub(lambda link: link[0].replace("](", "](attachment:"), self.source)
        text = re.sub(r"\]\((\d-[\w-]+)\.py\)", r"](\1.ipynb)", text)
        text = re.sub(r"\[([^\]]+)\]\(\.\./\.\./src/([^)#]+)\)", r"`\2`", text)
        text = re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)", r"\1 (`docs/\2`)", text)
        attachments = {name: {"image/png": content} for name, content in self.images().items()}
        with_images = {"attachments": attachments} if attachments else {}
        return {"cell_type": "markdown", "source": text.splitlines(True), **with_images, **cell}


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

    def run(self) -> Iterator[tuple[Cell, Outputs]]:
        """Run the code from top to bottom; each cell with what it printed and showed, as soon as it has run."""
        namespace: dict[str, Any] = {"__name__": self.path.stem}
        for cell in self.cells:
            outputs: Outputs = []
            if not cell.is_text:
                token = OUTPUTS.set(outputs)
                try:
                    with redirect_stdout(_Printed(outputs)):
                        exec(compile(cell.source, f"{self.path}, cell {cell.name}", "exec"), namespace)
                finally:
                    OUTPUTS.reset(token)
            yield cell, outputs

    def to_markdown(self, folder: Path) -> str:
        """Run the chapter and return it as Markdown with outputs.

        Pictures are written into the folder, and named without it: as `2-rnn-picture-of-shares.svg`, beside the page.
        Links are those of the script, relative to `docs/learn`.
        """
        parts = []
        for cell, outputs in self.run():
            parts.append(cell.source if cell.is_text else f"```python\n{cell.source}\n```")
            for number, output in enumerate(outputs):
                if isinstance(output, str):
                    parts.append(f"```text\n{output.rstrip()}\n```")
                    continue
                name = f"{self.path.stem}-{cell.name}{f'-{number}' if number else ''}.svg"
                atomic_write(folder / name, output.to_svg().encode())
                parts.append(f"![{output.heading}]({name})")
        return "\n\n".join(parts) + "\n"


class _Printed(io.TextIOBase):
    """A stream whose text goes to the outputs of a cell."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs

    def write(self, text: str) -> int:
        if self.outputs and isinstance(self.outputs[-1], str):
            self.outputs[-1] += text
        else:
            self.outputs.append(text)
        return len(text)


def chapters() -> list[Chapter]:
    """All chapters in their order."""
    return [Chapter.read(path) for path in sorted(FOLDER.glob("[0-9]-*.py"))]


def show(drawn: Picture | Figure) -> None:
    """Show a picture or a figure: in a notebook or on a page as a drawing, elsewhere as text."""
    picture = Plot([drawn]) if isinstance(drawn, Figure) else drawn
    outputs, notebook = OUTPUTS.get(), sys.modules.get("IPython")
    if outputs is not None:
        outputs.append(picture)
    elif notebook is not None and notebook.get_ipython() is not None:
        notebook.display.display(picture)
    else:
        print(picture)
