"""What every table about a network has in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tied = Literal["all", "output", "none"]
TIED = "all: source, target and output share one matrix (joint vocabulary); output: target and output; none"
DECODER = (
    "a table [model.decoder] with an architecture and keys of its own puts that decoder on this encoder; "
    "what [model] says of its decoder is then of no account"
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
    def longest(self) -> int | None:
        """The most pieces a sentence may have, its end counted; None where there is no limit."""
        return None


class TiedTable(ModelTable):
    """`[model]`: how the vocabulary's matrices are shared."""

    tied: Tied = Field("all", description=TIED)
