"""Triton where it is installed; elsewhere kernels can be imported and read, but not launched.

`has_triton()` tells which. Torch for CUDA brings Triton along, torch for CPUs does not.

>>> isinstance(has_triton(), bool)
True
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

triton: Any
tl: Any


def has_triton() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


class _Absent:
    """Replaces Triton where kernels are defined: `@triton.jit` leaves the function as it is."""

    constexpr = Any

    @staticmethod
    def jit(function: Any) -> Any:
        return function


if has_triton():
    import triton  # type: ignore[no-redef]
    import triton.language as tl  # type: ignore[no-redef]
else:
    triton = tl = _Absent()
