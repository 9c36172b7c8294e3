"""Compiled functions kept on disk for the next process, by the sources of this package and by the CPU.

numba keys its cache by the called function's own file, the argument types, and the CPU's name and features
(`magic_tuple`), but not by the functions it calls. Here the digest of all sources of this package is part of the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

from harken.kernels import numba_math
from harken.kernels.decoding.products import FLAGS


def _digest() -> str:
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(numba_math.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


DIGEST = _digest()


class _PackageCache(FunctionCache):
    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), DIGEST)


def kept(function: Callable[..., Any]) -> Any:
    """numba's `njit`, kept on disk wherever a folder for it can be written."""
    dispatcher = numba.njit(**FLAGS)(function)
    with suppress(RuntimeError):  # numba found no folder it may write
        dispatcher._cache = _PackageCache(function)
    return dispatcher


def is_kept(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a call with these arguments would find its code in this process or on disk."""
    signature = tuple(numba.typeof(argument) for argument in arguments)
    if signature in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    if not isinstance(cache, _PackageCache):
        return False
    with suppress(OSError, AttributeError):  # a damaged file, or another version of numba
        key = cache._index_key(signature, dispatcher.targetctx.codegen())
        return key in cache._cache_file._load_index()
    return False
