"""Recipes for data that does not ship name its files and leave the folder to the user, as `dir = ""`."""

from __future__ import annotations

from typing import Any

from harken.errors import UserError


def require_folder(data: Any, origin: str, files: str) -> None:
    """Say what to add to a recipe whose `[data]` has no place yet; `files` are what may be set instead.

    Raises:
        UserError: the data has no place yet.
    """
    if data.corpus:
        return
    if not data.train:
        raise UserError(f'{origin} names no data: set data.train to a file, or data.corpus to "phrasebook"')
    if data.dir == "":
        first = data.train if isinstance(data.train, str) else data.train[0]
        raise UserError(
            f"{origin} does not say where its data is: add --set data.dir=DIR (a folder with {first}), or set {files} "
            "and data.dir=."
        )
