"""A recurrent layer on a GPU by the persistent kernel, W x + b included, as one node of autograd.

    G = x W^T + b for all steps, then the launch             dG from the launch, then
                                                             dx = dG W     dW = dG^T x     db = sum dG     dU = dG^T h

For short sequences the host that starts all this is what takes the time: one node has fewer calls than the product, the
launch and the masking of padding as nodes of their own. What lies behind a row's end is set to 0 in x, so that it
reaches no gradient whatever it is; dG is 0 there. Under `torch.compile` the operators of
`harken.kernels.recurrent.triton.operator` are taken, and the compiler sees to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.autograd import first_order
from harken.kernels.recurrent.call import Call, Direction, Result
from harken.kernels.recurrent.triton.gradient import launch_backward
from harken.kernels.recurrent.triton.launch import CELLS
from harken.kernels.recurrent.triton.operator import gradients_of, launch_forward
from harken.kernels.recurrent.triton.plan import GATES, kernel_kind


def run_triton(call: Call, together: bool) -> Result:
    """x (T, B, I) and lengths -> (T, B, H x directions), the last state of each direction.

    `together`: both directions in one launch, otherwise one after the other.
    """
    if together or len(call.directions) == 1:
        return _run(call, call.directions, reverse=False)
    results = [_run(call, [each], each.reverse) for each in call.directions]
    last = tuple(torch.cat(parts) for parts in zip(*(each.last for each in results), strict=True))
    return Result(torch.cat([each.output for each in results], -1), last)


def _run(call: Call, directions: Sequence[Direction], reverse: bool) -> Result:
    kind, dtype = kernel_kind(call), call.compute_dtype
    assert call.kind is not None
    assert kind is not None
    tensors = [each.weights(call.kind) for each in directions]

    def joined(name: str, join: Any = _stacked, to: torch.dtype | None = dtype) -> Tensor | None:
        """The tensor `name` of all directions, or None where the cells have none."""
        parts = [given[name] for given in tensors if given.get(name) is not None]
        return join(parts).to(to) if parts else None

    weight_in, bias, weight = joined("weight_ih", _joined), joined("bias", _joined), joined("weight_hh")
    extra = joined("weight_ch" if kind in CELLS else "inner_bias")
    gain_in, gain = joined("norm_input", _joined, torch.float32), joined("norm_hidden", to=torch.float32)
    if gain is not None and kind in CELLS:
        inner = [joined(name, to=torch.float32) for name in ("norm_cell", "norm_cell_shift")]
        gain = torch.cat([gain, *(part for part in inner if part is not None)], -1)
    hidden, cell = None, None
    if directions[0].state is not None:
        parts = [_stacked(part) for part in zip(*(each.state for each in directions), strict=True)]  # (D, B, H)
        hidden, cell = parts[0].to(dtype), parts[1].float() if len(parts) > 1 else None
    keeps = [each.noise.keep.to(dtype) for each in directions if each.noise.keep is not None]
    keep = _stacked(keeps) if keeps else None
    zone, stays = _zoneout([each.noise.stay for each in directions])
    (time, batch), lengths, padding = call.x.shape[:2], call.lengths, None
    if lengths is None:
        lengths = torch.full((batch,), time, dtype=torch.int32, device=call.x.device)
    elif call.has_padding and torch.is_grad_enabled():
        padding = torch.arange(time, device=call.x.device)[:, None] >= lengths
    rest = (weight, hidden, cell, extra, gain, keep, *stays, lengths, kind, zone, reverse)
    y, hidden_last, cell_last = _launch(call.x.to(dtype), weight_in, bias, gain_in, padding, rest)
    return Result(y.flatten(2), (hidden_last, cell_last.to(dtype)) if kind in CELLS else (hidden_last,))


def _launch(
    x: Tensor,
    weight_in: Any,
    bias: Tensor | None,
    gain_in: Tensor | None,
    padding: Tensor | None,
    rest: tuple[Any, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """y (T, B, D, H), the last h and c; `rest` is what `launch_forward` takes between W x + b and `save`."""
    save = torch.is_grad_enabled()
    if save and gain_in is None and not torch.compiler.is_compiling():
        whole: tuple[Tensor, Tensor, Tensor] = WholeLayer.apply(x, weight_in, bias, padding, *rest)
        return whole
    if padding is not None:
        x = x.masked_fill(padding[:, :, None], 0.0)
    weight = rest[0]  # (D, gates x H, H)
    from_input = F.linear(x, weight_in, bias if gain_in is None else None)
    from_input = from_input.unflatten(-1, (weight.shape[0], -1, weight.shape[-1]))  # (T, B, D, gates, H)
    if gain_in is not None:
        from_input = _normed(from_input, gain_in, bias)
    run = torch.ops.harken.recurrent if save or torch.compiler.is_compiling() else launch_forward
    given: Any = (from_input, *rest, save)
    y, hidden_last, cell_last, *_ = run(*given)
    return y, hidden_last, cell_last


def _normed(from_input: Tensor, gain: Tensor, bias: Tensor | None) -> Tensor:
    """norm(W x) + b, (T, B, D, gates, H), each gate separately; gain and b are (D x gates x H)."""
    normal, shape = F.layer_norm(from_input, from_input.shape[-1:]), from_input.shape[2:]
    gain = gain.to(normal.dtype).view(shape)
    normed = normal * gain if bias is None else torch.addcmul(bias.to(normal.dtype).view(shape), normal, gain)
    return normed.to(from_input.dtype)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0][None]


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors)) if len(tensors) > 1 else tensors[0]


def _zoneout(stays: Sequence[tuple[Tensor | float, ...]]) -> tuple[float, list[Tensor | None]]:
    """Its mean, or masks (T, B, D, H) of h and c."""
    first = stays[0]
    if not first or isinstance(first[0], float):
        return float(first[0]) if first else 0.0, [None, None]
    masks: list[Tensor | None] = []
    for part in range(2):
        drawn = [stay[min(part, len(first) - 1)] for stay in stays]
        masks.append(torch.stack([mask for mask in drawn if isinstance(mask, Tensor)], 2).view(torch.uint8))
    return 0.0, masks


class WholeLayer(torch.autograd.Function):
    """Takes x, W and b, and then what `launch_forward` takes; gives y, the last h and the last C."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,  # (T, B, I)
        weight_in: Tensor,  # W of all directions, (D x gates x H, I)
        bias: Tensor | None,  # b, (D x gates x H)
        padding: Tensor | None,  # (T, B), True where a row has ended; None: x is 0 there already
        weight: Tensor,
        *rest: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.kind, ctx.zone, ctx.reverse = rest[8:11]
        whole = values.contiguous()
        if padding is not None:
            whole = whole.clone() if whole is values else whole
            whole.masked_fill_(padding[:, :, None], 0.0)
        directions, units = weight.shape[0], weight.shape[-1]
        from_input = F.linear(whole, weight_in, bias).unflatten(-1, (directions, GATES[ctx.kind], units))
        given: Any = (from_input, weight, *rest, True)
        y, hidden_last, cell_last, *stored = launch_forward(*given)
        hidden, _, *further = rest[:8]
        ctx.save_for_backward(whole, weight_in, bias, weight, hidden, *further, y, *stored, cell_last)
        ctx.set_materialize_grads(False)
        return y, hidden_last, cell_last

    @staticmethod
    @first_order("the GPU kernel of recurrent layers")
    def backward(ctx: Any, *given: Tensor) -> Any:
        whole, weight_in, bias, *others = ctx.saved_tensors
        need_values, need_in, need_bias, _, *needed = ctx.needs_input_grad
        d_input, *of_others = gradients_of(ctx, others, needed[:4], launch_backward, *given)
        steps = d_input.flatten(0, 1).flatten(1)  # (T x B, D x gates x H)
        d_values = (steps @ weight_in).view_as(whole) if need_values else None
        d_in = steps.t() @ whole.flatten(0, 1) if need_in else None
        d_bias = steps.sum(0) if bias is not None and need_bias else None
        return d_values, d_in, d_bias, None, *of_others, *(None for _ in range(7))
