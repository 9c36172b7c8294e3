"""The drawings that a `[data]` table names: made by the package, or read from files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harken.data.splits import held_out_count
from harken.data.strokes.config import StrokeConfig
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import read_npz, read_strokes
from harken.data.strokes.penfont import penfont
from harken.errors import UserError


@dataclass
class StrokeCorpus:
    """Drawings by split."""

    name: str
    splits: dict[str, list[Drawing]]
    skipped: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, split: str) -> list[Drawing]:
        """
        Raises:
            UserError: no such split.
        """
        if not self.splits.get(split):
            known = " or ".join(name for name, drawings in self.splits.items() if drawings)
            raise UserError(f"{self.name} has no split {split!r}; choose --split {known}, or give a file")
        return self.splits[split]

    @property
    def has_texts(self) -> bool:
        """Whether every drawing says what it writes."""
        return all(drawing.text for drawings in self.splits.values() for drawing in drawings)


def read_strokes_corpus(config: StrokeConfig) -> StrokeCorpus:
    """Read or make all splits.

    Raises:
        UserError: bad files, or nothing left to train on.
    """
    if config.corpus:
        corpus = StrokeCorpus("penfont", penfont(config.size, config.seed))
    elif config.file:
        corpus = StrokeCorpus(Path(config.file).name.split(".")[0], read_npz(config.file))
    else:
        assert config.train is not None  # the recipe asks for it
        corpus = StrokeCorpus(Path(config.train).name.split(".")[0], _from_files(config))
    limit = config.max_points
    for name in ("train", "valid"):
        kept = [drawing for drawing in corpus.splits[name] if limit is None or len(drawing) <= limit]
        if len(kept) < len(corpus.splits[name]):
            corpus.skipped[f"{name} longer than data.max_points {limit}"] = len(corpus.splits[name]) - len(kept)
        if not kept:
            raise UserError(
                f"no drawing of {corpus.name} is left for {name}; raise data.max_points {limit}, or give more"
            )
        corpus.splits[name] = kept
    return corpus


def _from_files(config: StrokeConfig) -> dict[str, list[Drawing]]:
    train = read_strokes(config.train or "")
    if config.valid:
        valid = read_strokes(config.valid)
    else:
        import numpy as np

        count = held_out_count(None, len(train))
        order = np.random.default_rng(config.seed).permutation(len(train))
        valid, train = [train[row] for row in order[:count]], [train[row] for row in order[count:]]
    return {"train": train, "valid": valid, "test": read_strokes(config.test) if config.test else []}
