"""A layer's cells handed to `harken.kernels.recurrent.triton.operator`: W x + b of all steps as one product, and U.

Sequences stay padded and time comes first, (T, B, I); the kernel knows the lengths.

>>> from harken.nn import GRUCell, LSTMCell
>>> kind_of(GRUCell(3, 5)), kind_of(LSTMCell(3, 5, coupled=True)), kind_of(LSTMCell(3, 5, peephole="full"))
('gru', 'coupled', None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.recurrent.dispatch import runs_at_once
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.packing import check_lengths
from harken.nn.recurrent.regularization import Noise
from harken.nn.recurrent.rnn import RNNCell


def kind_of(cell: Cell) -> str | None:
    """The kernel's name for a cell; None where it has none: full peepholes, projections."""
    if isinstance(cell, RNNCell):
        return f"rnn_{cell.nonlinearity}"
    if isinstance(cell, GRUCell):
        return "gru" if cell.reset == "after" else "gru_before"
    if isinstance(cell, LSTMCell) and cell.peephole != "full" and not cell.proj_size:
        return "coupled" if cell.coupled else "lstm"
    return None


def compute_dtype(values: Tensor, cell: Cell) -> torch.dtype:
    """What W x + b will have: autocast's dtype, or the weights'."""
    device = values.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else cell.weight_hh.dtype


def lengths_for_gpu(lengths: Tensor, batch: int, time: int, device: torch.device) -> Tensor:
    """Lengths (B,) as the launch wants them, where the values are."""
    if torch.compiler.is_compiling():  # a graph cannot raise: the launch stays inside the sequence whatever they are
        return lengths.to(device, torch.int32).clamp(0, time)
    check_lengths(lengths, batch, time)
    return lengths.to(torch.int32).to(device, non_blocking=True)  # so few that the driver keeps a copy: no waiting


def run_on_gpu(
    cells: Sequence[Cell],
    values: Tensor,
    lengths: Tensor,
    first: Sequence[State] | None,
    noises: Sequence[Noise],
    behind: Tensor | None = None,
) -> tuple[Tensor, list[State]]:
    """Values (T, B, I), lengths (B,), first states and noise -> (T, B, H x directions), the last states.

    `behind` (T, B) is True where values have to be set to 0 first, lest they reach a gradient.
    Both directions go in one launch; where only one fits on the GPU, one after the other.
    """
    cell = cells[0]
    dtype, rows = compute_dtype(values, cell), values.shape[1]
    if len(cells) == 1 or runs_at_once(str(kind_of(cell)), dtype, rows, cell.hidden_size, values.device):
        return _run(cells, values, lengths, first, noises, behind, reverse=False)
    begins = [None, None] if first is None else [[state] for state in first]
    made = [
        _run([cell], values, lengths, begins[way], [noises[way]], behind, reverse=way == 1)
        for way, cell in enumerate(cells)
    ]
    return torch.cat([output for output, _ in made], -1), [last for _, states in made for last in states]


def _run(
    cells: Sequence[Cell],
    values: Tensor,
    lengths: Tensor,
    first: Sequence[State] | None,
    noises: Sequence[Noise],
    behind: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, list[State]]:
    cell, kind, dtype = cells[0], kind_of(cells[0]), compute_dtype(values, cells[0])
    constants = [constant for constant in (cell.constant() for cell in cells) if constant is not None]
    weight_in = _joined([cell.weight_ih for cell in cells]).to(dtype)
    constant = _joined(constants).to(dtype) if constants else None
    weight = _stacked([cell.weight_hh for cell in cells]).to(dtype)
    hidden, cells_first = None, None
    if first is not None:
        parts = [_stacked(part) for part in zip(*first, strict=True)]  # each (D, B, H)
        hidden, cells_first = parts[0].to(dtype), parts[1].float() if len(parts) > 1 else None
    extras = [extra.to(dtype) for extra in map(_extra, cells) if extra is not None]
    keeps = [noise.keep.to(dtype) for noise in noises if noise.keep is not None]
    extra, keep = _stacked(extras) if extras else None, _stacked(keeps) if keeps else None
    gains = [gain for gain in map(_gain, cells) if gain is not None]
    gain = _stacked(gains) if gains else None
    zone, stays = _zoneout(noises)
    rest = (weight, hidden, cells_first, extra, gain, keep, *stays, lengths, kind, zone, reverse)
    norms = [cell.norm_ih.weight for cell in cells if cell.norm_ih is not None]
    gain_in = _joined(norms) if norms else None
    y, hidden_last, cell_last = _launched(values.to(dtype), weight_in, constant, gain_in, behind, rest)
    last = [hidden_last, cell_last.to(dtype)] if isinstance(cell, LSTMCell) else [hidden_last]
    return y.flatten(2), list(zip(*(part.unbind(0) for part in last), strict=True))


