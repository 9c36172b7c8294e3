"""Compiled code is kept apart by CPU, by source and by signature."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import harken
from harken.kernels import caching, linking, numba_math
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


def test_a_full_disk_keeps_no_code_and_stops_nothing(tmp_path, monkeypatch):
    def refuse(self, key, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(caching._FilePerKey, "save", refuse)
    double = caching.cached_njit(_double)
    with pytest.warns(UserWarning, match=f"compiled code is not kept, as {tmp_path}.* No space left on device"):
        assert double(2) == 4
    assert double(3) == 6


def test_bytes_that_are_damaged_anywhere_are_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert caching.cached_njit(_double)(2) == 4
    (file,) = tmp_path.rglob("*.nbc")
    file.write_bytes(file.read_bytes().replace(b"numba.core", b"numba.cord"))  # ModuleNotFoundError
    again = caching.cached_njit(_double)
    assert again(3) == 6 and again.stats.cache_misses == {(numba.int64,): 1}


@pytest.mark.parametrize("name", ["_load_overload", "_guard_against_spurious_io_errors", "_impl_class", "_index_key"])
def test_a_numba_with_other_private_names_compiles_without_a_cache(tmp_path, monkeypatch, name):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for kind in caching._PackageCache.__mro__[1:-1]:
        if name in vars(kind):
            monkeypatch.delattr(kind, name)
    double = caching.cached_njit(_double)
    assert double(2) == 4 and not caching.is_cached(double, (2.5,)) and not list(tmp_path.rglob("*.nbc"))


def test_a_function_that_kernels_call_has_code_in_them_alone_and_can_be_called_from_python_too(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    part = linking.linked_njit(**numba_math.FLAGS)(_double)

    def whole(value):
        return part(value) + part(value)

    kernel = caching.cached_njit(whole)
    assert kernel(3) == 12 and kernel(0.5) == 2.0
    codes = [code.library for code in part.overloads.values()]
    assert len(codes) == 2 and [code.get_pointer_to_function("anything") for code in codes] == [0, 0]
    symbols = [function.name for code in codes for function in code.get_defined_functions()]
    assert symbols and not any("cpython" in name or name.startswith("cfunc") for name in symbols)
    assert part(2.5) == 5.0 and part.callable is not part


def test_where_numba_has_other_modules_such_functions_are_compiled_as_any_other(monkeypatch):
    monkeypatch.setattr(linking, "Compiler", None)
    part = linking.linked_njit(**numba_math.FLAGS)(_double)
    assert part(2) == 4 and part.stats is not None and not hasattr(part, "callable")
