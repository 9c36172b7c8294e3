"""Event files for TensorBoard beside metrics.jsonl: `train.tensorboard = true`, then `tensorboard --logdir RUNS`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = "tensorboard"  # in the run folder
REMEDY = "train.tensorboard needs the package tensorboard, which is not installed; pip install 'harken[tensorboard]'"
LEFT_OUT = ("kind", "step", "best")


class TensorBoard:
    """A callback of the trainer that writes each entry of metrics.jsonl as scalars: train/loss, valid/bleu ...

    Args:
        folder: of the run.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder, self.open = folder / FOLDER, SummaryWriter
        self.writer: Any = None

    def __call__(self, entry: dict[str, Any]) -> None:
        """Write one entry."""
        step = int(entry["step"])
        if self.writer is None:
            # what a killed run wrote after its last checkpoint is hidden when the run is resumed
            self.writer = self.open(str(self.folder), purge_step=step)
        for name, value in entry.items():
            if name not in LEFT_OUT and isinstance(value, int | float):
                self.writer.add_scalar(f"{entry['kind']}/{name}", value, step)
        self.writer.flush()
