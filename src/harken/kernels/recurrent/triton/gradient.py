"""The gradient of a recurrent layer on a GPU as one operator, `torch.ops.harken.recurrent_backward`, and that of U.

dU = sum over t of dG_t^T h_(t - 1)      time is the first axis: all of dG but its first step, all of h but its last

It has no derivative of its own: the reference in `harken.nn` has.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.recurrent.triton.launch import CELLS, boards, launch, plan_for, sentinel_filled, wide, zoning
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

    time, rows, directions, units = d_y.shape
    gates, has_cell, peeps = GATES[kind], kind in CELLS, _has_sums(kind, extra, gain)
    plan = plan_for(kind, saved, backward=True)
    blocks = -(-rows // plan.rows)
    d_input = sentinel_filled(saved, time, rows, directions, gates, units)
    d_product = sentinel_filled(saved, *_product_shape(kind, tuple(d_y.shape), gain))
    d_hidden = saved.new_empty(directions, rows, units)
    d_cell = wide(saved, directions, rows, units) if has_cell else wide(saved, 0)
    d_extra = wide(saved, blocks, directions, 3, units) if peeps else wide(saved, 0)
    d_gain = wide(saved, 0) if gain is None else wide(saved, blocks, *gain.shape)
    board = boards(saved, kind, plan, tuple(d_y.shape)) if gain is not None else (wide(saved, 0), wide(saved, 0))
    given = [d_y, d_hidden_last, d_cell_last, weight, extra, keep, stay_hidden, stay_cell, lengths, saved, previous]
    given += [d_input, d_product, d_hidden, d_cell, d_extra, gain, *board, normals, scales, d_gain]
    arguments = tuple(None if part is None else part.contiguous() for part in given)
    options = {
        "T": time,
        "B": rows,
        "H": units,
        "zone": zone,
        "EXTRA": extra is not None,
        "ROWS": 0 if gain is None else gain.shape[1] // units,
        "OPTIONS": (kind, gates, SAVED[kind], directions, keep is not None, zoning(zone, stay_hidden), peeps, reverse),
    }
    launch(backward_kernel, plan.programs(rows, units, directions), plan, arguments, options)
    sums = (d_extra.sum(0) if peeps else d_extra, d_gain if gain is None else d_gain.sum(0))
    return d_input, d_product, d_hidden, d_cell, *sums


def _has_sums(kind: str, extra: Tensor | None, gain: Tensor | None) -> bool:
    """Whether the launch sums up the gradient of `extra`; a GRU's inner bias without a norm has that of its U h."""
    return extra is not None and (kind in CELLS or gain is not None)


def _product_shape(kind: str, shape: tuple[int, ...], gain: Tensor | None) -> tuple[int, ...]:
    """Of the gradient of U h, where it is not that of W x + b."""
    if gain is not None:
        return *shape[:3], GATES[kind], shape[3]
    return shape if kind == "gru" else (0,)


recurrent_backward = torch.library.custom_op("harken::recurrent_backward", launch_backward, mutates_args=())


@recurrent_backward.register_fake
def _(
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
) -> tuple[Tensor, ...]:
    _, rows, directions, units = d_y.shape
    shape = tuple(d_y.shape)
    return (
        saved.new_empty(*shape[:3], GATES[kind], units),
        saved.new_empty(_product_shape(kind, shape, gain)),
        saved.new_empty(directions, rows, units),
        wide(saved, directions, rows, units) if kind in CELLS else wide(saved, 0),
        wide(saved, directions, 3, units) if _has_sums(kind, extra, gain) else wide(saved, 0),
        wide(saved, 0) if gain is None else wide(saved, *gain.shape),
    )


def weight_gradient(
    kind: str,
    d_input: Tensor,
    d_product: Tensor,
    seen: Tensor,
    reset_seen: Tensor,
    first: Tensor | None,
    lengths: Tensor,
    reverse: bool,
) -> Tensor:
    """dU (D, gates x H, H), one product a direction (GRU: and one for its candidate, which saw something else)."""
    time, rows, directions, gates, units = d_input.shape
    normed = d_product.shape == d_input.shape  # then it has the gradients of all gates
    steps = (d_product if normed else d_input).view(time * rows, directions, gates * units)
    states = seen.view(time * rows, directions, units)
    each = []
    for way in range(directions):
        here = steps[:, way]
        parts = [here]
        if kind == "gru" and not normed:
            parts = [here[:, : 2 * units], d_product.view(time * rows, directions, units)[:, way]]
        elif kind == "gru_before":
            parts = [here[:, : 2 * units]]
        begin = None if first is None else first[way]
        made = [_over_steps(part, states[:, way], rows, reverse or way == 1, begin, lengths) for part in parts]
        if kind == "gru_before":
            made.append(here[:, 2 * units :].t() @ reset_seen.view(time * rows, directions, units)[:, way])
        each.append(torch.cat(made) if len(made) > 1 else made[0])
    return torch.stack(each) if directions > 1 else each[0][None]


def _over_steps(
    gradient: Tensor, states: Tensor, rows: int, reverse: bool, first: Tensor | None, lengths: Tensor
) -> Tensor:
    """Sum over all steps of dG^T times what the step saw; gradient (T x B, n), states (T x B, H), first (B, H)."""
    if reverse:  # a row's first step is its last time; what lies behind it in `states` is 0
        total = gradient[:-rows].t() @ states[rows:]
        if first is not None:
            place = (lengths - 1).clamp(min=0) * rows + torch.arange(rows, device=lengths.device)
            total = torch.addmm(total, gradient[place].t(), first)  # a row of no steps has gradients of 0
        return total
    total = gradient[rows:].t() @ states[:-rows]
    return total if first is None else torch.addmm(total, gradient[:rows].t(), first)
