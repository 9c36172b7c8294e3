"""How a recurrent layer is cut into programs that are all on the chip at once.

A program has BH units and BB rows. Its slice of U has to fit into the registers or the shared memory of a
multiprocessor beside what it works on, and there may be no more programs than multiprocessors: they wait for each
other, so that none may have to wait for a free processor. Fewer rows a program mean less to read in a step, so the
smallest BB that fits is taken. The other numbers were the fastest on an H200 (`benchmarks/gpu_recurrent.py`).

>>> plan_of("lstm", torch.bfloat16, rows=16, hidden=768, directions=1, chip=Chip(132, 232448))
Plan(units=16, rows=8, parts=4, columns=64, chunks=3, group=3, in_registers=False, warps=4)
>>> plan_of("lstm", torch.bfloat16, rows=64, hidden=4096, directions=2, chip=Chip(132, 232448)) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch

from harken.kernels.recurrent.call import Call

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "rnn_sigmoid": 1, "lstm": 4, "coupled": 3, "gru": 3, "gru_before": 3}
SAVED = {**GATES, "gru": 4}  # gates kept for the backward pass
TOGETHER = {**GATES, "gru_before": 2}  # gates whose U h is made, and normalised, at once
NORMS = {**GATES, "lstm": 5, "coupled": 4}  # norms of U h, and of C
HELD_BYTES = 512  # of weights in the registers of a thread, at most
LOADED_BYTES = 192  # of a thread, under way at once
NORM_BYTES = 128  # of a thread, of what other programs tell of a norm


DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Chip(NamedTuple):
    """The resources of a GPU that a plan has to fit into."""

    processors: int
    shared: int  # bytes of shared memory that one program can have


@cache
def chip_of(device: int) -> Chip | None:
    """The resources of a GPU; None where the kernels were not measured (all but Hopper)."""
    device_properties: Any = torch.cuda.get_device_properties(device)
    if device_properties.major != 9:
        return None
    return Chip(device_properties.multi_processor_count, device_properties.shared_memory_per_block_optin)


def kernel_kind(call: Call) -> str | None:
    """The kernels' name for the cells of a call, a key of `GATES`; None for what they lack: cells with steps of their
    own, full peepholes and projections."""
    kind = call.kind
    if kind is None:
        return None
    if kind.name == "rnn":
        return f"rnn_{kind.nonlinearity}"
    if kind.name == "gru":
        return "gru" if kind.reset == "after" else "gru_before"
    if kind.peephole == "full" or call.is_projected:
        return None
    return "coupled" if kind.coupled else "lstm"


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
        """The kernels' PLAN."""
        tiles = (self.units, self.rows, self.parts, self.columns, self.chunks, self.group)
        return *tiles, precision, self.in_registers

    def norm(self, kind: str, hidden: int) -> tuple[int, int, int, int, int]:
        """The kernels' NORM."""
        blocks = 1 << (-(-hidden // self.units) - 1).bit_length()
        # fewer numbers than threads are loaded twice by the compiler, which waits for one copy and uses the other
        blocks = max(blocks, 32 * self.warps // (2 * self.rows))
        pairs = max(4, NORM_BYTES * 32 * self.warps // 8 // self.rows)
        return blocks, pairs, TOGETHER[kind], NORMS[kind], gate_rows(kind)


def gate_rows(kind: str) -> int:
    """Gates of a unit in a tile of the forward product: a power of two."""
    return 2 if kind == "gru_before" else (1, 1, 2, 4, 4)[GATES[kind]]


def weight_bytes(plan: Plan, kind: str, backward: bool, width: int) -> int:
    """The bytes of U that a program holds."""
    per_unit = GATES[kind] if backward else gate_rows(kind) + (kind == "gru_before")
    return per_unit * plan.units * plan.parts * plan.columns * plan.chunks * width


def shared_bytes(plan: Plan, kind: str, backward: bool, width: int) -> int:
    """The bytes of shared memory of a program: its weights, and data of a step or sums of its warps."""
    data = plan.group * plan.parts * plan.columns * plan.rows * width
    sums = plan.parts * plan.units * (1 if backward else gate_rows(kind)) * plan.rows * 4
    return weight_bytes(plan, kind, backward, width) + max(data, sums) + 2048


def _cut(kind: str, width: int, hidden: int, block: int, backward: bool) -> Plan:
    """The tiles for `block` rows a program."""
    short = hidden <= 256 or kind == "gru_before"  # few weights a wait, so that fewer warps have to meet
    warps = 4 if block <= 16 and (not backward or (block == 8 and short)) else 8
    parts = warps if backward or block <= 16 else 4
    columns = min((64, 32, 16), key=lambda size: (-(-hidden // (size * parts)) * size, -size))  # least padding
    if not backward and block * columns * width > 4096:
        columns = max(16, columns // 2)
    chunks = -(-hidden // (columns * parts))
    loaded = parts * columns * block * width // (32 * warps)  # bytes of a thread in a chunk
    watched = chunks if chunks > 1 or not backward else min(2, GATES[kind])
    group = watched if watched * loaded <= LOADED_BYTES else max(1, LOADED_BYTES * 2 // 3 // loaded)
    few = block <= 8 or (backward and block == 16 and chunks > 2)
    plan = Plan(16, block, parts, columns, chunks, group, True, warps)
    in_registers = few and weight_bytes(plan, kind, backward, width) <= HELD_BYTES * 32 * warps
    return Plan(16, block, parts, columns, chunks, group, in_registers, warps)


def plan_of(
    kind: str, dtype: torch.dtype, rows: int, hidden: int, directions: int, chip: Chip, backward: bool = False
) -> Plan | None:
    """The cut for `rows` rows of `hidden` units, or None where there is none."""
    for block in (8, 16, 32, 64, 128):
        plan = _cut(kind, dtype.itemsize, hidden, block, backward)
        fits = shared_bytes(plan, kind, backward, dtype.itemsize) <= chip.shared
        if fits and plan.programs(rows, hidden, directions) <= chip.processors:
            return plan
    return None
