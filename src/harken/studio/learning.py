"""The course for the page, as a worker of the studio runs it: chapters, their outputs, and answers to exercises."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harken.errors import UserError
from harken.lab.pool import one_thread
from harken.learn import EXERCISES, Cell, chapters, check, read_answer
from harken.studio.figures import figures_json
from harken.studio.live import LIVE, PLACES

EXERCISE = re.compile(r'^print\(check\("(ex\w+)", answer\)\)$', re.MULTILINE)


def list_chapters() -> list[dict[str, Any]]:
    """Every chapter with its cells; of code, the exercise in it and the live figure below it."""
    return [
        {
            "number": chapter.number,
            "title": chapter.title,
            "file": chapter.path.name,
            "cells": [_cell(chapter.number, cell) for cell in chapter.cells],
        }
        for chapter in chapters()
    ]


def _cell(number: int, cell: Cell) -> dict[str, Any]:
    exercise = EXERCISE.search(cell.source)
    name = PLACES.get((number, cell.name))
    return {
        "name": cell.name,
        "text": cell.is_text,
        "source": cell.source,
        "exercise": exercise[1] if exercise else None,
        "inputs": EXERCISES[exercise[1]].names if exercise else [],
        "images": cell.images(),
        "live": {"name": name, **LIVE[name].to_dict()} if name else None,
    }


def run_chapter(number: int, emit: Callable[[dict[str, Any]], None]) -> None:
    """Run a chapter's code; what each cell prints and shows is emitted: {"cell": name, "outputs": [text or figures]}.

    Raises:
        UserError: there is no such chapter.
    """
    chapter = next((chapter for chapter in chapters() if chapter.number == number), None)
    if chapter is None:
        raise UserError(f"there is no chapter {number}; they are 1 to {len(chapters())}")
    with one_thread():  # a second one slows small networks down
        for cell, outputs in chapter.run():
            if outputs and not EXERCISE.search(cell.source):
                drawn = [one if isinstance(one, str) else {"figures": figures_json(one.figures())} for one in outputs]
                emit({"cell": cell.name, "outputs": drawn})


def check_answer(name: str, text: str) -> dict[str, Any]:
    """The verdict on a written answer, of which nothing is executed.

    Raises:
        UserError: there is no such exercise.
    """
    try:
        answer = read_answer(name, text)
    except UserError as error:
        return {"right": False, "said": f"{error}."}
    verdict = check(name, answer)
    return {"right": verdict.right, "said": str(verdict)}
