"""Which implementation runs a recurrent layer: the list of backends in order of preference, and the rule of each.

    triton     one persistent kernel for all steps on a GPU (`triton/`)
    cpu        products with packed weights and gates compiled by numba (`cpu/`)
    torch      torch's own fused loops: cuDNN on a GPU, ATen or oneDNN on a CPU (`cudnn.py`)
    masked     the reference loop over padded sequences, for a graph that is compiled once for all lengths
    loop       the reference loop over packed rows (`harken.nn.recurrent.unroll`)

A rule says where a backend can run a call and was measured to be faster than those after it
(`benchmarks/gpu_recurrent.py`, `benchmarks/cpu_recurrent.py --rule`, `docs/gpu.md`). `HARKEN_KERNELS=off` leaves
torch's loops and the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from harken.kernels.recurrent.call import Call, Result
from harken.kernels.recurrent.cpu.operator import is_available as cpu_is_available
from harken.kernels.recurrent.cpu.operator import run_cpu
from harken.kernels.recurrent.cudnn import run_fused
from harken.kernels.recurrent.triton.plan import DTYPES, chip_of, kernel_kind, plan_of
from harken.kernels.settings import has_triton, is_device_only, kernels_enabled

# Steps from which on the Triton kernel is faster: where cuDNN has the cell (True), and where it does not. Starting a
# launch costs more than a few of cuDNN's steps; the reference loop is slower from the start.
TRITON_MIN_STEPS = {True: 64, False: 8}


@dataclass(frozen=True)
class Backend:
    """`supports(call)`: whether it can run the call and is the fastest of those left; `run(call)` runs one layer."""

    name: str
    supports: Callable[[Call], bool]
    run: Callable[[Call], Result]
    padded: bool = False  # takes x (T, B, I) and lengths; otherwise packed rows (N, I)


def choose(call: Call) -> Backend:
    """The first backend that supports the call."""
    return next(backend for backend in BACKENDS if backend.supports(call))


def _traced_by_torch() -> bool:
    """While a graph is recorded, by torch.compile or a transform of torch.func, each step has to be torch's own."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


# ---- triton


def supports_triton(call: Call) -> bool:
    """Hopper GPUs, where the weights fit on the chip. Faster than cuDNN wherever it was measured, but for what cuDNN
    has a persistent kernel for: an LSTM in float16, one direction, rows of equal length, without gradients."""
    if call.trace or not call.plain or not call.x.is_cuda:
        return False
    kind, dtype = kernel_kind(call.cell), call.compute_dtype
    compiling = torch.compiler.is_compiling()
    if kind is None or (not compiling and torch._C._are_functorch_transforms_active()):
        return False
    known = call.torch_name is not None and not compiling
    rows, time, _ = call.x.shape
    if time < TRITON_MIN_STEPS[known] and not is_device_only():  # a graph replays the launch
        return False
    forward_only = call.lengths is None and not call.bidirectional and not torch.is_grad_enabled()
    if kind == "lstm" and dtype == torch.float16 and forward_only:
        return False
    most = most_rows(kind, dtype, call.cell.hidden_size, 1, known, call.x.device.index or 0)
    return rows <= most or (is_device_only() and most > 0 and not call.noisy)  # more rows in turn


@cache
def _fitting_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, known: bool, device: int) -> int:
    chip = chip_of(device)
    if chip is None or dtype not in DTYPES or not has_triton():
        return 0
    most = 16 if known and dtype == torch.float32 else 64  # rows of a program; more were not measured beside cuDNN
    rows = 0
    while rows < 1 << 16:
        plans = [plan_of(kind, dtype, rows + 8, hidden, directions, chip, backward) for backward in (False, True)]
        if not all(plan is not None and plan.rows <= most for plan in plans):
            break
        rows += 8
    return rows


def most_rows(kind: str, dtype: torch.dtype, hidden: int, directions: int, known: bool, device: int) -> int:
    """The largest batch that the Triton kernel is used for, 0 for none; `known`: torch has a loop for the cell."""
    return _fitting_rows(kind, dtype, hidden, directions, known, device) if kernels_enabled() else 0


