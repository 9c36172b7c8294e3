"""When a run is called not converged."""

from __future__ import annotations

from typing import Any

import pytest

from harken.training.log import not_converged


def curve(*points: tuple[int, float]) -> list[dict[str, Any]]:
    train = {"kind": "train", "step": 1, "loss": 9.0}
    return [train, *({"kind": "valid", "step": step, "loss": loss} for step, loss in points)]


@pytest.mark.parametrize(
    ("points", "warmup", "said"),
    [
        ([(87, 6.0)], 400, "inside its warm-up of 400"),
        ([(87, 6.0)], 80, ""),  # one validation shows no slope
        ([(750, 3.0), (1000, 2.4)], 50, "fell by 20%"),
        ([(500, 2.9), (1000, 2.4)], 50, ""),  # the same fall over half of the run
        ([(750, 2.5), (1000, 2.4)], 50, ""),
        ([(750, 2.4), (1000, 2.5)], 50, ""),
        ([(750, 0.10), (1000, 0.07)], 50, ""),  # near 0 a third is little
        ([(0, 7.7), (4, 14.9), (8, 10.4), (12, 9.0)], 1, ""),  # coming back from where it diverged, worse than before
        ([], 50, ""),
    ],
)
def test_steep_ends_and_runs_cut_in_their_warm_up_are_named(
    points: list[tuple[int, float]], warmup: int, said: str
) -> None:
    found = not_converged(curve(*points), warmup)
    assert said in found
    assert bool(found) == bool(said)
