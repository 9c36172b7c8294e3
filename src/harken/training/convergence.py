"""Whether a run had learnt what it could when its budget ended, from its validations.

A run that ends inside its warm-up has hardly been trained; one whose validation loss still falls steeply at the end
would gain from a larger budget. Schedules that decay to 0 lower the loss at the end of any run, so a fall of a few
per cent says nothing.

>>> losses = [{"kind": "valid", "step": step, "loss": loss} for step, loss in ((100, 6.0), (300, 4.0), (400, 3.2))]
>>> not_converged(losses, warmup_steps=20)
'not converged: the validation loss fell by 20% in the last quarter of the run; train longer'
>>> not_converged(losses, warmup_steps=500)
'not converged: the run ended at step 400, inside its warm-up of 500 updates; train longer or lower train.warmup_steps'
>>> not_converged([*losses, {"kind": "valid", "step": 800, "loss": 3.1}], warmup_steps=20)
''
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    if not before:
        return ""
    step, loss = before[-1]
    nats = (loss - final) * (0.25 * last) / (last - step)
    fall = nats / abs(loss) if loss else 0.0
    if fall <= STEEP or nats < NATS:
        return ""
    return f"not converged: the validation loss fell by {fall:.0%} in the last quarter of the run; train longer"
