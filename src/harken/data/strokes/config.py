"""The `[data]` table of handwriting."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.data.io.keys import DataTable
from harken.paths import PathStr


class StrokeConfig(DataTable):
    """The source of the drawings: the generated font, one file with all splits, or one file per split."""

    origins = ("corpus", "file", "train")

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
        return [key for key in self.origins if getattr(self, key)]
