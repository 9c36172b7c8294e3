"""The Triton kernels compute the right numbers in Triton's interpreter, which runs on any machine that has Triton."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kernels_equal_their_definitions_under_the_interpreter() -> None:
    pytest.importorskip("triton")
    cases = Path(__file__).with_name("interpreter_cases.py")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", str(cases)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
