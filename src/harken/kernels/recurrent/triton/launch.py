"""What both launches of a recurrent layer need: a plan, buffers to exchange data in, and the launch itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.triton.plan import NORMS, TOGETHER, Plan, chip_of, gate_rows, plan_of

LIMIT = 1 << 22  # tries of one wait: seconds; a launch whose programs are all on the chip waits microseconds
CELLS = ("lstm", "coupled")  # kinds that have a C
FORCED: dict[str, Plan] = {}  # "forward", "backward": tiles to use whatever the rule says; for tests and benchmarks

_fine: dict[torch.device, Tensor] = {}


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


def awaited(like: Tensor, *shape: int) -> Tensor:
    """A buffer to exchange data in: every element is the pattern."""
    whole = torch.int32 if like.dtype == torch.float32 else torch.int16
    return torch.full(shape, -1, dtype=whole, device=like.device).view(like.dtype)


def wide(like: Tensor, *shape: int) -> Tensor:
    """An empty float32 tensor on the same device."""
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def boards(like: Tensor, kind: str, plan: Plan, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Where programs tell each other of the norms of all gates, and of the inner norm; shape (T, B, D, H)."""
    *steps, units = shape
    blocks, numbers = -(-units // plan.units), wide(like, 0)
    inner = awaited(numbers, *steps, blocks, 1, 2) if NORMS[kind] > TOGETHER[kind] else numbers
    return awaited(numbers, *steps, blocks, gate_rows(kind), 2), inner


def zoning(zone: float, stay: Tensor | None) -> int:
    """The kernels' ZONE."""
    return 2 if stay is not None else int(zone > 0)


def launch(kernel: Any, programs: int, plan: Plan, arguments: tuple[Tensor | None, ...], options: dict) -> None:
    """Start all programs at once: a launch that cannot be is refused by the driver, one that failed is told."""
    present = next(part for part in arguments if part is not None)
    device = present.device
    if device not in _fine:
        _fine[device] = torch.ones((), dtype=torch.int32, device=device)
    fine = _fine[device]
    given = (present if part is None else part for part in arguments)  # what is not there is never read
    # as cuDNN does; relu lets errors grow, so that three products in TF32 are not quite enough for it
    exact = "ieee" if options["OPTIONS"][0] == "rnn_relu" else "tf32x3"
    options = {**options, "NORM": plan.norm(options["OPTIONS"][0], options["H"]) if options["ROWS"] else (0,) * 5}
    tiles = plan.tiles("tf32" if torch.backends.cudnn.allow_tf32 else exact)
    cooperative = {"launch_cooperative_grid": True} if present.is_cuda else {}
    kernel[(programs,)](
        *given, fine, **options, limit=LIMIT, PLAN=tiles, num_warps=plan.warps, num_stages=1, **cooperative
    )
    if present.is_cuda:
        torch._assert_async(fine, "a recurrent kernel waited in vain for another program; its result is not valid")
