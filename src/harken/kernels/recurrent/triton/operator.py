"""A recurrent layer on a GPU as one operator, with its gradient: `torch.ops.harken.recurrent`.

W x + b of all steps and directions goes in as one tensor (one product, computed by torch); the kernels are in
`forward.py` and `backward.py`. They compute in the dtype of W x + b, sums, c and gains in float32; under autocast the
caller casts to its dtype (`layer.py`). Under `torch.compile` the operator is one node of the graph; without it,
`layer.py` launches the kernels itself.
Reference: `harken.nn.recurrent.unroll.unroll_padded`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.triton.gradient import weight_gradient
from harken.kernels.recurrent.triton.launch import (
    CELLS,
    common_options,
    exchange_buffers,
    launch,
    plan_for,
    sentinel_filled,
    wide,
    zoneout_mode,
)
from harken.kernels.recurrent.triton.plan import NORMS, SAVED, gate_rows


def launch_forward(
    from_input: Tensor,
    weight: Tensor,
    hidden: Tensor | None,
    cell: Tensor | None,
    extra: Tensor | None,
    gain: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    kind: str,
    zone: float,
    reverse: bool,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y (T, B, D, H), last h and c (D, B, H); for backward: what products saw, gates, states before a step, norms.

    Args:
        from_input: W x + b, (T, B, D, gates, H).
        weight: U, (D, gates x H, H), of the same dtype.
        hidden: the first h (D, B, H) and
        cell: the first C, in float32; zeros where they are not given.
        extra: diagonal peepholes (D, 2 or 3 x H), or the bias inside a GRU's reset (D, H).
        gain: with layer norm, in float32: of U h of each gate, and C's gain and shift, (D, gates (+ 2) x H).
        keep: the mask of recurrent dropout (D, B, H).
        stay_hidden: zoneout's masks of h and
        stay_cell: of C, (T, B, D, H), 1 where a unit stays as it was; else `zone` is what stays of it.
        lengths: (B,), int32.
        kind: a key of `harken.kernels.recurrent.triton.plan.GATES`.
        zone: see above.
        reverse: whether the one direction is the second, from each row's last step to its first.
        save: whether a gradient may be wanted.
    """
    from harken.kernels.recurrent.triton.forward import forward_kernel

    _, rows, directions, gates, units = from_input.shape
    plan = plan_for(kind, from_input, backward=False)
    outputs = _outputs(from_input, gain, keep, kind, save)
    y, hidden_last, cell_last, dropped, reset_seen, saved, previous, normals, scales = outputs
    buffers = exchange_buffers(y, kind, plan, y.shape, gain)
    first_seen = hidden if hidden is None or keep is None else hidden * keep
    given = [from_input, weight, first_seen, hidden, cell, extra, keep, stay_hidden, stay_cell, lengths]
    given += [y, y if keep is None else dropped, reset_seen, hidden_last, cell_last, saved, previous, gain]
    zones = zoneout_mode(zone, stay_hidden)
    options = {
        **common_options(y.shape, zone, extra, gain),
        "STATE": hidden is not None,
        "OPTIONS": (kind, gates, SAVED[kind], directions, keep is not None, zones, save, gate_rows(kind), reverse),
    }
    launch(forward_kernel, plan.programs(rows, units, directions), plan, [*given, *buffers, normals, scales], options)
    return outputs


