"""Which implementation runs a recurrent layer: the backends in order of preference; the last is the reference.

    triton     one persistent kernel for all steps on a GPU (`harken.kernels.recurrent.triton`)
    cpu        products with packed weights and gates compiled by numba (`harken.kernels.recurrent.cpu`)
    torch      torch's own fused loops: cuDNN on a GPU, ATen or oneDNN on a CPU (`harken.kernels.recurrent.cudnn`)
    masked     the reference over padded sequences, for a graph that is compiled once for all lengths
    loop       the reference over packed rows: `step` of each cell, one step after the other

Their rules were measured by `benchmarks/gpu_recurrent.py` and `benchmarks/cpu_recurrent.py --rule` (`docs/gpu.md`). A
call is data alone, and the two references call the cells of the stack that they were made for. All others take plain
cells alone (`Cell.is_plain`). `HARKEN_KERNELS=off` leaves torch's loops and the reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.kernels.recurrent.call import RecurrentBackend
from harken.kernels.recurrent.cpu.operator import CPU
from harken.kernels.recurrent.cudnn import TORCH
from harken.kernels.recurrent.triton.backend import TRITON
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.unroll import loop, masked


def backends(cells: Sequence[Cell]) -> list[RecurrentBackend]:
    """The backends of a stack of these cells."""
    return [TRITON, CPU, TORCH, masked(cells), loop(cells)]
