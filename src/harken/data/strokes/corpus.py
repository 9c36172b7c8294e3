"""The drawings that a `[data]` table names: made by the package, or read from files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.splits import content_key, digest, size_of, split_groups, without_held_out
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import read_npz, read_strokes
from harken.data.synthetic.penfont.lines import penfont
from harken.errors import UserError
from harken.paths import PathStr


class StrokeConfig(BaseModel):
    """Where the drawings come from: the generated font, one file with all splits, or one file per split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: Literal["penfont"] | None = Field(None, description="A generated corpus: lines written by simulated hands.")
    size: int = Field(8000, ge=1, description="Training lines of the generated corpus.")
    file: PathStr | None = Field(None, description="An .npz file with all splits, as online-strokes has them.")
    train: PathStr | None = Field(
        None, description="Drawings to train on: .jsonl, or pendigits' .tra; also .gz and .xz."
    )
    valid: PathStr | None = Field(None, description="Drawings to validate on; default: held out from training.")
    test: PathStr | None = Field(None, description="Drawings to test on.")
    max_points: int | None = Field(None, ge=1, description="Longer drawings are skipped and counted.")
    seed: int = Field(1, ge=0, description="Seed of the generated corpus and of the held-out split.")

    @property
    def sources(self) -> list[str]:
        """The keys that say where drawings come from."""
        return [key for key in ("corpus", "file", "train") if getattr(self, key)]

    @model_validator(mode="after")
    def _one_source(self) -> StrokeConfig:
        if len(self.sources) > 1:
            raise ValueError(f"data.{' and data.'.join(self.sources)} are both given: keep one of them")
        return self


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
    if config.corpus:
        corpus = StrokeCorpus("penfont", penfont(config.size, config.seed))
    elif config.file:
        corpus = StrokeCorpus(Path(config.file).name.split(".")[0], read_npz(config.file))
    else:
        assert config.train is not None  # the recipe asks for it
        corpus = StrokeCorpus(Path(config.train).name.split(".")[0], _from_files(config))
    if not config.corpus:
        held_out = [drawings for name, drawings in corpus.splits.items() if name != "train"]
        corpus.splits["train"], corpus.skipped = without_held_out(corpus.splits["train"], held_out, _key)
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
        parts = split_groups([_key(drawing) for drawing in train], {"valid": size_of(None)}, config.seed)
        train, valid = [train[row] for row in parts["train"]], [train[row] for row in parts["valid"]]
    return {"train": train, "valid": valid, "test": read_strokes(config.test) if config.test else []}


def _key(drawing: Drawing) -> str:
    return content_key(drawing.points)
