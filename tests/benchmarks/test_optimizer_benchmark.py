"""benchmarks/optimizers.py: the loss to reach, and the rate with which a variant reaches it first."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from optimizers import FITTED_RATE, SWEEP_SEED, best_rate, first_step, loss_to_reach


def run(variant: str, rate: float, losses: list[float]) -> dict[str, Any]:
    """A made-up run of the sweep that was validated every 10 updates."""
    curve = [{"step": 10 * number, "loss": loss} for number, loss in enumerate(losses, start=1)]
    row = {"job": "tag", "variant": variant, "rate": rate, "seed": SWEEP_SEED, "curve": curve}
    return row | {"updates": curve[-1]["step"]}


RUNS = [
    run("adamw, cosine", FITTED_RATE, [4.0, 3.0, 2.0, 1.5]),
    run("adamw, wsd", 4e-3, [4.0, 2.5, 2.0, 1.2]),
    run("adamw, wsd", 2e-3, [4.0, 1.9, 1.8, 1.7]),
    run("muon, wsd", 4e-3, [4.0, 3.5, 3.0, 2.5]),
    run("muon, wsd", 8e-3, [4.0, 3.5, 3.0, 2.4]),
]


def test_the_loss_is_that_of_the_reference_after_three_quarters_of_its_updates() -> None:
    assert loss_to_reach(RUNS, "tag") == 2.0


def test_the_best_rate_reaches_the_loss_first_or_else_has_the_lowest_final_loss() -> None:
    assert first_step(RUNS[2], 2.0) == 20 and first_step(RUNS[3], 2.0) is None
    assert best_rate(RUNS, "tag", "adamw, wsd") == 2e-3
    assert best_rate(RUNS, "tag", "muon, wsd") == 8e-3