def _launched(
    values: Tensor,
    weight_in: Tensor,
    constant: Tensor | None,
    gain_in: Tensor | None,
    behind: Tensor | None,
    rest: tuple[Any, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """y (T, B, D, H), the last h and C; `rest` is what `launch_forward` takes after W x + b, but whether to save."""
    save = torch.is_grad_enabled()
    if save and gain_in is None and not torch.compiler.is_compiling():
        from harken.kernels.recurrent.triton.layer import WholeLayer

        whole: tuple[Tensor, Tensor, Tensor] = WholeLayer.apply(values, weight_in, constant, behind, *rest)
        return whole
    from harken.kernels.recurrent.triton.operator import launch_forward

    if behind is not None:
        values = values.masked_fill(behind[:, :, None], 0.0)
    weight = rest[0]  # (D, gates x H, H)
    from_input = F.linear(values, weight_in, constant if gain_in is None else None)
    from_input = from_input.unflatten(-1, (weight.shape[0], -1, weight.shape[-1]))  # (T, B, D, gates, H)
    if gain_in is not None:
        from_input = _normalised(from_input, gain_in, constant)
    run = torch.ops.harken.recurrent if save or torch.compiler.is_compiling() else launch_forward
    given: Any = (from_input, *rest, save)
    y, hidden_last, cell_last, *_ = run(*given)
    return y, hidden_last, cell_last


def _normalised(from_input: Tensor, gain: Tensor, constant: Tensor | None) -> Tensor:
    """W x (T, B, D, gates, H), each gate on its own; gain and b are (D x gates x H)."""
    normal, shape = F.layer_norm(from_input, from_input.shape[-1:]), from_input.shape[2:]
    gain = gain.to(normal.dtype).view(shape)
    made = normal * gain if constant is None else torch.addcmul(constant.to(normal.dtype).view(shape), normal, gain)
    return made.to(from_input.dtype)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0][None]


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]


def _extra(cell: Cell) -> Tensor | None:
    """Peepholes; or the bias inside a GRU's reset, which is not in W x + b."""
    if isinstance(cell, LSTMCell):
        return cell.weight_ch
    if isinstance(cell, GRUCell) and cell.reset == "after" and cell.bias_hh is not None:
        return cell.bias_hh[2 * cell.hidden_size :]
    return None


def _gain(cell: Cell) -> Tensor | None:
    """Gains of U h, then gain and shift of C: (gates (+ 2) x H)."""
    if cell.norm_hh is None:
        return None
    inner = cell.norm_cell if isinstance(cell, LSTMCell) else None
    own: Tensor = cell.norm_hh.weight
    return own.float() if inner is None else torch.cat((own, inner.weight, inner.bias)).float()


def _zoneout(noises: Sequence[Noise]) -> tuple[float, list[Tensor | None]]:
    """Its mean, or masks (T, B, D, H) of h and C."""
    stay = noises[0].stay
    if not stay or isinstance(stay[0], float):
        return float(stay[0]) if stay else 0.0, [None, None]
    masks: list[Tensor | None] = []
    for part in range(2):
        drawn = [noise.stay[min(part, len(stay) - 1)] for noise in noises]
        masks.append(torch.stack([mask for mask in drawn if isinstance(mask, Tensor)], 2).view(torch.uint8))
    return 0.0, masks
