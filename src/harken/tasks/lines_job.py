"""Jobs that learn from lines of text, each read by itself: what masked models and ELMo share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.data.io.in_memory import text_column
from harken.data.text.texts import TextCorpus, long_enough, read_files, read_line_splits, split_lines
from harken.tasks.job import FileReading, Job


class LinesJob(Job):
    """See `harken.tasks.job`; a subclass has the preparation of a run and the predictions."""

    def load_data(self, recipe: Any) -> TextCorpus:
        return read_line_splits(recipe.data)

    def read_table(self, recipe: Any, table: dict[str, list[Any]]) -> list[str]:
        return long_enough(recipe.data, text_column(table))

    def load_table(self, recipe: Any, table: dict[str, list[Any]]) -> TextCorpus:
        return split_lines(recipe.data, text_column(table))

    def splits(self, data: TextCorpus) -> Mapping[str, list[str]]:
        return data.held_out

    def read_files(self, model: Any, files: Sequence[Path], reading: FileReading) -> tuple[list[str], list[str]]:
        return read_files(model.recipe.data, files), []
