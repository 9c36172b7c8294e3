"""What a checkpoint holds: tensors, and the state of the run between two updates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"


@dataclass
class Progress:
    """The state of a run between two updates."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch already used
    tokens: int = 0  # loss terms seen: target tokens, labels, frames ...
    seconds: float = 0.0  # spent in the loop, validation included
    best: float | None = None
    best_step: int = 0
    best_loss: float | None = None  # of the validation at `best_step`
    stale: int = 0  # validations since the best
    waited: int = 0  # validations the plateau schedule has waited
    reduced: float = 1.0  # factor of the plateau schedule
    window_loss: float = 0.0  # of the steps since the last line of metrics.jsonl
    window_tokens: int = 0
    window_seconds: float = 0.0
    validations: int = 0
    validated_step: int = 0  # of the last validation
    validation_seconds: float = 0.0
    loss_mean: float = 0.0  # running mean of the loss a token, its mean deviation and how many updates they are of
    loss_deviation: float = 0.0
    loss_counted: int = 0
    dead: dict[str, int] = field(default_factory=dict)  # parameter -> validations in a row without a gradient
    finished: bool = False
    stopped_by: str = ""  # the limit that ended a finished run: "max_steps", "max_epochs", "max_minutes", "patience"

    def branch(self) -> Progress:
        """Where another run starts that goes on from here: the place in the data and the clock, no scores."""
        return Progress(self.step, self.epoch, self.position, self.tokens, self.seconds)


class Checkpoint(NamedTuple):
    """What `load_checkpoint` found."""

    tensors: dict[str, Tensor]
    progress: Progress
    settings: dict[str, Any]
    warning: str | None  # why this is not the last checkpoint written
