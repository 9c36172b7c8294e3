"""The two compiled functions that Python calls, kept on disk by numba for the next process.

numba keys its cache by the source of the called function, the types, and the CPU's name and features, but not by the
functions it calls. So the digest of this package's sources is part of the key, as a variable that the functions close over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from harken.kernels import numba_math
from harken.kernels.decoding import search, stack
from harken.kernels.decoding.products import FLAGS


def _digest() -> str:
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(numba_math.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _kept(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(cache=True, **FLAGS)(function)
    except RuntimeError:  # numba found no folder it may write
        return numba.njit(**FLAGS)(function)


def _entries(digest: str) -> tuple[Any, Any]:
    def encode(packed, blocks, table, tokens, starts, inner):  # type: ignore[no-untyped-def]
        if len(digest) == 0:
            raise ValueError("the sources have no digest")
        return stack.encode(packed, blocks, table, tokens, starts, inner)

    def decode(packed, blocks, table, memory, starts, limits, minimums, rules, inner, found):  # type: ignore[no-untyped-def]
        if len(digest) == 0:
            raise ValueError("the sources have no digest")
        return search.decode(packed, blocks, table, memory, starts, limits, minimums, rules, inner, found)

    return _kept(encode), _kept(decode)


encode, decode = _entries(_digest())
