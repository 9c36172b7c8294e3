"""What every table about a network has in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tied = Literal["all", "output", "none"]
TIED = "weight tying: all (source, target and output; needs a joint vocabulary), output (target and output), or none"
DECODER = (
    "a table [model.decoder] with its own architecture and keys replaces the decoder; the decoder's keys in [model] "
    "are then ignored"
)


class ModelTable(BaseModel):
    """`[model]` or `[model.decoder]`; the keys depend on the architecture."""

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
    """`[model]`: weight tying of embeddings and output layer."""

    tied: Tied = Field("all", description=TIED)
