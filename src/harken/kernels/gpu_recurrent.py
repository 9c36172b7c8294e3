"""A recurrent layer on a GPU as one operator, with its gradient: `torch.ops.harken.recurrent`.

W x + b of all steps and directions goes in as one tensor (one product, made by torch); the launches are in
`harken.kernels.gpu_recurrent_forward` and `..._backward`, which work in the dtype of W x + b with sums and cells in
float32. The gradients of U are products over all steps:

dU = sum over t of dG_t^T h_(t - 1)      with time as the first axis: all of dG but its first step, all of h but its last

Definition: `harken.nn.unroll.unroll_by_definition`. Under `torch.compile` the operator stays one node of the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.gpu_recurrent_plan import GATES, SAVED, Plan, gate_rows, plan_of
from harken.kernels.gpu_triton import tl, triton, triton_is_here

LIMIT = 1 << 22  # tries of one wait: seconds; a launch whose programs are all on the chip waits microseconds
CELLS = ("lstm", "coupled")
FORCED: dict[str, Plan] = {}  # "forward", "backward": tiles to use whatever the rule says; for tests and benchmarks

_fine: dict[torch.device, Tensor] = {}


def _precision() -> str:
    """As cuDNN: TF32 for float32 unless it was turned off."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"


def processors(device: torch.device) -> int:
    """How many programs can be on the chip at once."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1 << 30


def _plan(kind: str, values: Tensor, backward: bool) -> Plan:
    _, rows, directions, _, hidden = values.shape
    forced = FORCED.get("backward" if backward else "forward")
    plan = forced or plan_of(kind, values.dtype, rows, hidden, directions, processors(values.device), backward)
    if plan is None:
        raise ValueError(f"{kind} of {hidden} units in {values.dtype} for {rows} rows does not fit on this GPU at once")
    return plan


def _awaited(running: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """A buffer (T, B, ...) to exchange data in: the pattern where a row runs, 0 where it does not."""
    whole = torch.int32 if like.dtype == torch.float32 else torch.int16
    bits = running.to(whole).neg_().view(*running.shape, *(1 for _ in shape[2:]))
    return bits.expand(shape).contiguous().view(like.dtype)


def _running(lengths: Tensor, time: int) -> Tensor:
    return torch.arange(time, device=lengths.device)[:, None] < lengths  # (T, B)


def _zoning(zone: float, stay: Tensor | None) -> int:
    return 2 if stay is not None else int(zone > 0)


def _launch(kernel: Any, programs: int, plan: Plan, device: torch.device, arguments: tuple, options: dict) -> None:
    """Start, all programs at once; a launch that cannot be is refused by the driver, one that failed is told."""
    if device not in _fine:
        _fine[device] = torch.ones((), dtype=torch.int32, device=device)
    fine = _fine[device]
    cooperative = {"launch_cooperative_grid": True} if device.type == "cuda" else {}
    kernel[(programs,)](
        *arguments, fine, **options, PLAN=plan.tiles(_precision()), num_warps=plan.warps, num_stages=1, **cooperative
    )
    if device.type == "cuda":
        torch._assert_async(fine, "a recurrent kernel waited in vain for another program; its result is not valid")


@torch.library.custom_op("harken::recurrent", mutates_args=())
def recurrent(
    from_input: Tensor,
    weight: Tensor,
    hidden: Tensor | None,
    cell: Tensor | None,
    extra: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    kind: str,
    zone: float,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y (T, B, D, H), last h and C (D, B, H); and for the way back what the products saw, gates and states."""
    from harken.kernels.gpu_recurrent_forward import forward_kernel

    time, rows, directions, gates, units = from_input.shape
    plan = _plan(kind, from_input, backward=False)
    from_input = from_input.contiguous()
    running = _running(lengths, time)
    shape = (time, rows, directions, units)
    y = _awaited(running, shape, from_input)
    seen = _awaited(running, shape, from_input) if keep is not None else y
    reset_seen = _awaited(running, shape, from_input) if kind == "gru_before" else from_input.new_empty(0)
    saved = from_input.new_empty((time, rows, directions, SAVED[kind], units) if save else 0)
    previous = torch.empty(
        shape if save and gates > 1 else 0, dtype=torch.float32, device=from_input.device
    )
    hidden_last = from_input.new_empty(directions, rows, units)
    has_cell = kind in CELLS
    cell_last = torch.empty(
        (directions, rows, units) if has_cell else 0, dtype=torch.float32, device=from_input.device
    )
    first_seen = hidden if hidden is None or keep is None else hidden * keep
    none = lengths  # stands for what is not there: never read
    arguments = (
        from_input,
        weight,
        *(none if part is None else part.contiguous() for part in (first_seen, hidden, cell, extra, keep)),
        *(none if part is None else part for part in (stay_hidden, stay_cell)),
        lengths,
        y,
        seen,
        reset_seen,
        hidden_last,
        cell_last,
        saved,
        previous,
    )
    options = {
        "B": rows,
        "H": units,
        "zone": zone,
        "limit": LIMIT,
        "EXTRA": extra is not None,
        "STATE": hidden is not None,
        "OPTIONS": (kind, gates, SAVED[kind], directions, keep is not None, _zoning(zone, stay_hidden), save,
                    gate_rows(kind)),
    }  # fmt: skip
    _launch(forward_kernel, plan.programs(rows, units, directions), plan, y.device, arguments, options)
    return y, hidden_last, cell_last, y.new_empty(0) if seen is y else seen, reset_seen, saved, previous


