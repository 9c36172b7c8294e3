"""When a layer's cells are handed to `harken.kernels.recurrent.cpu.operator`, and how: their tensors by the kernel's
names.

>>> from harken.nn import GRUCell
>>> sorted(name for name, tensor in tensors_of(GRUCell(3, 5), torch.randn(7, 3)).items() if tensor is not None)
['candidate_bias', 'constant', 'values', 'weight_hh', 'weight_ih']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harken.kernels.recurrent.cpu.operator import is_there, is_wanted, run_layer
from harken.kernels.recurrent.cpu.plan import Setting
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.packing import Layout
from harken.nn.recurrent.regularization import Noise
from harken.nn.recurrent.rnn import RNNCell

STEPS, ROWS = 8, 64  # fewer steps, or rows in all of them, do not pay for what is made ready
STEPS_BESIDE_TORCH = 16  # torch's loops make less ready
NEVER = 2**62


@dataclass(frozen=True)
class Least:
    """Recurrent weights from which on the kernel was measured to be faster (`benchmarks/cpu_recurrent.py --rule`)."""

    loop: int  # than our own loop, where torch has none for the cell
    full: int  # than torch's loop, with gradients
    full_reading: int  # and without
    unequal: int  # the same with rows of unequal length
    unequal_reading: int
    rows: int  # at each step, beside torch's loop, where all run at all steps


LEAST = {
    LSTMCell: Least(2**11, 2**20, NEVER, 2**12, 2**19, rows=48),
    GRUCell: Least(2**11, 2**13, 2**17, 2**12, 2**19, rows=4),
    RNNCell: Least(2**12, 2**18, 2**18, 2**14, 2**18, rows=4),
}


def pays(cell: Cell, values: Tensor, layout: Layout, torch_has_it: bool) -> bool:
    """Whether the kernel can take a layer of such cells and is faster than torch's loop, or than our own."""
    if torch.compiler.is_compiling():  # first of all: what follows cannot be traced
        return False
    rows, weights = sum(layout.sizes), cell.weight_hh.numel()
    usable = values.device.type == "cpu" and values.dtype == cell.weight_hh.dtype == torch.float32
    if not usable or type(cell) not in LEAST or not is_wanted() or not is_there():
        return False
    if torch.is_autocast_enabled("cpu") or torch._C._are_functorch_transforms_active():
        return False
    if len(layout.sizes) < STEPS or rows < ROWS:
        return False
    least = LEAST[type(cell)]
    if not torch_has_it:
        return weights >= least.loop
    steps = len(layout.sizes)
    if steps < STEPS_BESIDE_TORCH or rows < steps * (least.rows if layout.full else 4):
        return False
    if torch.is_grad_enabled():
        return weights >= (least.full if layout.full else least.unequal)
    return weights >= (least.full_reading if layout.full else least.unequal_reading)


def tensors_of(cell: Cell, values: Tensor) -> dict[str, Tensor | None]:
    """What the kernel needs of a cell that reads packed values (N, I)."""
    given: dict[str, Tensor | None] = {"values": values, "weight_ih": cell.weight_ih, "weight_hh": cell.weight_hh}
    given["constant"] = cell.constant()
    if cell.norm_ih is not None and cell.norm_hh is not None:
        given |= {"norm_input": cell.norm_ih.weight, "norm_hidden": cell.norm_hh.weight}
    if isinstance(cell, GRUCell) and cell.reset == "after" and cell.bias_hh is not None:
        given["candidate_bias"] = cell.bias_hh[2 * cell.hidden_size :]
    if isinstance(cell, LSTMCell):
        given |= {"weight_ch": cell.weight_ch, "weight_hr": cell.weight_hr}
        if cell.norm_cell is not None:
            given |= {"norm_cell": cell.norm_cell.weight, "norm_cell_shift": cell.norm_cell.bias}
    return given


def run_quick(
    cells: Sequence[Cell], values: Tensor, layout: Layout, first: Sequence[State], noises: Sequence[Noise]
) -> tuple[Tensor, list[State]]:
    """Packed values (N, I), first states and noise of each direction -> packed (N, R x directions), last states."""
    settings, named = [], []
    for way, (cell, state, noise) in enumerate(zip(cells, first, noises, strict=True)):
        setting = Setting("rnn", way == 1, noise.keep, noise.stay)
        if isinstance(cell, LSTMCell):
            setting = replace(setting, cell="lstm", coupled=cell.coupled, peephole=cell.peephole)
        elif isinstance(cell, GRUCell):
            setting = replace(setting, cell=f"gru {cell.reset}")
        elif isinstance(cell, RNNCell):
            setting = replace(setting, nonlinearity=cell.nonlinearity)
        settings.append(setting)
        given = tensors_of(cell, values)
        named.append(given | dict(zip(("hidden", "cell"), state, strict=False)))
    return run_layer(settings, named, layout.sizes, layout.batch)
