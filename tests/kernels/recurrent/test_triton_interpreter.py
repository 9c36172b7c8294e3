"""The recurrent GPU kernels, run by Triton's interpreter on a CPU, give what the reference gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harken
from harken.kernels.triton_import import has_triton

HERE = Path(__file__).parent
NAMES = [
    "lstm", "lstm one way", "lstm apart", "lstm two layers", "peephole", "coupled", "coupled peephole", "gru",
    "gru before", "gru before at once", "gru before apart", "tanh", "relu", "sigmoid", "lstm zoneout", "gru zoneout",
    "lstm recurrent dropout", "gru before recurrent dropout", "lstm zoneout, trained", "gru zoneout, trained",
    "lstm norm", "lstm norm apart", "peephole norm zoneout", "peephole norm zoneout, trained", "coupled norm",
    "gru norm", "gru before norm zoneout", "gru before norm zoneout, trained", "tanh norm",
]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_triton(), reason="Triton is not installed: torch for CPUs lacks it"),
]


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, float]]:
    """Every case, run once in a process of its own: kernels are interpreted or compiled from their import on."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(harken.__file__).parents[1])}
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    command = [sys.executable, str(HERE / "interpret_gpu_recurrent.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_reference(made: dict[str, dict[str, float]], name: str) -> None:
    assert made[name]["output"] < 2e-6
    assert made[name]["gradient"] < 2e-5


def test_statistics_of_several_programs_are_put_together_without_cancelling(made: dict[str, dict[str, float]]) -> None:
    assert made["board"]["mean"] < 2e-7
    assert made["board"]["scale"] < 2e-4  # the sums that were told are rounded: 2e-5 of the spread each


def test_a_nan_that_was_computed_is_no_missing_element(made: dict[str, dict[str, float]]) -> None:
    assert made["nan"]["clean"] == 1.0
