"""Which implementation runs a recurrent layer: the backends in order of preference; the last is the reference.

    triton     one persistent kernel for all steps on a GPU (`harken.kernels.recurrent.triton`)
    cpu        products with packed weights and gates compiled by numba (`harken.kernels.recurrent.cpu`)
    torch      torch's own fused loops: cuDNN on a GPU, ATen or oneDNN on a CPU (`harken.kernels.recurrent.cudnn`)
    masked     the reference over padded sequences, for a graph that is compiled once for all lengths
    loop       the reference over packed rows: `step` of each cell, one step after the other

The `supports` of a backend is its rule: where it can run a call, and was measured to be faster than those after it
(`benchmarks/gpu_recurrent.py`, `benchmarks/cpu_recurrent.py --rule`, `docs/benchmarks/gpu.md`). All but the reference take plain
cells alone (`Cell.is_plain`). `HARKEN_KERNELS=off` leaves torch's loops and the reference.
"""

from __future__ import annotations

from harken.kernels.recurrent.call import Backend, Call
from harken.kernels.recurrent.cpu.operator import CPU
from harken.kernels.recurrent.cudnn import TORCH
from harken.kernels.recurrent.triton.backend import TRITON
from harken.kernels.settings import kernels_enabled
from harken.nn.recurrent.unroll import LOOP, MASKED

BACKENDS = [TRITON, CPU, TORCH, MASKED, LOOP]


def choose(call: Call) -> Backend:
    """The first backend that supports the call."""
    return next(each for each in BACKENDS if each.supports(call) and (not each.is_kernel or kernels_enabled()))
