"""Torch's own fused loops for the plain cells: cuDNN on a GPU, oneDNN or ATen on a CPU.

They are functions of the weights, so that a layer can keep its weights in its cells. A whole stack is one call where
each layer reads the one below. cuDNN needs all weights of a call in one piece of memory: `flatten_for_cudnn` moves them
there. Reference: the steps of the cells in `harken.nn.recurrent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import _VF, Tensor
from torch.backends.cudnn import rnn as cudnn

from harken.kernels.recurrent.call import Call, Result, State

LOOPS: dict[str, Any] = {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu}


def torch_weights(cells: Sequence[Any]) -> list[Tensor]:
    """The weights of cells in the order of torch's fused loops; a second bias that a cell lacks is 0."""
    weights: list[Tensor] = []
    for cell in cells:
        weights += [cell.weight_ih, cell.weight_hh]
        if cell.bias_ih is not None:
            weights += [cell.bias_ih, torch.zeros_like(cell.bias_ih) if cell.bias_hh is None else cell.bias_hh]
        projection = getattr(cell, "weight_hr", None)
        if projection is not None:
            weights.append(projection)
    return weights


def runs_whole_stack(call: Call) -> bool:
    """Whether all layers can be one call."""
    return not call.connections


def run_fused_stack(
    call: Call, x: Tensor, batch_sizes: list[int] | None, state: State | None, cells: Sequence[Any]
) -> tuple[Tensor, State]:
    """x (T, B, I), or packed (N, I) with `batch_sizes`; state parts (layers x directions, B, H) -> output, last state.

    Under autocast everything is cast to its dtype here: torch's own wrapper always casts to float16.
    """
    directions = 2 if call.bidirectional else 1
    weights = torch_weights(cells)
    if state is None:
        batch = x.shape[1] if batch_sizes is None else batch_sizes[0]
        zeros = {size: x.new_zeros(len(cells), batch, size) for size in cells[0].state_sizes}
        state = tuple(zeros[size] for size in cells[0].state_sizes)
    autocast = x.is_cuda and torch.is_autocast_enabled("cuda")
    if autocast:
        low = call.compute_dtype
        x, state = x.to(low), tuple(part.to(low) for part in state)
        weights = weights if weights[0].dtype == low else _cast_flat(weights, low)
    name = str(call.torch_name)
    state = tuple(part.contiguous() for part in state)  # cuDNN takes no other
    hx: Any = state if name == "LSTM" else state[0]
    layers, bias = len(cells) // directions, cells[0].bias_ih is not None
    dropout = call.dropout if layers > 1 else 0.0
    options = (weights, bias, layers, dropout, call.training, call.bidirectional)
    with torch.autocast("cuda", enabled=False) if autocast else nullcontext():
        if batch_sizes is None:
            output, *last = LOOPS[name](x, hx, *options, False)
        else:
            output, *last = LOOPS[name](x, torch.tensor(batch_sizes), hx, *options)
    return output, tuple(last)


def _cast_flat(weights: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The weights in another dtype as views of one piece of memory in cuDNN's order: all matrices, then all biases."""
    order = sorted(range(len(weights)), key=lambda place: weights[place].dim() == 1)
    flat = torch.cat([weights[place].flatten() for place in order]).to(dtype)
    pieces = flat.split([weights[place].numel() for place in order])
    cast = {place: piece.view_as(weights[place]) for place, piece in zip(order, pieces, strict=True)}
    return [cast[place] for place in range(len(weights))]


def run_fused(call: Call) -> Result:
    """One layer: packed x (N, I) -> packed (N, R x directions), the last state of each direction."""
    layout, cells = call.layout, [each.cell for each in call.directions]
    starts = [each.start(layout.batch, call.x) for each in call.directions]
    state = tuple(torch.stack(parts) for parts in zip(*starts, strict=True))
    if layout.full:
        x = call.x.view(layout.time, layout.batch, -1)
        output, last = run_fused_stack(call, x, None, state, cells)
    else:
        output, last = run_fused_stack(call, call.x, layout.batch_sizes, state, cells)
    return output.flatten(0, -2), list(zip(*(part.unbind(0) for part in last), strict=True)), []


@torch.no_grad()
def flatten_for_cudnn(cells: Sequence[Any], bidirectional: bool) -> None:
    """Move the weights of cells on a GPU, of one layer or of a plain stack, into one piece of memory, in place."""
    weights, first, cell = torch_weights(cells), cells[0].weight_ih, cells[0]
    # torch itself leaves bfloat16 out, and its layers then copy all their weights at every call
    known = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    if not torch.backends.cudnn.enabled or first.dtype not in known:
        return
    if not all(weight.is_cuda and weight.dtype == first.dtype for weight in weights):
        return
    if len({weight.data_ptr() for weight in weights}) != len(weights) or not torch._use_cudnn_rnn_flatten_weight():
        return
    projection = cell.output_size if cell.output_size < cell.hidden_size else 0
    layers = len(cells) // (2 if bidirectional else 1)
    with torch.cuda.device_of(first):
        torch._cudnn_rnn_flatten_weight(
            weights,
            len(weights) // len(cells),
            cell.input_size,
            cudnn.get_cudnn_mode(cell.kind.torch_name),
            cell.hidden_size,
            projection,
            layers,
            False,
            bidirectional,
        )
