"""A layer's cells handed to `harken.kernels.cpu_recurrent`: which tensors they have, under the kernel's names.

>>> from harken.nn import GRUCell
>>> sorted(name for name, tensor in tensors_of(GRUCell(3, 5), torch.randn(7, 3)).items() if tensor is not None)
['candidate_bias', 'constant', 'values', 'weight_hh', 'weight_ih']
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harken.nn.cell import Cell, State
from harken.nn.gru import GRUCell
from harken.nn.lengths import Layout
from harken.nn.lstm import LSTMCell
from harken.nn.noise import Noise
from harken.nn.rnn import RNNCell


def tensors_of(cell: Cell, values: Tensor) -> dict[str, Tensor | None]:
    """What the kernel needs of a cell that reads packed values (N, I)."""
    given: dict[str, Tensor | None] = {"weight_hh": cell.weight_hh}
    if cell.norm_ih is None or cell.norm_hh is None:
        given |= {"values": values, "weight_ih": cell.weight_ih, "constant": cell.constant()}
    else:
        given |= {"values": cell.from_input(values), "norm_hidden": cell.norm_hh.weight}
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
    from harken.kernels.cpu_recurrent import run_layer
    from harken.kernels.cpu_recurrent_pass import Setting

    settings, named = [], []
    for way, (cell, state, noise) in enumerate(zip(cells, first, noises, strict=True)):
        setting = {"reverse": way == 1, "keep": noise.keep, "stay": noise.stay}
        if isinstance(cell, LSTMCell):
            settings.append(Setting("lstm", coupled=cell.coupled, peephole=cell.peephole, **setting))
        elif isinstance(cell, GRUCell):
            settings.append(Setting(f"gru {cell.reset}", **setting))
        elif isinstance(cell, RNNCell):
            settings.append(Setting("rnn", nonlinearity=cell.nonlinearity, **setting))
        given = tensors_of(cell, values)
        named.append(given | dict(zip(("hidden", "cell"), state, strict=False)))
    return run_layer(settings, named, layout.sizes, layout.batch)