def _outputs(
    from_input: Tensor, gain: Tensor | None, keep: Tensor | None, kind: str, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The results of the operator, before a launch fills them."""
    time, rows, directions, gates, units = from_input.shape
    shape = (time, rows, directions, units)
    y = sentinel_filled(from_input, *shape)
    count = NORMS[kind] if save and gain is not None else 0
    return (
        y,
        y.new_empty(directions, rows, units),
        wide(y, directions, rows, units) if kind in CELLS else wide(y, 0),
        y.new_empty(0) if keep is None else sentinel_filled(y, *shape),
        sentinel_filled(y, *shape) if kind == "gru_before" else y.new_empty(0),
        y.new_empty((*shape[:3], SAVED[kind], units) if save else 0),
        wide(y, *shape) if save and gates > 1 else wide(y, 0),
        y.new_empty(*shape[:3], count, units),
        wide(y, *shape[:3], count),
    )


recurrent = torch.library.custom_op("harken::recurrent", launch_forward, mutates_args=())


@recurrent.register_fake
def _(from_input: Tensor, *given: Any) -> tuple[Tensor, ...]:
    gain, keep, kind, save = given[4], given[5], given[9], given[12]
    return _outputs(from_input, gain, keep, kind, save)


def _keep_for_backward(ctx: Any, inputs: tuple, output: tuple) -> None:
    _, weight, hidden, _, extra, gain, *masks, ctx.kind, ctx.zone, ctx.reverse, _ = inputs
    y, _, cell_last, *stored = output
    ctx.save_for_backward(weight, hidden, extra, gain, *masks, y, *stored, cell_last)
    ctx.mark_non_differentiable(*stored)


def gradients_of(
    ctx: Any,
    stored: Sequence[Tensor],
    needed: Sequence[bool],
    run: Callable[..., Any],
    d_y: Tensor | None,
    d_hidden_last: Tensor | None,
    d_cell_last: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of W x + b, U, first h and C, peepholes or a GRU's inner bias, gains; None where not needed.

    Args:
        ctx: knows `kind`, `zone` and `reverse`.
        stored: U, first h, extra, gain, keep, zoneout's masks, lengths, y, other results of the launch, last C.
        needed: whether the gradient of U, the first h, the first C and extra is wanted.
        run: the backward launch, or its operator.
    """
    weight, hidden, extra, gain, *masks, y, dropped, reset_seen, saved, previous, normals, scales, cell_last = stored
    (keep, *_, lengths), kind = masks, ctx.kind
    need_weight, need_hidden, need_cell, need_extra = needed
    d_y = torch.zeros_like(y) if d_y is None else d_y
    if d_hidden_last is None:
        d_hidden_last = y.new_zeros(y.shape[2], y.shape[1], y.shape[3])
    d_cell_last = torch.zeros_like(cell_last) if d_cell_last is None else d_cell_last
    states = (saved, previous, normals, scales)
    d_input, d_product, d_hidden, d_cell, d_extra, d_gain = run(
        d_y, d_hidden_last, d_cell_last, weight, extra, gain, *masks, *states, kind, ctx.zone, ctx.reverse
    )
    d_weight = None
    if need_weight:
        first = hidden if hidden is None or keep is None else hidden * keep
        flat_weight = weight_gradient(
            kind, d_input, d_product, y if keep is None else dropped, reset_seen, first, lengths, ctx.reverse
        )
        d_weight = flat_weight.view_as(weight)
    if extra is None or not need_extra:
        d_extra = None
    elif kind == "gru" and gain is None:
        d_extra = d_product.sum((0, 1), dtype=torch.float32).to(extra.dtype).view_as(extra)
    else:
        part = {"gru": slice(1), "coupled": slice(1, None)}.get(kind, slice(None))
        d_extra = d_extra[:, part].to(extra.dtype).reshape(extra.shape)
    d_gain = None if gain is None else d_gain.view_as(gain)
    return d_input, d_weight, d_hidden if need_hidden else None, d_cell if need_cell else None, d_extra, d_gain


def _backward(ctx: Any, d_y: Tensor, d_hidden_last: Tensor, d_cell_last: Tensor, *unused: Any) -> Any:
    run, needed = torch.ops.harken.recurrent_backward, ctx.needs_input_grad[1:5]
    gradients = gradients_of(ctx, ctx.saved_tensors, needed, run, d_y, d_hidden_last, d_cell_last)
    return *gradients, *(None for _ in range(8))


recurrent.register_autograd(_backward, setup_context=_keep_for_backward)
