"""From a table in memory to a recipe: `harken.train("classify", data=frame)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harken.data.io.table import sample_columns
from harken.recipe.infer.tables import infer_table

FILE_KEYS = ("format", "header", "quotes", "encoding")  # of `[data]`, which say how a file is read


def infer_frame(task: str, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The tables of a recipe for a job on a table in memory, whose columns are chosen as those of a file.

    Raises:
        UserError: more than one column is possible, or the job reads no table.
    """
    values = infer_table(sample_columns(columns), task, None, None).values()
    values["data"] = {key: value for key, value in values["data"].items() if key not in FILE_KEYS}
    return values
