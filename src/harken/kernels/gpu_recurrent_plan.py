"""How a recurrent layer is cut into programs that are all on the chip at once.

A program has BH units and BB rows. Its slice of U has to fit into the shared memory of a multiprocessor beside what it
works on, and there may be no more programs than multiprocessors: they wait for each other, so that none may have to
wait for a free place. Fewer rows a program mean less to read in a step, so the smallest BB that fits is taken.

>>> plan_of("lstm", torch.bfloat16, rows=16, hidden=768, directions=1, processors=132)
Plan(units=16, rows=8, warps=8, columns=32, chunks=3, group=3)
>>> plan_of("lstm", torch.bfloat16, rows=64, hidden=4096, directions=2, processors=132) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "rnn_sigmoid": 1, "lstm": 4, "coupled": 3, "gru": 3, "gru_before": 3}
SAVED = {**GATES, "gru": 4}  # gates kept for the way back
SHARED_BYTES = 227 * 1024  # of a program, on Hopper
LOADED_BYTES = 192  # of each thread, under way at once


@dataclass(frozen=True)
class Plan:
    """Tiles of one launch, in the order of the kernels' PLAN."""

    units: int
    rows: int
    parts: int  # that a product is cut into along K, each with warps of its own
    columns: int  # of a part in a chunk
    chunks: int
    group: int  # chunks loaded at once
    in_registers: bool = True  # the weights; else in shared memory
    warps: int = 8

    def programs(self, rows: int, hidden: int, directions: int) -> int:
        """How many programs are launched."""
        return -(-rows // self.rows) * -(-hidden // self.units) * directions

    def tiles(self, precision: str) -> tuple[int | str, ...]:
        """What the kernels take."""
        return self.units, self.rows, self.parts, self.columns, self.chunks, self.group, precision, self.in_registers


def gate_rows(kind: str) -> int:
    """Gates of a unit in a tile of the forward product: a power of two."""
    return {"gru_before": 2}.get(kind) or (1, 1, 2, 4, 4)[GATES[kind]]


def shared_bytes(plan: Plan, kind: str, backward: bool, width: int) -> int:
    """What a program keeps in shared memory: its weights, and beside them data of a step or sums of its warps."""
    columns = plan.parts * plan.columns * plan.chunks
    per_unit = GATES[kind] if backward else gate_rows(kind) + (kind == "gru_before")
    weights = per_unit * plan.units * columns * width
    data = plan.group * plan.parts * plan.columns * plan.rows * width
    sums = plan.parts * plan.units * (1 if backward else gate_rows(kind)) * plan.rows * 4
    return weights + max(data, sums) + 2048


def plan_of(
    kind: str,
    dtype: torch.dtype,
    rows: int,
    hidden: int,
    directions: int,
    processors: int,
    backward: bool = False,
    units: int = 16,
) -> Plan | None:
    """The cut for `rows` rows of `hidden` units, or None where there is none."""
    width = dtype.itemsize
    segments = GATES[kind] if backward else 1
    for block in (8, 16, 32, 64, 128):
        warps = 8 if backward or block <= 16 else 4
        sizes = [size for size in (64, 32, 16) if size * warps <= 2 * hidden] or [16]
        columns = min(sizes, key=lambda size: (-(-hidden // (size * warps)) * size, -size))  # least padding
        chunks = -(-hidden // (columns * warps))
        loaded = columns * block * width // 32  # bytes of a thread in a chunk
        group = max(1, min(segments * chunks, LOADED_BYTES // loaded))
        plan = Plan(units, block, warps, columns, chunks, group)
        if shared_bytes(plan, kind, backward, width) > SHARED_BYTES:
            continue
        if plan.programs(rows, hidden, directions) <= processors:
            return plan
    return None
