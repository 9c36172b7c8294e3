"""The one switch of all kernels, the environment variable `HARKEN_KERNELS`, and whether Triton is installed.

`HARKEN_KERNELS=off` disables every kernel of this package; the references in `harken.nn` and torch's own operators are
used instead. It is read at each call, so a test or benchmark can change it between calls.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

_TRITON = find_spec("triton") is not None  # a constant, which torch.compile traces through


def kernels_enabled() -> bool:
    """False where `HARKEN_KERNELS=off` is set."""
    return os.environ.get("HARKEN_KERNELS", "") != "off"


def has_triton() -> bool:
    """Whether Triton is installed: torch for CUDA brings it along, torch for CPUs does not. It is not imported."""
    return _TRITON
