"""When a recurrent layer takes harken's own launch on a GPU: where it can, and where it is faster than torch's.

It can where Triton is installed, the GPU is one it was measured on (Hopper) and the layer fits on it at once
(`harken.kernels.recurrent.triton.plan`). It is faster than cuDNN wherever it was measured (`docs/gpu.md`), but for the
one case that cuDNN has a persistent kernel for, an LSTM in float16 in one direction over rows of equal length without
gradients. Short sequences are left to cuDNN, because starting a launch costs more than a few of its steps, and so are
batches larger than those measured. Cells that cuDNN does not know would go step by step through our loop: for them the
launch is taken sooner.

`HARKEN_KERNELS=off` turns it off.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.triton.plan import Chip, plan_of

LEAST_STEPS = {True: 64, False: 8}  # where cuDNN knows the cell, and where it does not
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def most_in_program(dtype: torch.dtype, known: bool) -> int:
    """Rows of a program; in float32 more were not measured beside cuDNN."""
    return 16 if known and dtype == torch.float32 else 64


@cache
def chip_of(device: int) -> Chip | None:
    """What a plan may use of a GPU; None where the kernels were never measured."""
    found: Any = torch.cuda.get_device_properties(device)
    return Chip(found.multi_processor_count, found.shared_memory_per_block_optin) if found.major == 9 else None


@cache
def _fitting_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, known: bool, device: int) -> int:
    chip = chip_of(device)
    if chip is None or dtype not in DTYPES or find_spec("triton") is None:
        return 0
    rows, most = 0, most_in_program(dtype, known)
    while rows < 1 << 16:
        plans = [plan_of(kind, dtype, rows + 8, hidden, directions, chip, backward) for backward in (False, True)]
        if not all(plan is not None and plan.rows <= most for plan in plans):
            break
        rows += 8
    return rows


def most_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, known: bool, device: int) -> int:
    """The largest batch that our launch is taken for, 0 for none; `known`: torch has a loop of its own for the cell."""
    off = os.environ.get("HARKEN_KERNELS", "") == "off"
    return 0 if off else _fitting_rows(kind, dtype, hidden, directions, known, device)


# torch.compile is to ask once and not to look inside; its own decorator for that would import the compiler
most_rows._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_chosen(
    kind: str, values: Tensor, dtype: torch.dtype, hidden: int, directions: int, equal: bool, known: bool
) -> bool:
    """Whether a layer of this kind takes our launch for values (B, T, I); `equal`: no row is shorter than another."""
    rows, time, _ = values.shape
    if not values.is_cuda or time < LEAST_STEPS[known]:
        return False
    if kind == "lstm" and dtype == torch.float16 and equal and directions == 1 and not torch.is_grad_enabled():
        return False
    return rows <= most_rows(kind, dtype, hidden, 1, known, values.device.index or 0)


def runs_at_once(kind: str, dtype: torch.dtype, rows: int, hidden: int, device: torch.device) -> bool:
    """Whether both directions fit on the GPU in one launch; else they go one after the other."""
    return rows <= most_rows(kind, dtype, hidden, 2, False, device.index or 0)
