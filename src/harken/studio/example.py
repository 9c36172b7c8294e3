"""The studio's own recurrent model, so that gates and gradients can be looked at where no run is recurrent.

An LSTM that reads generated reviews and labels them by its last state. It is trained when a page first needs it, in
some seconds on one core, and stored in the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import harken
from harken.files import cache_folder
from harken.training.folder import CARD

NAME = "small-lstm"
RECIPE = "opinions-classify"
STEPS = 600
SETTINGS = (
    "model.bidirectional=false", "model.width=32", "model.embedding=16", "classifier.pooling=last",
    f"train.max_steps={STEPS}", "train.max_epochs=none", "train.max_minutes=0.5", "train.learning_rate=1e-2",
    "train.log_every=20", "train.device=cpu", "train.workers=1", "train.threads=1",
)  # fmt: skip


def example_folder() -> Path:
    """The folder of the model, whether it is trained or not; other versions of harken have others."""
    return cache_folder() / "studio" / f"{NAME}-{harken.__version__}"


def is_trained() -> bool:
    """Whether the model is complete."""
    return (example_folder() / CARD).is_file()


def train_example(emit: Callable[[dict[str, Any]], None]) -> None:
    """Train the model unless it is complete; progress is emitted as {"done": share, "say": text}.

    Raises:
        UserError: the folder cannot be written, or another process trains there.
    """
    from harken.api import train

    def report(entry: dict[str, Any]) -> None:
        emit({"done": entry["step"] / STEPS, "say": f"update {entry['step']} of {STEPS}, loss {entry['loss']:.3f}"})

    if not is_trained():
        train(RECIPE, example_folder(), overrides=SETTINGS, restart=True, progress=False, callbacks=[report])