# torch.compile calls it once and does not trace it; its own decorator for that would import the compiler
most_rows._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _run_triton(call: Call) -> Result:
    """Both directions in one launch where they fit on the GPU together, otherwise one after the other.

    Inside `device_only` more rows than fit run in turn, in about equal parts.
    """
    from harken.kernels.recurrent.triton.layer import run_triton

    sizes = str(kernel_kind(call.cell)), call.compute_dtype, call.cell.hidden_size
    rows, device = call.x.shape[1], call.x.device.index or 0
    most = most_rows(*sizes, 1, False, device) if is_device_only() else rows
    if rows <= most:
        return run_triton(call, together=rows <= most_rows(*sizes, 2, False, device))
    made = [_run_triton(part) for part in split_rows(call, most)]
    states = zip(*(last for _, last, _ in made), strict=True)  # of each direction: of each part
    last = [tuple(torch.cat(found) for found in zip(*each, strict=True)) for each in states]
    return torch.cat([output for output, _, _ in made], 1), last, []


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
            padding=None if call.padding is None else call.padding[:, own],
            directions=[
                replace(each, state=None if each.state is None else tuple(part[own] for part in each.state))
                for each in call.directions
            ],
        )

    return [cut(first) for first in range(0, rows, size)]


# ---- cpu


@dataclass(frozen=True)
class CPURule:
    """Numbers in U from which on the CPU kernel was measured to be faster (`benchmarks/cpu_recurrent.py --rule`)."""

    loop: int  # than the reference loop, where torch has none for the cell
    full: int  # than torch's loop, with gradients
    full_inference: int  # and without
    unequal: int  # the same with rows of unequal length
    unequal_inference: int
    rows: int  # at each step, compared with torch's loop, where all rows run at all steps


NEVER = 2**62
CPU_RULES = {
    "lstm": CPURule(2**11, 2**20, NEVER, 2**12, 2**19, rows=48),
    "gru": CPURule(2**11, 2**13, 2**17, 2**12, 2**19, rows=4),
    "rnn": CPURule(2**12, 2**18, 2**18, 2**14, 2**18, rows=4),
}
CPU_MIN_STEPS, CPU_MIN_ROWS = 8, 64  # with fewer, preparing the weights costs more than it saves
CPU_MIN_STEPS_BESIDE_TORCH = 16  # torch's loops prepare less


def supports_cpu(call: Call) -> bool:
    """float32 on a CPU with numba and oneDNN, from the sizes of `CPU_RULES` on."""
    if call.trace or call.x.device.type != "cpu" or _traced_by_torch() or call.kind is None:
        return False
    if not call.x.dtype == call.cell.weight_hh.dtype == torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    if not kernels_enabled() or not cpu_is_available():
        return False
    layout, weights, rule = call.layout, call.cell.weight_hh.numel(), CPU_RULES[call.kind.name]
    steps, rows = len(layout.batch_sizes), sum(layout.batch_sizes)
    if steps < CPU_MIN_STEPS or rows < CPU_MIN_ROWS:
        return False
    if not has_torch_loop(call):
        return weights >= rule.loop
    if steps < CPU_MIN_STEPS_BESIDE_TORCH or rows < steps * (rule.rows if layout.full else 4):
        return False
    if torch.is_grad_enabled():
        return weights >= (rule.full if layout.full else rule.unequal)
    return weights >= (rule.full_inference if layout.full else rule.unequal_inference)


# ---- torch


def has_torch_loop(call: Call) -> bool:
    """Whether torch can run the call; its loops have no rows without steps."""
    if call.torch_name is None or (call.lengths is not None and call.layout.batch_sizes[0] < call.layout.batch):
        return False
    # on a CPU torch's loop with a projection is no faster than the reference
    return call.x.device.type != "cpu" or call.cell.output_size == call.cell.hidden_size


def supports_torch(call: Call) -> bool:
    """Plain cells. On a CPU its backward pass over rows of unequal length is slower than the reference's."""
    if call.trace or _traced_by_torch() or not has_torch_loop(call):
        return False
    return call.x.is_cuda or call.lengths is None or call.layout.full or not torch.is_grad_enabled()


# ---- reference


def supports_masked(call: Call) -> bool:
    """Lengths that a compiled graph must not read."""
    return torch.compiler.is_compiling() and call.lengths is not None and not call.trace


def _run_masked(call: Call) -> Any:
    return call.masked_reference(call)


def _run_loop(call: Call) -> Any:
    return call.reference(call)


BACKENDS = [
    Backend("triton", supports_triton, _run_triton, padded=True),
    Backend("cpu", supports_cpu, run_cpu),
    Backend("torch", supports_torch, run_fused),
    Backend("masked", supports_masked, _run_masked, padded=True),
    Backend("loop", lambda call: True, _run_loop),
]
