"""The one switch of all kernels, the environment variable `HARKEN_KERNELS`, and whether Triton is installed.

`HARKEN_KERNELS=off` disables every kernel of this package; the references in `harken.nn` and torch's own operators are
used instead. It is read at each call, so a test or benchmark can change it between calls.

`device_only` is for code that a CUDA graph is to hold.
"""

from __future__ import annotations

import os
import threading
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


_state = threading.local()


def why_no_triton(is_cuda: bool) -> str | None:
    """The reason for which Triton kernels cannot run on tensors of a device; None: they can."""
    if not is_cuda:
        return "the tensors are not on a GPU"
    return None if _TRITON else "Triton is not installed"


@contextmanager
def device_only() -> Iterator[None]:
    """Inside, in this thread, nothing is read back from a GPU, so that a CUDA graph can hold it: lengths are taken as
    they are."""
    before, _state.device_only = is_device_only(), True
    try:
        yield
    finally:
        _state.device_only = before


def is_device_only() -> bool:
    """Whether this thread is inside `device_only`."""
    return getattr(_state, "device_only", False)


# torch.compile calls them once and does not trace them; its own decorator for that would import the compiler
kernels_enabled._dynamo_marked_constant = True  # type: ignore[attr-defined]
is_device_only._dynamo_marked_constant = True  # type: ignore[attr-defined]
