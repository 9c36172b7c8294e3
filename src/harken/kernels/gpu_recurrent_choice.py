"""When a recurrent layer takes harken's own launch on a GPU: where it can, and where it is quicker than torch's.

It can where Triton is installed, the GPU is one it was measured on (Hopper) and the layer fits on it at once
(`harken.kernels.gpu_recurrent_plan`). It is quicker than cuDNN wherever it was measured, but for the one case that
cuDNN has a persistent kernel for, an LSTM in float16 in one direction over rows of equal length, and but for large
batches, where a step is bound by arithmetic: `docs/gpu.md` has the numbers. Cells that cuDNN does not know go through
our loop otherwise, which is slower everywhere.

`HARKEN_KERNELS=off` turns it off.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch

from harken.kernels.gpu_recurrent_plan import Chip, plan_of
from harken.kernels.gpu_triton import triton_is_here

MOST_ROWS = 64  # of a program: beyond, cuDNN is quicker
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@cache
def chip_of(device: int) -> Chip | None:
    """What a plan may use of a GPU; None where the kernels were never measured."""
    found: Any = torch.cuda.get_device_properties(device)
    return Chip(found.multi_processor_count, found.shared_memory_per_block_optin) if found.major == 9 else None


@cache
def _fits(kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, device: int) -> bool:
    chip = chip_of(device)
    if chip is None:
        return False
    plans = [plan_of(kind, dtype, rows, hidden, directions, chip, backward) for backward in (False, True)]
    return all(plan is not None and plan.rows <= MOST_ROWS for plan in plans)


def is_chosen(
    kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, equal: bool, device: torch.device
) -> bool:
    """Whether a layer of this kind goes our way; `equal`: no row is shorter than the others."""
    if os.environ.get("HARKEN_KERNELS", "") == "off" or device.type != "cuda" or not triton_is_here():
        return False
    if dtype not in DTYPES or not _fits(kind, dtype, rows, hidden, directions, device.index or 0):
        return False
    return not (kind == "lstm" and dtype == torch.float16 and equal and directions == 1)
