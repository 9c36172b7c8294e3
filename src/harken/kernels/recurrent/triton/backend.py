"""Where the persistent Triton kernel runs a recurrent layer, and in how many launches.

Hopper GPUs, where the weights fit on the chip. It is faster than cuDNN wherever it was measured, but for what cuDNN has
a persistent kernel for: an LSTM in float16, one direction, rows of equal length, without gradients.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

from harken.kernels.autograd import takes_torch_operators
from harken.kernels.recurrent.call import Call, RecurrentBackend, Result
from harken.kernels.recurrent.triton.plan import DTYPES, chip_of, kernel_kind, plan_of
from harken.kernels.settings import has_triton, is_device_only

# The fewest steps for which the kernel is faster: where cuDNN has the cell (True), and where it does not. Starting a
# launch costs more than a few of cuDNN's steps; the reference loop is slower from the start.
MIN_STEPS = {True: 64, False: 8}


def why_not_triton(call: Call) -> str | None:
    """The rule of the module."""
    if call.trace or not call.x.is_cuda:
        return "gates are traced, or the layer is not on a GPU"
    kind, dtype, compiling = kernel_kind(call), call.compute_dtype, torch.compiler.is_compiling()
    if kind is None or (not compiling and takes_torch_operators()):
        return "the kernels lack this cell, or torch.func or torch.jit records the call"
    torch_has_it = call.torch_name is not None and not compiling
    rows, time, _ = call.x.shape
    if time < MIN_STEPS[torch_has_it] and not is_device_only():  # a graph replays the launch
        return "the sequences are too short"
    forward_only = call.lengths is None and not call.bidirectional and not torch.is_grad_enabled()
    if kind == "lstm" and dtype == torch.float16 and forward_only:
        return "cuDNN's persistent kernel is faster"
    most = max_rows(kind, dtype, call.hidden_size, 1, torch_has_it, call.x.device.index or 0)
    if rows <= most or (is_device_only() and most > 0 and not call.noisy):  # more rows in turn
        return None
    return f"the kernels were measured for at most {most} rows of this size on this GPU"


@cache
def _max_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, torch_has_it: bool, device: int) -> int:
    chip = chip_of(device)
    if chip is None or dtype not in DTYPES or not has_triton():
        return 0
    most = 16 if torch_has_it and dtype == torch.float32 else 64  # rows of a program; more were not measured
    rows = 0
    while rows < 1 << 16:
        plans = [plan_of(kind, dtype, rows + 8, hidden, directions, chip, backward) for backward in (False, True)]
        if not all(plan is not None and plan.rows <= most for plan in plans):
            break
        rows += 8
    return rows


def max_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, torch_has_it: bool, device: int) -> int:
    """The largest batch that the kernel is used for, 0 for none."""
    return _max_rows(kind, dtype, hidden, directions, torch_has_it, device)


# torch.compile calls it once and does not trace it; its own decorator for that would import the compiler
max_rows._dynamo_marked_constant = True  # type: ignore[attr-defined]


def run(call: Call) -> Result:
    """Both directions in one launch where they fit on the GPU together, otherwise one after the other.

    Inside `device_only` more rows than fit run in turn, in about equal parts.
    """
    from harken.kernels.recurrent.triton.layer import run_triton

    sizes = str(kernel_kind(call)), call.compute_dtype, call.hidden_size
    rows, device = call.x.shape[1], call.x.device.index or 0
    most = max_rows(*sizes, 1, False, device) if is_device_only() else rows
    if rows <= most:
        return run_triton(call, together=rows <= max_rows(*sizes, 2, False, device))
    parts = [run(part) for part in split_rows(call, most)]
    last = tuple(torch.cat(pieces, 1) for pieces in zip(*(part.last for part in parts), strict=True))
    return Result(torch.cat([part.output for part in parts], 1), last)


def split_rows(call: Call, most: int) -> list[Call]:
    """The call of a layer on padded sequences, without noise, as calls on about equally many rows each."""
    rows = call.x.shape[1]
    parts = -(-rows // most)
    size = min(most, -(-rows // (16 * parts)) * 16)  # kernels are compiled for sizes that 16 divides, and for others

    def cut(first: int) -> Call:
        own = slice(first, first + size)
        return replace(
            call,
            x=call.x[:, own],
            lengths=None if call.lengths is None else call.lengths[own],
            directions=[
                each._replace(state=None if each.state is None else tuple(part[own] for part in each.state))
                for each in call.directions
            ],
        )

    return [cut(first) for first in range(0, rows, size)]


TRITON = RecurrentBackend("triton", why_not_triton, run, takes_padded=True, masks_padding=True)
