"""Programmatic dependent launch: a kernel starts while the one before it ends (Hopper and later).

A kernel calls `allow_next` at its start and `wait_for_previous` before it reads or writes anything that another kernel
of the stream writes or reads; until then it may load weights. Every kernel that is launched with `OPTIONS` waits, so a
kernel that has ended implies that all before it have.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import torch

from harken.kernels.settings import has_triton
from harken.kernels.triton_import import triton

is_known = False
with suppress(ImportError):
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

    is_known = has_triton()


@triton.jit
def allow_next() -> None:
    """The next kernel may start once all programs of this one have come here."""
    gdc_launch_dependents()


@triton.jit
def wait_for_previous() -> None:
    """Until the kernels before this one have ended, and what they wrote is visible."""
    gdc_wait()


@cache
def _is_available() -> bool:
    return is_known and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


def options(is_cuda: bool) -> dict[str, Any]:
    """The options of a launch: the constant OVERLAP of the kernel, and what Triton is told."""
    overlaps = is_cuda and _is_available()
    return {"OVERLAP": True, "launch_pdl": True} if overlaps else {"OVERLAP": False}
