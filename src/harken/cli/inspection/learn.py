"""`harken learn`: the chapters of the course, and notebooks of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, examples, folder_option, print_json
from harken.files import atomic_write


@examples("harken learn", "harken learn --out notebooks")
def learn(
    out: Annotated[Path | None, folder_option("Write the chapters as .ipynb files.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the chapters of the course, or write them as notebooks for Jupyter."""
    from harken.learn import chapters

    rows = []
    for chapter in chapters():
        path = chapter.path if out is None else out / f"{chapter.path.stem}.ipynb"
        if out is not None:
            content = json.dumps(chapter.to_notebook(), indent=1, ensure_ascii=False) + "\n"
            atomic_write(path, content.encode())
        rows.append({"number": chapter.number, "title": chapter.title, "path": str(path)})
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['title']}: {row['path']}")
