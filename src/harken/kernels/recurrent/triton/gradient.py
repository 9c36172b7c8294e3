"""The gradient of a recurrent layer on a GPU as one operator, `torch.ops.harken.recurrent_backward`, and that of U.

dU = sum over t of dG_t^T h_(t - 1)      time is the first axis: all of dG but its first step, all of h but its last

It has no derivative of its own: the reference in `harken.nn` has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
from harken.kernels.recurrent.triton.plan import GATES, SAVED


def launch_backward(
    d_y: Tensor,
    d_hidden_last: Tensor,
    d_cell_last: Tensor,
    weight: Tensor,
    extra: Tensor | None,
    gain: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    saved: Tensor,
    previous: Tensor,
    normals: Tensor,
    scales: Tensor,
    kind: str,
    zone: float,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of W x + b, of U h where that is another, of the first h and C, of the peepholes, of the gains."""
    from harken.kernels.recurrent.triton.backward import backward_kernel

    _, rows, directions, units = d_y.shape
    sums_extra = _has_sums(kind, extra, gain)
    plan = plan_for(kind, saved, backward=True)
    blocks = -(-rows // plan.rows)
    d_input, d_product, d_hidden, d_cell, _, _ = outputs = _outputs(d_y, extra, gain, saved, kind)
    d_extra = wide(saved, blocks, directions, 3, units) if sums_extra else outputs[4]
    d_gain = outputs[5] if gain is None else wide(saved, blocks, *gain.shape)
    buffers = exchange_buffers(saved, kind, plan, d_y.shape, gain)
    given = [d_y, d_hidden_last, d_cell_last, weight, extra, keep, stay_hidden, stay_cell, lengths, saved, previous]
    given += [d_input, d_product, d_hidden, d_cell, d_extra, gain, *buffers, normals, scales, d_gain]
    zones = zoneout_mode(zone, stay_hidden)
    options = {
        **common_options(d_y.shape, zone, extra, gain),
        "OPTIONS": (kind, GATES[kind], SAVED[kind], directions, keep is not None, zones, sums_extra, reverse),
    }
    launch(backward_kernel, plan.programs(rows, units, directions), plan, given, options)
    sums = (d_extra.sum(0) if sums_extra else d_extra, d_gain if gain is None else d_gain.sum(0))
    return d_input, d_product, d_hidden, d_cell, *sums


def _outputs(
    d_y: Tensor, extra: Tensor | None, gain: Tensor | None, saved: Tensor, kind: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The results of the operator, before a launch fills them."""
    time, rows, directions, units = d_y.shape
    each, none = (time, rows, directions, GATES[kind], units), (0,)
    # the gradient of U h, where it is not that of W x + b
    product = each if gain is not None else d_y.shape if kind == "gru" else none
    return (
        sentinel_filled(saved, *each),
        sentinel_filled(saved, *product),
        saved.new_empty(directions, rows, units),
        wide(saved, *((directions, rows, units) if kind in CELLS else none)),
        wide(saved, *((directions, 3, units) if _has_sums(kind, extra, gain) else none)),
        wide(saved, *(none if gain is None else gain.shape)),
    )


def _has_sums(kind: str, extra: Tensor | None, gain: Tensor | None) -> bool:
    """Whether the launch sums up the gradient of `extra`; a GRU's inner bias without a norm has that of its U h."""
    return extra is not None and (kind in CELLS or gain is not None)


recurrent_backward = torch.library.custom_op("harken::recurrent_backward", launch_backward, mutates_args=())


@recurrent_backward.register_fake
def _(d_y: Tensor, *given: Any) -> tuple[Tensor, ...]:
    extra, gain, saved, kind = given[3], given[4], given[9], given[13]
    return _outputs(d_y, extra, gain, saved, kind)


def weight_gradient(
    kind: str,
    d_input: Tensor,
    d_product: Tensor,
    dropped: Tensor,
    reset_seen: Tensor,
    first: Tensor | None,
    lengths: Tensor,
    reverse: bool,
) -> Tensor:
    """dU (D, gates x H, H), one product a direction (GRU: and one for its candidate, which saw something else)."""
    time, rows, directions, gates, units = d_input.shape
    normed = d_product.shape == d_input.shape  # then it has the gradients of all gates
    steps = (d_product if normed else d_input).view(time * rows, directions, gates * units)
    states = dropped.view(time * rows, directions, units)
    each = []
    for direction in range(directions):
        here = steps[:, direction]
        parts = [here]
        if kind == "gru" and not normed:
            parts = [here[:, : 2 * units], d_product.view(time * rows, directions, units)[:, direction]]
        elif kind == "gru_before":
            parts = [here[:, : 2 * units]]
        begin = None if first is None else first[direction]
        products = [
            _over_steps(part, states[:, direction], rows, reverse or direction == 1, begin, lengths) for part in parts
        ]
        if kind == "gru_before":
            products.append(here[:, 2 * units :].t() @ reset_seen.view(time * rows, directions, units)[:, direction])
        each.append(torch.cat(products) if len(products) > 1 else products[0])
    return torch.stack(each) if directions > 1 else each[0][None]


def _over_steps(
    gradient: Tensor, states: Tensor, rows: int, reverse: bool, first: Tensor | None, lengths: Tensor
) -> Tensor:
    """Sum over all steps of dG^T times what the step saw; gradient (T x B, n), states (T x B, H), first (B, H)."""
    if reverse:  # a row's first step is its last time; what lies behind it in `states` is 0
        total = gradient[:-rows].t() @ states[rows:]
        if first is not None:
            first_step = (lengths - 1).clamp(min=0) * rows + torch.arange(rows, device=lengths.device)
            total = torch.addmm(total, gradient[first_step].t(), first)  # a row of no steps has gradients of 0
        return total
    total = gradient[rows:].t() @ states[:-rows]
    return total if first is None else torch.addmm(total, gradient[:rows].t(), first)
