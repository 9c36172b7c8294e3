"""Compiled code is kept apart by CPU, by source and by signature."""

import os
import subprocess
import sys
from pathlib import Path

import numba

import harken
from harken.kernels import caching
from harken.kernels.decoding.search import decode


def test_the_cache_is_keyed_by_cpu_and_by_all_sources():
    codegen = decode.targetctx.codegen()
    key = decode._cache._index_key((numba.int64,), codegen)
    assert codegen.magic_tuple() in key
    assert caching.digest_of(Path(caching.__file__).with_name("decoding")) in key


def test_all_kernels_are_kept_that_way():
    package = Path(harken.__file__).parent
    assert [str(path) for path in package.rglob("*.py") if "cache=True" in path.read_text()] == []


def test_each_signature_has_a_file_of_its_own_and_a_damaged_one_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    double = caching.cached_njit(_double)
    assert double(2) == 4 and double(2.5) == 5.0
    files = sorted(tmp_path.rglob("*.nbc"))
    assert len(files) == 2 and caching.is_cached(double, (2,)) and not caching.is_cached(double, (True,))
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    again = caching.cached_njit(_double)
    assert caching.is_cached(again, (2,)) and again(3) == 6
    assert again.stats.cache_misses == {(numba.int64,): 1}


def test_code_compiled_at_installation_is_read_where_the_cache_folder_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "installed"))
    assert caching.cached_njit(_double)(2) == 4
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "own"))
    again = caching.cached_njit(_double)
    assert not caching.is_cached(again, (2,))
    monkeypatch.setattr(caching, "INSTALLED", tmp_path / "installed")
    assert caching.is_cached(again, (2,)) and again(3) == 6
    assert again.stats.cache_hits == {(numba.int64,): 1}
    assert not list((tmp_path / "own").rglob("*.nbc"))


def test_loading_code_imports_none_of_the_tables_that_compiling_needs(tmp_path):
    code = (
        "import sys, numba, numpy as np; from harken.kernels import digest; "
        "digest.compile_ahead(); print('numba.np.arrayobj' in sys.modules)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in runs] == ["True", "False"]


def _double(value):
    return value + value
