"""Compiled code is kept apart by CPU, by source and by signature."""

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


def _double(value):
    return value + value
