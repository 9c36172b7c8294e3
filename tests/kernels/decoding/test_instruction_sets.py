"""Every instruction set gives the same products."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from harken.kernels.decoding import tiles

SETS = {
    "avx512 without vnni": "+avx512f,+avx512bw,+avx2,+fma",
    "avx2": "+avx2,+fma",
    "sse": "+sse4.2",
}


@pytest.mark.slow
@pytest.mark.skipif("avx512bw" not in tiles.FEATURES, reason="this CPU has no AVX-512, so it cannot run all sets")
@pytest.mark.parametrize("features", SETS.values(), ids=SETS.keys())
def test_other_instruction_sets_pass_the_same_tests(features):
    environment = os.environ | {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    tests = Path(__file__).with_name("test_products.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_features_are_those_numba_compiles_for():
    _, _, features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    assert all(f"+{name}" in features.split(",") for name in tiles.FEATURES)
    assert (tiles.LANES == 16) == ("avx512f" in tiles.FEATURES)
    assert not tiles.VNNI or "avx512vnni" in tiles.FEATURES
