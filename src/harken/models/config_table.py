"""The base classes of all `[model]` tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from harken.registry import CELLS, ENCODERS, FROM_PLUGIN, POSITIONS, SCORES, Registry


def registered(registry: Registry) -> AfterValidator:
    """Accept a name that another package registered, or "module:Name"; refuse others as a wrong choice.

    A reference that cannot be followed raises its own UserError (`harken.registry`).
    """

    def check(name: str) -> str:
        if name not in registry:
            added = [f"'{known}'" for known in registry.names() if known not in registry.shipped]
            names = " or ".join([*added, f"a registered name {FROM_PLUGIN}"])
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": names})
        return name

    return AfterValidator(check)


CellName = Literal["rnn", "lstm", "gru"] | Annotated[str, registered(CELLS)]
ScoreName = Literal["dot", "scaled", "multiplicative", "additive", "cosine"] | Annotated[str, registered(SCORES)]
PositionsName = (
    Literal["sinusoidal", "learned", "relative", "dependency", "rotary", "alibi", "buckets", "none"]
    | Annotated[str, registered(POSITIONS)]
)
EncoderName = Annotated[str, registered(ENCODERS)]
Tied = Literal["all", "embeddings", "output", "none"]
TIED = (
    "weight tying: all (source, target and output; needs a joint vocabulary), embeddings (source and target; the same),"
    " output (target and output), or none"
)
TIED_OUTPUT = "embedding and output layer share one matrix (Press and Wolf, 2017)"
START = "folder of a masked model (task masked) that the encoder and the token embeddings are initialised from"
DECODER = (
    "a table [model.decoder] with its own architecture and keys replaces the decoder; the decoder's keys in [model] "
    "are then ignored"
)


class ModelTable(BaseModel):
    """`[model]` or `[model.decoder]`; the keys depend on the architecture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """`[model]`: weight tying of embeddings and output layer."""

    tied: Tied = Field("all", description=TIED)
