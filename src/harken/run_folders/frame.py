"""Run folders as a table: `harken.runs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harken.files import expand_user
from harken.run_folders.comparing import differing_keys
from harken.run_folders.reading import find_runs


def runs(folder: str | Path = "runs") -> Any:
    """The runs in a folder and below, the one that changed last first.

    Its columns are those of `harken runs --json` (state, task, model, metric, score, parameters, seconds ...) and every
    key of the recipes that differs between runs of one task. Nothing in the folders is locked, loaded or changed.

    Returns:
        A `pandas.DataFrame` where pandas is installed, else a dict of columns.

    Raises:
        UserError: there is no such folder.
    """
    listed = find_runs(expand_user(folder))
    rows = [run.to_dict() for run in listed]
    for key, values in differing_keys(listed).items():
        for row, value in zip(rows, values, strict=True):
            row[key] = value
    return as_frame(rows)


def as_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Records as a data frame where pandas is installed, else as a dict of columns."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    if find_spec("pandas") is None:
        return columns
    import pandas

    return pandas.DataFrame(columns)
