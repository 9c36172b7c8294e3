"""Triton where it is installed; elsewhere kernels can be imported and read, but not launched.

Importing this module imports Triton; `harken.kernels.settings.has_triton` only asks for it.
"""

from __future__ import annotations

from typing import Any

from harken.kernels.settings import has_triton

triton: Any
tl: Any


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
