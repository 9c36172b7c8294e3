"""The one switch of all kernels, the environment variable `HARKEN_KERNELS`, and whether Triton is installed.

`HARKEN_KERNELS=off` disables every kernel of this package; the references in `harken.nn` and torch's own operators are
used instead. It is read at each call, so a test or benchmark can change it between calls.

`device_only` is for code that a CUDA graph is to hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_TRITON = find_spec("triton") is not None  # a constant, which torch.compile traces through


def kernels_enabled() -> bool:
    """False where `HARKEN_KERNELS=off` is set."""
    return os.environ.get("HARKEN_KERNELS", "") != "off"


def has_triton() -> bool:
    """Whether Triton is installed: torch for CUDA brings it along, torch for CPUs does not. It is not imported."""
    return _TRITON


_is_device_only = False


@contextmanager
def device_only() -> Iterator[None]:
    """Inside, nothing is read back from a GPU, so that a CUDA graph can hold it: lengths are taken as they are."""
    global _is_device_only
    before, _is_device_only = _is_device_only, True
    try:
        yield
    finally:
        _is_device_only = before


def is_device_only() -> bool:
    """Whether the call is inside `device_only`."""
    return _is_device_only
