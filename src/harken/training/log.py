"""metrics.jsonl: one JSON object a line, `kind` "train", "valid" or "event", in the order of steps.

Its validations say whether a run had learnt what it could when its budget ended. A run that ends inside its warm-up has
hardly been trained; one whose validation loss still falls steeply at the end would gain from a larger budget. Schedules
that decay to 0 lower the loss at the end of any run, so a fall of a few per cent says nothing.

>>> losses = [{"kind": "valid", "step": step, "loss": loss} for step, loss in ((100, 6.0), (300, 4.0), (400, 3.2))]
>>> not_converged(losses, warmup_steps=20)
'not converged: the validation loss fell by 20% in the last quarter of the run; train longer'
>>> not_converged(losses, warmup_steps=500)
'not converged: the run ended at step 400, inside its warm-up of 500 updates; train longer or lower train.warmup_steps'
>>> not_converged([*losses, {"kind": "valid", "step": 800, "loss": 3.1}], warmup_steps=20)
''
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harken.files import atomic_write

METRICS = "metrics.jsonl"
SIGNATURE = "bleu_signature"  # how BLEU was computed, of an entry on a validation
NOT_METRICS = ("kind", "step", "best", "monitor", "mode", "spent", "seconds", SIGNATURE)  # of a validation's entry
TEXTS = ("kind", "event", "unit", "monitor", "mode", SIGNATURE)  # keys whose values are no numbers


class MetricsLog:
    """Append to a run's metrics; a resumed run first drops entries after its checkpoint."""

    def __init__(self, folder: Path, resume_step: int | None = None) -> None:
        self.path = folder / METRICS
        if resume_step is None:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            entries = [entry for entry in read_metrics(folder) if entry.get("step", 0) <= resume_step]
            atomic_write(self.path, "".join(json.dumps(entry) + "\n" for entry in entries))

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line."""
        with open(self.path, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(entry) + "\n")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All intact lines; a line cut short by a kill, or damaged since, is left out."""
    entries = []
    path = folder / METRICS
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_entry(entry):
            entries.append(entry)
    return entries


def is_entry(value: Any) -> bool:
    """Whether a value of a file is an entry as `MetricsLog` writes it: numbers, beside its kind and texts."""
    if not isinstance(value, dict) or type(value.get("step")) is not int or not isinstance(value.get("kind", ""), str):
        return False
    return all(isinstance(number, int | float) for key, number in value.items() if key not in TEXTS)


STEEP = 0.1  # fall of the validation loss, as a share of it, over the last quarter of the updates ...
NATS = 0.05  # ... and at least by this much: of a loss near 0, a tenth is nothing


def not_converged(metrics: Sequence[dict[str, Any]], warmup_steps: int) -> str:
    """A sentence that says why a run is called not converged; empty where it is not.

    Args:
        metrics: the entries of `metrics.jsonl`.
        warmup_steps: updates of the warm-up.
    """
    curve = [(entry["step"], entry["loss"]) for entry in metrics if entry.get("kind") == "valid" and "loss" in entry]
    if not curve:
        return ""
    last, final = curve[-1]
    if last < warmup_steps:
        return (
            f"not converged: the run ended at step {last:,}, inside its warm-up of {warmup_steps:,} updates; "
            "train longer or lower train.warmup_steps"
        )
    before = [(step, loss) for step, loss in curve if step <= 0.75 * last]
    if not before or final > min(loss for _, loss in before):  # training longer brings back what it had
        return ""
    step, loss = before[-1]
    nats = (loss - final) * (0.25 * last) / (last - step)
    fall = nats / abs(loss) if loss else 0.0
    if fall <= STEEP or nats < NATS:
        return ""
    return f"not converged: the validation loss fell by {fall:.0%} in the last quarter of the run; train longer"
