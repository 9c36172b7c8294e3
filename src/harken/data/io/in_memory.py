"""A table in memory in the place of files: read whole once, and known again by its digest.

What a recipe of such a run says in the place of a file is `name_of` its table, so that a run can only go on with the
same one, and whoever looks for the file later is told what it was.

>>> table = in_memory([{"text": "good", "label": 1}, {"text": "bad", "label": 0}])
>>> name_of(table) == name_of({"text": ["good", "bad"], "label": [1, 0]}), name_of(table) == name_of({"text": ["good"]})
(True, False)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.table import read_table
from harken.errors import UserError
from harken.paths import IN_MEMORY


def in_memory(table: Any) -> dict[str, list[Any]]:
    """A data frame, `datasets.Dataset`, dict of columns or list of records as columns.

    Raises:
        UserError: a path, what is no table, or a table without rows.
    """
    if isinstance(table, str | Path):
        raise UserError(f"data is the path {table}, not a table; name files in the recipe's [data], by overrides")
    columns = read_table(table)
    if not columns or not next(iter(columns.values())):
        raise UserError("the table given as data has no rows; give at least a few")
    return columns


def name_of(columns: Mapping[str, list[Any]]) -> str:
    """The name of the table in a recipe: the same cells have the same name."""
    digest = hashlib.sha256()
    for name, cells in columns.items():
        digest.update(f"{name}\n".encode())
        for cell in cells:
            digest.update(_content(cell))
    return f"{IN_MEMORY} {digest.hexdigest()[:12]}"


def _content(cell: Any) -> bytes:
    """The bytes of a cell: of an array or a picture its values, of a mapping or a list of arrays those of its parts."""
    if hasattr(cell, "tobytes") and not isinstance(cell, np.generic):
        return bytes(cell.tobytes())
    if isinstance(cell, Mapping):
        return b"".join(f"{name}\t".encode() + _content(value) for name, value in cell.items())
    if isinstance(cell, list) and cell and isinstance(cell[0], np.ndarray):
        return b"".join(map(_content, cell))
    return f"{cell}\t".encode()


def text_column(columns: Mapping[str, list[Any]], name: str = "text") -> list[str]:
    """The texts of a table: its column of this name, or its only one.

    Raises:
        UserError: there is none, or a cell holds nothing.
    """
    name = next(iter(columns)) if len(columns) == 1 else name
    column = read_table(columns, [name])
    refuse_gaps(column, [name])
    return [str(cell) for cell in column[name]]


def refuse_gaps(columns: Mapping[str, list[Any]], names: Iterable[str]) -> None:
    """Cells of these columns are all there.

    Raises:
        UserError: the first that is None or not a number.
    """
    for name in names:
        for row, cell in enumerate(columns[name], start=1):
            if cell is None or (isinstance(cell, float) and cell != cell):
                raise UserError(f"the table, row {row} has nothing in column {name!r}; fill it in, or drop the row")
