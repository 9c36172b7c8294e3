"""Every instruction set gives the same products, and compiled code is kept apart by CPU and by source."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from harken.kernels.decoding import caching, tiles
from harken.kernels.decoding.search import decode

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


def test_the_cache_is_keyed_by_cpu_and_by_all_sources():
    codegen = decode.targetctx.codegen()
    key = decode._cache._index_key((numba.int64,), codegen)
    assert codegen.magic_tuple() in key
    assert caching.DIGEST in key


def test_each_signature_has_a_file_of_its_own_and_a_damaged_one_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    double = caching.kept(_double)
    assert double(2) == 4 and double(2.5) == 5.0
    files = sorted(tmp_path.rglob("*.nbc"))
    assert len(files) == 2 and caching.is_kept(double, (2,)) and not caching.is_kept(double, (True,))
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    again = caching.kept(_double)
    assert caching.is_kept(again, (2,)) and again(3) == 6
    assert again.stats.cache_misses == {(numba.int64,): 1}


def _double(value):
    return value + value
