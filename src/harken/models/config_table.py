"""The base classes of all `[model]` tables."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tied = Literal["all", "output", "none"]
TIED = "all: source, target and output share one matrix (joint vocabulary); output: target and output; none"
TIED_OUTPUT = "embedding and output layer share one matrix (Press and Wolf, 2017)"
START = "folder of a masked model (task masked) that the encoder and the token embeddings are initialised from"
DECODER = (
    "a table [model.decoder] with an architecture and keys of its own puts that decoder on this encoder; "
    "the decoder keys of [model] itself are then not used"
)


class ModelTable(BaseModel):
    """`[model]` or `[model.decoder]`; the architecture says which keys there are."""

    model_config = ConfigDict(extra="forbid")

    architecture: str

    @property
    def title(self) -> str:
        """The network in a few words."""
        return self.architecture

    @property
    def embedding_width(self) -> int:
        """E, the width of the embeddings that are read; D where there is no key for it."""
        width: int = getattr(self, "embedding", None) or self.width  # type: ignore[attr-defined]
        return width

    @property
    def longest(self) -> int | None:
        """The most pieces a sentence may have, its end counted; None where there is no limit."""
        return None


class TiedTable(ModelTable):
    """`[model]`: how the vocabulary's matrices are shared."""

    tied: Tied = Field("all", description=TIED)
