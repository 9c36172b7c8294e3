"""The drawings that a `[data]` table names: made by the package, or read from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.table import read_table
from harken.data.parts import divide
from harken.data.prepared.scan import RowKind
from harken.data.splits import content_key, digest, size_of
from harken.data.strokes.config import StrokeConfig
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import drawing_of, read_npz, read_strokes
from harken.data.synthetic.penfont import penfont
from harken.errors import UserError


@dataclass
class StrokeCorpus:
    """Drawings by split."""

    name: str
    splits: dict[str, list[Drawing]]
    skipped: dict[str, int] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`)."""
        return {name: digest(drawings) for name, drawings in self.splits.items()}

    @property
    def has_texts(self) -> bool:
        """Whether every drawing says what it writes."""
        return all(drawing.text for drawings in self.splits.values() for drawing in drawings)


def read_strokes_corpus(config: StrokeConfig) -> StrokeCorpus:
    """Read or make all splits.

    Raises:
        UserError: bad files, or nothing left to train on.
    """
    corpus = StrokeCorpus("penfont", penfont(config.size, config.seed)) if config.corpus else _from_files(config)
    return _without_long(corpus, config.max_points)


def table_strokes(table: Mapping[str, list[Any]], config: StrokeConfig) -> StrokeCorpus:
    """The drawings of a table in memory, with columns `strokes` and perhaps `text`; some are held out.

    Raises:
        UserError: a cell that holds no drawing, or nothing left to train on.
    """
    columns = read_table(table, ["strokes", *(["text"] if "text" in table else [])])
    rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    drawings = [drawing_of(row, f"the table, row {number}") for number, row in enumerate(rows, start=1)]
    return _without_long(_split(config, {"train": drawings}), config.max_points)


def _without_long(corpus: StrokeCorpus, limit: int | None) -> StrokeCorpus:
    """The corpus without longer drawings in its training and validation parts."""
    for name in ("train", "valid"):
        short_enough = [drawing for drawing in corpus.splits[name] if limit is None or len(drawing) <= limit]
        if len(short_enough) < len(corpus.splits[name]):
            corpus.skipped[f"{name} longer than data.max_points {limit}"] = len(corpus.splits[name]) - len(short_enough)
        if not short_enough:
            raise UserError(
                f"no drawing of {corpus.name} is left for {name}; raise data.max_points {limit}, or give more"
            )
        corpus.splits[name] = short_enough
    return corpus


def _from_files(config: StrokeConfig) -> StrokeCorpus:
    if config.file:
        given = read_npz(config.file)
    else:
        files = {"train": config.train, "valid": config.valid, "test": config.test}
        given = {split: read_strokes(path) for split, path in files.items() if path}
    return _split(config, given)


def _split(config: StrokeConfig, given: dict[str, list[Drawing]]) -> StrokeCorpus:
    """The parts that are given, and a validation part."""
    train, sizes = given.pop("train"), {} if "valid" in given else {"valid": size_of(None)}
    parts = divide(DRAWINGS, train, sizes, config.seed, [*chain(*given.values())])
    splits = {"train": list(parts.train), "valid": [], "test": [], **parts.held, **given}
    return StrokeCorpus(Path(config.file or config.train or "").name.split(".")[0], splits, parts.skipped)


DRAWINGS = RowKind("drawings", Drawing, lambda drawing: content_key(drawing.points))
