"""A model for the verb that was called; what was trained for another job is refused with the verb to use instead."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from harken.errors import UserError

USES = {  # what to do with a model of each job
    "answer": "harken answer {} story.txt",
    "caption": "harken caption {} picture.png",
    "classify": "harken classify {} examples",
    "forecast": "harken forecast {}",
    "handwriting": "harken write {} --out sample.svg",
    "language": "harken generate {}",
    "masked": "harken attention {} 'a [MASK] sentence'",
    "tag": "harken tag {}",
    "transcribe": "harken transcribe {} recording.wav",
    "translate": "harken translate {}",
}


def use_of(task: str, folder: Path) -> str:
    """A command that puts a model to work.

    >>> use_of("tag", Path("runs/my tags"))
    "harken tag 'runs/my tags'"
    """
    return USES.get(task, "harken inspect {}").format(shlex.quote(str(folder)))


def load_for(task: str, folder: Path) -> Any:
    """The object in a model folder.

    Raises:
        UserError: it is no model folder, or was trained for another job.
    """
    from harken.api import load

    model = load(folder)
    if model.recipe.task != task:
        raise UserError(
            f"{folder} was trained for the task {model.recipe.task!r}, and this needs a model of the task {task!r}; "
            f"use {use_of(model.recipe.task, folder)}"
        )
    return model