@recurrent.register_fake
def _(
    from_input: Tensor,
    weight: Tensor,
    hidden: Tensor | None,
    cell: Tensor | None,
    extra: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    kind: str,
    zone: float,
    save: bool,
) -> tuple[Tensor, ...]:
    time, rows, directions, gates, units = from_input.shape
    shape, state = (time, rows, directions, units), (directions, rows, units)
    wide = {"dtype": torch.float32, "device": from_input.device}
    return (
        from_input.new_empty(shape),
        from_input.new_empty(state),
        torch.empty(state if kind in CELLS else 0, **wide),
        from_input.new_empty(0 if keep is None else shape),
        from_input.new_empty(shape if kind == "gru_before" else 0),
        from_input.new_empty((*shape[:3], SAVED[kind], units) if save else 0),
        torch.empty(shape if save and gates > 1 else 0, **wide),
    )


@torch.library.custom_op("harken::recurrent_backward", mutates_args=())
def recurrent_backward(
    d_y: Tensor,
    d_hidden_last: Tensor,
    d_cell_last: Tensor,
    weight: Tensor,
    extra: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    saved: Tensor,
    previous: Tensor,
    kind: str,
    zone: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of W x + b, of a GRU's U h of the candidate, of the first h and C, of the peepholes (block by block)."""
    from harken.kernels.gpu_recurrent_backward import backward_kernel

    time, rows, directions, units = d_y.shape
    gates = GATES[kind]
    like = saved.new_empty(0).expand(time, rows, directions, gates, 0)
    shape = (time, rows, directions, gates, units)
    plan = _plan(kind, saved[..., :gates, :], backward=True)
    running = _running(lengths, time)
    d_input = _awaited(running, shape, like)
    d_product = _awaited(running, (time, rows, directions, units), like) if kind == "gru" else saved.new_empty(0)
    d_hidden = saved.new_empty(directions, rows, units)
    wide = {"dtype": torch.float32, "device": saved.device}
    d_cell = torch.empty((directions, rows, units) if kind in CELLS else 0, **wide)
    peeps = extra is not None and kind in CELLS
    d_extra = torch.empty((-(-rows // plan.rows), directions, 3, units) if peeps else 0, **wide)
    none = lengths
    arguments = (
        d_y.contiguous(),
        d_hidden_last.contiguous(),
        d_cell_last.contiguous(),
        weight,
        *(none if part is None else part.contiguous() for part in (extra, keep, stay_hidden, stay_cell)),
        lengths,
        saved,
        previous,
        d_input,
        d_product,
        d_hidden,
        d_cell,
        d_extra,
    )
    options = {
        "B": rows,
        "H": units,
        "zone": zone,
        "limit": LIMIT,
        "EXTRA": extra is not None,
        "OPTIONS": (kind, gates, SAVED[kind], directions, keep is not None, _zoning(zone, stay_hidden), peeps),
    }
    _launch(backward_kernel, plan.programs(rows, units, directions), plan, saved.device, arguments, options)
    return d_input, d_product, d_hidden, d_cell, d_extra.sum(0) if peeps else d_extra


@recurrent_backward.register_fake
def _(
    d_y: Tensor,
    d_hidden_last: Tensor,
    d_cell_last: Tensor,
    weight: Tensor,
    extra: Tensor | None,
    keep: Tensor | None,
    stay_hidden: Tensor | None,
    stay_cell: Tensor | None,
    lengths: Tensor,
    saved: Tensor,
    previous: Tensor,
    kind: str,
    zone: float,
) -> tuple[Tensor, ...]:
    time, rows, directions, units = d_y.shape
    state = (directions, rows, units)
    wide = {"dtype": torch.float32, "device": saved.device}
    return (
        saved.new_empty(time, rows, directions, GATES[kind], units),
        saved.new_empty(d_y.shape if kind == "gru" else 0),
        saved.new_empty(state),
        torch.empty(state if kind in CELLS else 0, **wide),
        torch.empty((directions, 3, units) if extra is not None and kind in CELLS else 0, **wide),
    )


def _keep_for_backward(ctx: Any, inputs: tuple, output: tuple) -> None:
    (_, weight, hidden, _, extra, keep, stay_hidden, stay_cell, lengths, ctx.kind, ctx.zone, _) = inputs
    y, _, cell_last, seen, reset_seen, saved, previous = output
    ctx.save_for_backward(
        weight, hidden, extra, keep, stay_hidden, stay_cell, lengths, y, seen, reset_seen, saved, previous
    )
    ctx.cell_shape = cell_last.shape
    ctx.mark_non_differentiable(seen, reset_seen, saved, previous)


def _backward(ctx: Any, d_y: Tensor, d_hidden_last: Tensor, d_cell_last: Tensor, *unused: Any) -> tuple[Any, ...]:
    (weight, hidden, extra, keep, stay_hidden, stay_cell, lengths, y, seen, reset_seen, saved, previous) = (
        ctx.saved_tensors
    )
    kind, (time, rows, directions, units) = ctx.kind, y.shape
    d_y = torch.zeros_like(y) if d_y is None else d_y
    d_hidden_last = y.new_zeros(directions, rows, units) if d_hidden_last is None else d_hidden_last
    if d_cell_last is None:
        d_cell_last = torch.zeros(ctx.cell_shape, dtype=torch.float32, device=y.device)
    d_input, d_product, d_hidden, d_cell, d_extra = torch.ops.harken.recurrent_backward(
        d_y, d_hidden_last, d_cell_last, weight, extra, keep, stay_hidden, stay_cell, lengths, saved, previous, kind,
        ctx.zone,
    )  # fmt: skip
    need = ctx.needs_input_grad
    d_weight = None
    if need[1]:
        first = hidden if hidden is None or keep is None else hidden * keep
        d_weight = _weight_gradient(
            kind, d_input, d_product, y if keep is None else seen, reset_seen, first, lengths
        ).view_as(weight)
    if not need[4] or extra is None:
        d_extra = None
    elif kind == "gru":
        d_extra = d_product.sum((0, 1), dtype=torch.float32).to(extra.dtype).view_as(extra)
    else:
        d_extra = (d_extra[:, 1:] if kind == "coupled" else d_extra).to(extra.dtype).reshape(extra.shape)
    return (
        d_input,
        d_weight,
        d_hidden if need[2] else None,
        d_cell if need[3] and kind in CELLS else None,
        d_extra,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    )


def _weight_gradient(
    kind: str,
    d_input: Tensor,
    d_product: Tensor,
    seen: Tensor,
    reset_seen: Tensor,
    first: Tensor | None,
    lengths: Tensor,
) -> Tensor:
    """dU (D, gates x H, H), one product a direction (GRU: and one for its candidate, which saw something else)."""
    time, rows, directions, gates, units = d_input.shape
    steps = d_input.view(time * rows, directions, gates * units)
    states = seen.view(time * rows, directions, units)
    each = []
    for way in range(directions):
        here = steps[:, way]
        if kind == "gru":
            parts = [here[:, : 2 * units], d_product.view(time * rows, directions, units)[:, way]]
        elif kind == "gru_before":
            parts = [here[:, : 2 * units]]
        else:
            parts = [here]
        made = [_over_steps(part, states[:, way], rows, way, None if first is None else first[way], lengths)
                for part in parts]  # fmt: skip
        if kind == "gru_before":
            made.append(here[:, 2 * units :].t() @ reset_seen.view(time * rows, directions, units)[:, way])
        each.append(torch.cat(made) if len(made) > 1 else made[0])
    return torch.stack(each)


def _over_steps(
    gradient: Tensor, states: Tensor, rows: int, way: int, first: Tensor | None, lengths: Tensor
) -> Tensor:
    """Sum over the steps of dG_t^T h of the step before it; gradient (T x B, n), states (T x B, H)."""
    if way == 0:
        total = gradient[rows:].t() @ states[:-rows]
        begun = gradient[:rows]
    else:
        total = gradient[:-rows].t() @ states[rows:]
        place = (lengths - 1).clamp(min=0) * rows + torch.arange(rows, device=lengths.device)
        begun = gradient[place] if first is not None else gradient  # rows of length 0 have gradients of 0
    return total if first is None else torch.addmm(total, begun.t(), first)


recurrent.register_autograd(_backward, setup_context=_keep_for_backward)
