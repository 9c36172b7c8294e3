"""The kernels of a captured search with any options and rules, in Triton's interpreter, as the reference."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harken

EXAMPLES = 8  # of each of two sizes of the sampling kernel's blocks; for more start the script with their number


@pytest.mark.slow  # a minute
def test_options_and_rules_as_the_reference_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    script = Path(__file__).with_name("interpret_options.py")
    paths = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(harken.__file__).parents[1])}
    command = [sys.executable, str(script), str(EXAMPLES)]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr[-4000:]
