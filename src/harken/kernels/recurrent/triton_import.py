"""Triton where it is installed; where it is not, kernels can be read and imported, not launched.

`triton_is_here()` tells. Torch for CUDA brings Triton along, torch for CPUs does not.

>>> isinstance(triton_is_here(), bool)
True
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

triton: Any
tl: Any


def triton_is_here() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


class _Absent:
    """Stands for Triton in definitions: `@triton.jit` leaves the function as it is."""

    constexpr = Any

    @staticmethod
    def jit(function: Any) -> Any:
        return function


if triton_is_here():
    import triton  # type: ignore[no-redef]
    import triton.language as tl  # type: ignore[no-redef]
else:
    triton = tl = _Absent()
