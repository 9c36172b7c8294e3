"""Compiled functions cached on disk for the next process, by their sources and by the CPU.

numba keys its cache by the called function's own file, the argument types, and the CPU's name and features
(`magic_tuple`), but not by the functions it calls. Here the digest of all sources of its folder is part of the key.

numba's index gives the files of a function's signatures numbers. Two processes that compile different signatures at
once write them to one file, and a later process runs the code of one with the arguments of the other, which corrupts
its memory. Here every key has a file of its own.

Code compiled when the package was installed, with `NUMBA_CACHE_DIR` set to `INSTALLED`, is read where the cache
folder has none.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pickle import Unpickler
from typing import Any

import numba

from harken.kernels import linking, numba_math

environment: Any
rtsys: Any
FunctionCache: Any
IndexDataCacheFile: Any
try:  # numba's own modules, which another version may have elsewhere
    from numba.core import environment
    from numba.core.caching import FunctionCache, IndexDataCacheFile
    from numba.core.runtime import rtsys
except ImportError:
    environment = rtsys = None
    FunctionCache = IndexDataCacheFile = object

INSTALLED = Path(sys.prefix) / "share" / "harken" / "kernels"


@lru_cache
def digest_of(folder: Path) -> str:
    """The digest of the sources of a folder, of the functions that all kernels call, and of how they are compiled."""
    files = [*sorted(folder.glob("*.py")), Path(numba_math.__file__), Path(linking.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class _FilePerKey(IndexDataCacheFile):
    """A file for each key, named by its digest."""

    def path(self, key: Any) -> Path:
        digest = hashlib.sha256(repr((key, self._version)).encode()).hexdigest()[:24]
        return Path(self._data_path(f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"))

    def files(self, key: Any) -> list[Path]:
        """The files that have the code of a key: in the cache folder, and as installed."""
        path = self.path(key)
        return [file for file in (path, *INSTALLED.glob(f"*/{path.name}")) if file.is_file()]

    def save(self, key: Any, data: Any) -> None:
        self._save_data(str(self.path(key)), data)

    def load(self, key: Any) -> Any:
        for path in self.files(key):
            with suppress(Exception), path.open("rb") as file:  # damaged bytes may raise anything
                return _Unpickler(file).load()
        return None  # there is none, or a damaged one: compile again


class _Unpickler(Unpickler):
    """Reads compiled code without importing the modules of numba whose functions it has inlined.

    numba gives each of them an environment with the names of its module, which only its object mode looks up; importing
    those modules takes longer than loading the code.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (environment.__name__, environment._rebuild_env.__name__):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: list[Any], name: str) -> Any:
    if environment.lookup_environment(name) is not None or module in sys.modules:
        return environment._rebuild_env(module, constants, name)
    rebuilt = environment.Environment({"__name__": module})
    rebuilt.consts[:], rebuilt.env_name = constants, name
    environment.Environment._memo[name] = rebuilt
    return rebuilt


class _PackageCache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _FilePerKey(self._cache_path, self._impl.filename_base, None)  # the digest is its stamp
        self._digest = digest_of(Path(function.__code__.co_filename).parent)
        # What is called later is there, too; in another version of numba this raises.
        _ = self._cache_file.path(None), self._cache_file._save_data, self._load_overload, super()._index_key
        _ = self._guard_against_spurious_io_errors, environment._rebuild_env, rtsys.initialize

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Compiled code from disk, without numba's tables for compiling, which take longer to import than the code
        takes to load; numba imports them where a function is compiled after all."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code; where the disk is full, it is used in this process alone."""
        try:
            super().save_overload(sig, data)
        except OSError as problem:
            reason = problem.strerror or problem
            warnings.warn(f"compiled code is not kept, as {self._cache_path} cannot be written: {reason}", stacklevel=2)

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), self._digest)


def cached_njit(function: Callable[..., Any], flags: Any = numba_math.FLAGS) -> Any:
    """numba's `njit` with these flags, cached on disk wherever a folder for it can be written."""
    dispatcher = numba.njit(**flags)(function)
    with suppress(RuntimeError, AttributeError, TypeError):  # no folder that may be written, or an unknown numba
        dispatcher._cache = _PackageCache(function)
    return dispatcher


def is_cached(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a call with these arguments would find its code in this process or on disk."""
    signature = tuple(numba.typeof(argument) for argument in arguments)
    if signature in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    if not isinstance(cache, _PackageCache):
        return False
    key = cache._index_key(signature, dispatcher.targetctx.codegen())
    return bool(cache._cache_file.files(key))
