"""When a recurrent layer takes harken's own launch on a GPU: where it can, and where it is quicker than torch's.

It can where Triton is installed, the GPU is one it was measured on (Hopper) and the layer fits on it at once
(`harken.kernels.gpu_recurrent_plan`). It is quicker than cuDNN wherever it was measured, but for the one case that
cuDNN has a persistent kernel for, an LSTM in float16 in one direction over rows of equal length without gradients, and
but for large batches, where a step is bound by arithmetic: `docs/gpu.md` has the numbers. Cells that cuDNN does not
know go through our loop otherwise, which is slower everywhere.

`HARKEN_KERNELS=off` turns it off.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from harken.kernels.gpu_recurrent_plan import Chip, plan_of

MOST_ROWS = 64  # of a program: beyond, cuDNN is quicker
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@cache
def chip_of(device: int) -> Chip | None:
    """What a plan may use of a GPU; None where the kernels were never measured."""
    found: Any = torch.cuda.get_device_properties(device)
    return Chip(found.multi_processor_count, found.shared_memory_per_block_optin) if found.major == 9 else None


@cache
def _fitting_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, device: int) -> int:
    chip = chip_of(device)
    if chip is None or dtype not in DTYPES or find_spec("triton") is None:
        return 0
    rows = 0
    while rows < 1 << 16:
        plans = [plan_of(kind, dtype, rows + 8, hidden, directions, chip, backward) for backward in (False, True)]
        if not all(plan is not None and plan.rows <= MOST_ROWS for plan in plans):
            break
        rows += 8
    return rows


def most_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, device: int) -> int:
    """The largest batch that our launch is taken for, 0 for none."""
    off = os.environ.get("HARKEN_KERNELS", "") == "off"
    return 0 if off else _fitting_rows(kind, dtype, hidden, directions, device)


# torch.compile is to ask once and not to look inside; its own decorator for that would import the compiler
most_rows._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_chosen(
    kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, equal: bool, device: torch.device
) -> bool:
    """Whether a layer of this kind goes our way; `equal`: no row is shorter than the others."""
    if device.type != "cuda":
        return False
    if kind == "lstm" and dtype == torch.float16 and equal and directions == 1 and not torch.is_grad_enabled():
        return False
    return rows <= most_rows(kind, dtype, hidden, 1, device.index or 0)


def runs_at_once(kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, device: torch.device) -> bool:
    """Whether all directions fit on the GPU in one launch; else they go one after the other."""
    return rows <= most_rows(kind, dtype, hidden, directions, device.index or 0)
