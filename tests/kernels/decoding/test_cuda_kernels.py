"""The GPU kernels of a decoder step compute the right numbers in Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harken


@pytest.mark.slow  # half a minute
def test_kernels_as_plain_operators_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    script = Path(__file__).with_name("interpret_cuda_kernels.py")
    paths = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(harken.__file__).parents[1])}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr[-4000:]
