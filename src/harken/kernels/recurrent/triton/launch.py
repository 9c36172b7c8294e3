"""The common part of both launches of a recurrent layer: a plan, buffers to exchange data in, and the launch itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.triton.plan import NORMS, TOGETHER, Plan, chip_of, gate_rows, plan_of

LIMIT = 1 << 22  # tries of one wait: seconds; a launch whose programs are all on the chip waits microseconds
CELLS = ("lstm", "coupled")  # kinds that have a c
CUDNN_KINDS = ("rnn_tanh", "rnn_relu", "lstm", "gru")
FORCED: dict[str, Plan] = {}  # "forward", "backward": tiles to use whatever the rule says; for tests and benchmarks

_ok_flags: dict[torch.device, Tensor] = {}


def plan_for(kind: str, values: Tensor, backward: bool) -> Plan:
    """The plan for values (T, B, D, gates, H)."""
    _, rows, directions, _, hidden = values.shape
    forced = FORCED.get("backward" if backward else "forward")
    if forced is not None:
        return forced
    chip = chip_of(values.device.index or 0) if values.is_cuda else None
    plan = chip and plan_of(kind, values.dtype, rows, hidden, directions, chip, backward)
    if not plan:
        where = f"{values.dtype}, {rows} rows, {hidden} units"
        raise ValueError(f"no launch of {kind} was found for {where} on {values.device}: HARKEN_KERNELS=off avoids it")
    return plan


def sentinel_filled(like: Tensor, *shape: int) -> Tensor:
    """A buffer in which programs exchange data: every element is the sentinel."""
    whole = torch.int32 if like.dtype == torch.float32 else torch.int16
    return torch.full(shape, -1, dtype=whole, device=like.device).view(like.dtype)


def wide(like: Tensor, *shape: int) -> Tensor:
    """An empty float32 tensor on the same device."""
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def exchange_buffers(
    like: Tensor, kind: str, plan: Plan, shape: Sequence[int], gain: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Where programs exchange the sums for the norms of all gates, and of the inner norm; shape (T, B, D, H)."""
    *steps, units = shape
    blocks, none = -(-units // plan.units), wide(like, 0)
    if gain is None:
        return none, none
    inner = sentinel_filled(none, *steps, blocks, 1, 2) if NORMS[kind] > TOGETHER[kind] else none
    return sentinel_filled(none, *steps, blocks, gate_rows(kind), 2), inner


def zoneout_mode(zone: float, stay: Tensor | None) -> int:
    """The kernels' ZONE: 0 none, 1 by its mean, 2 by masks."""
    return 2 if stay is not None else int(zone > 0)


def common_options(shape: Sequence[int], zone: float, extra: Tensor | None, gain: Tensor | None) -> dict[str, Any]:
    """The options of both kernels for (T, B, D, H)."""
    time, rows, _, units = shape
    gain_rows = 0 if gain is None else gain.shape[1] // units
    return {"T": time, "B": rows, "H": units, "zone": zone, "EXTRA": extra is not None, "ROWS": gain_rows}


def precision(options: dict[str, Any]) -> str:
    """How float32 products are computed: as the implementation would that runs the cell without this kernel.

    That is cuDNN for plain cells, with its `allow_tf32`, and otherwise the reference loop with the `allow_tf32` of
    products. Without TF32, three TF32 products give float32's precision; relu lets errors grow, so it needs IEEE.
    """
    kind, *_ = options["OPTIONS"]
    keep, zone = options["OPTIONS"][4:6]
    peepholes = options["EXTRA"] and kind in CELLS
    is_plain = kind in CUDNN_KINDS and not (options["ROWS"] or keep or zone or peepholes)
    if torch.backends.cudnn.allow_tf32 if is_plain else torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return "ieee" if kind == "rnn_relu" else "tf32x3"


def launch(kernel: Any, programs: int, plan: Plan, tensors: Sequence[Tensor | None], options: dict[str, Any]) -> None:
    """Start all programs at once: the driver refuses a launch that does not fit; a timeout raises asynchronously."""
    arguments = [None if part is None else part.contiguous() for part in tensors]
    present = next(part for part in arguments if part is not None)
    device = present.device
    if device not in _ok_flags:
        _ok_flags[device] = torch.ones((), dtype=torch.int32, device=device)
    ok_flag = _ok_flags[device]
    given = (present if part is None else part for part in arguments)  # what is not there is never read
    options = {**options, "NORM": plan.norm(options["OPTIONS"][0], options["H"]) if options["ROWS"] else (0,) * 5}
    tiles = plan.tiles(precision(options))
    cooperative = {"launch_cooperative_grid": True} if present.is_cuda else {}
    kernel[(programs,)](
        *given, ok_flag, **options, limit=LIMIT, PLAN=tiles, num_warps=plan.warps, num_stages=1, **cooperative
    )
    if present.is_cuda:
        torch._assert_async(ok_flag, "spin-wait timeout in a recurrent kernel; its result is not valid")
