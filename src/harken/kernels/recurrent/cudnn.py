"""Torch's own fused loops for the plain cells: cuDNN on a GPU, oneDNN or ATen on a CPU.

They are functions of the weights, so that a layer can keep its weights in its cells. A whole stack is one call where
each layer reads the one below. cuDNN needs all weights of a call in one piece of memory: `flatten_for_cudnn` moves them
there. Reference: the steps of the cells in `harken.nn.recurrent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import _VF, Tensor
from torch.backends.cudnn import rnn as cudnn

from harken.kernels.autograd import takes_torch_steps
from harken.kernels.recurrent.call import PARAMETERS, Call, CellKind, RecurrentBackend, Result

LOOPS: dict[str, Any] = {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu}


Parameters = Mapping[str, Tensor | None]  # of a cell, by name


def torch_weights(cells: Sequence[Parameters]) -> list[Tensor]:
    """The weights of cells in the order of torch's fused loops; a second bias that a cell lacks is 0."""
    weights: list[Tensor] = []
    for cell in cells:
        W, U, b_ih, b_hh, R = [cell[name] for name in PARAMETERS]
        assert W is not None
        assert U is not None
        weights += [W, U]
        if b_ih is not None:
            weights += [b_ih, torch.zeros_like(b_ih) if b_hh is None else b_hh]
        if R is not None:
            weights.append(R)
    return weights


def has_torch_loop(call: Call) -> bool:
    """Whether torch can run the call; its loops have no rows without steps."""
    if call.torch_name is None or (call.lengths is not None and call.layout.batch_sizes[0] < call.layout.batch):
        return False
    # on a CPU torch's loop with a projection is no faster than the reference
    return not (call.x.is_cpu and call.is_projected)


def why_not_torch(call: Call) -> str | None:
    """Plain cells. On a CPU its backward pass over rows of unequal length is slower than the reference's."""
    if call.trace or takes_torch_steps():
        return "gates are traced, or torch.compile or torch.func records the steps"
    if not has_torch_loop(call):
        return "torch has no loop for this cell or these lengths"
    if call.x.is_cuda or call.lengths is None or call.layout.is_rectangular or not torch.is_grad_enabled():
        return None
    return "rows are of unequal length and gradients are computed on a CPU"


def run(call: Call) -> Result:
    """x (T, B, I) or packed (N, I) -> the same with R x directions, by one layer or several; the last states.

    Under autocast everything is cast to its dtype here: torch's own wrapper always casts to float16.
    """
    x, cells = call.x, [each.parameters for each in call.directions]
    packed = x.dim() == 2
    rectangular = not packed or call.layout.is_rectangular
    batch = call.layout.batch if packed else x.shape[1]
    x = x.view(-1, batch, x.shape[-1]) if packed and rectangular else x
    if call.directions[0].state is None:
        zeros = {size: x.new_zeros(len(cells), batch, size) for size in call.state_sizes}
        state = tuple([zeros[size] for size in call.state_sizes])
    else:
        starts = [call.start(each, batch, x) for each in call.directions]
        state = tuple(torch.stack(parts) for parts in zip(*starts, strict=True))  # cuDNN takes contiguous ones alone
    weights, autocast = torch_weights(cells), x.is_cuda and torch.is_autocast_enabled("cuda")
    if autocast:
        low = call.compute_dtype
        x, state = x.to(low), tuple(part.to(low) for part in state)
        weights = weights if weights[0].dtype == low else _cast_flat(weights, low)
    name = str(call.torch_name)
    hx: Any = state if name == "LSTM" else state[0]
    layers = len(cells) // (2 if call.bidirectional else 1)
    dropout = call.dropout if layers > 1 else 0.0
    options = (weights, len(weights) // len(cells) > 3, layers, dropout, call.training, call.bidirectional)
    with torch.autocast("cuda", enabled=False) if autocast else nullcontext():
        if rectangular:
            output, *last = LOOPS[name](x, hx, *options, False)
        else:
            output, *last = LOOPS[name](x, torch.tensor(call.layout.batch_sizes), hx, *options)
    return Result(output.flatten(0, -2) if packed else output, tuple(last))


def _cast_flat(weights: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The weights in another dtype as views of one piece of memory in cuDNN's order: all matrices, then all biases."""
    order = sorted(range(len(weights)), key=lambda index: weights[index].dim() == 1)
    flat = torch.cat([weights[index].flatten() for index in order]).to(dtype)
    pieces = flat.split([weights[index].numel() for index in order])
    cast = {index: piece.view_as(weights[index]) for index, piece in zip(order, pieces, strict=True)}
    return [cast[index] for index in range(len(weights))]


@torch.no_grad()
def flatten_for_cudnn(cells: Sequence[Parameters], kind: CellKind, bidirectional: bool) -> None:
    """Move the weights of cells on a GPU, of one layer or of a plain stack, into one piece of memory, in place."""
    weights = torch_weights(cells)
    first, recurrent, projection = weights[0], weights[1], cells[0]["weight_hr"]
    # torch itself leaves bfloat16 out, and its layers then copy all their weights at every call
    known = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    if not torch.backends.cudnn.enabled or first.dtype not in known:
        return
    if not all(weight.is_cuda and weight.dtype == first.dtype for weight in weights):
        return
    if len({weight.data_ptr() for weight in weights}) != len(weights) or not torch._use_cudnn_rnn_flatten_weight():
        return
    layers = len(cells) // (2 if bidirectional else 1)
    with torch.cuda.device_of(first):
        torch._cudnn_rnn_flatten_weight(
            weights,
            len(weights) // len(cells),
            first.shape[1],
            cudnn.get_cudnn_mode(str(kind.torch_name)),
            recurrent.shape[1] if projection is None else projection.shape[1],
            0 if projection is None else projection.shape[0],
            layers,
            False,
            bidirectional,
        )


TORCH = RecurrentBackend("torch", why_not_torch, run, is_kernel=False, takes_equal=True, runs_stack=True)
