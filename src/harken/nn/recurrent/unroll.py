"""A cell over all the steps of a sequence, by the first of `backends` that supports the call:

    triton     one persistent kernel for all steps on a GPU (`harken.kernels.recurrent.triton`)
    cpu        products with packed weights and gates compiled by numba (`harken.kernels.recurrent.cpu`)
    torch      torch's own fused loops: cuDNN on a GPU, ATen or oneDNN on a CPU (`harken.kernels.recurrent.cudnn`)
    masked     the reference over padded sequences, for a graph that is compiled once for all lengths
    loop       the reference over packed rows, which runs every call

Their rules were measured by `benchmarks/gpu_recurrent.py` and `benchmarks/cpu_recurrent.py --rule`
(`docs/benchmarks/gpu.md`). A call is data alone, and the references, which are below, call the cells of the stack that
they were made for. All others take plain cells alone (`Cell.is_plain`). `HARKEN_KERNELS=off` leaves torch's loops and
the references.

`masked` calls `cell.step` for one step after the other on padded rows and keeps the old state of rows that have ended.
`loop` computes the same on packed rows, so that rows that have ended take no part (`harken.kernels.recurrent.packing`),
and with one weight gradient for all steps (`harken.kernels.recurrent.deferred`). In both W x + b of all steps is one
product, and both can be differentiated any number of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from harken.kernels.backend import always
from harken.kernels.recurrent.call import Call, Direction, RecurrentBackend, Result
from harken.kernels.recurrent.cpu.operator import CPU
from harken.kernels.recurrent.cudnn import TORCH
from harken.kernels.recurrent.triton.backend import TRITON
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.regularization import zoneout
from harken.nn.recurrent.trace import DirectionTrace, Recurrence


def backends(cells: Sequence[Cell]) -> Iterator[RecurrentBackend]:
    """The backends of a stack of these cells, in order of preference; the references are made where they are needed."""
    yield from (TRITON, CPU, TORCH)
    yield masked(cells)
    yield loop(cells)


def masked(cells: Sequence[Cell]) -> RecurrentBackend:
    """The reference of a stack of these cells over padded rows."""
    return RecurrentBackend("masked", _why_not_masked, partial(run_padded, cells), is_kernel=False, takes_padded=True)


def loop(cells: Sequence[Cell]) -> RecurrentBackend:
    """The reference of a stack of these cells over packed rows, which runs every call."""
    return RecurrentBackend("loop", always, partial(run_packed, cells), is_kernel=False)


def _why_not_masked(call: Call) -> str | None:
    """A graph that is compiled once for all lengths must not read them."""
    if torch.compiler.is_compiling() and call.lengths is not None and not call.trace:
        return None
    return "packed rows are faster where lengths may be read"


def run_padded(cells: Sequence[Cell], call: Call) -> Result:
    """The directions of one layer over x (T, B, I), with lengths."""
    results = [unroll_padded(cells[each.cell], each, call) for each in call.directions]
    return Result(torch.cat([output for output, _ in results], -1), _stack([last for _, last in results]))


def unroll_padded(cell: Cell, direction: Direction, call: Call) -> tuple[Tensor, State]:
    """One direction over x (T, B, I): outputs (T, B, R), 0 behind the end of a row, and the state after its end."""
    x, lengths, noise = call.x, call.lengths, direction.noise
    state = call.start(direction, x.shape[1], x)
    inputs, products = cell.project_input(x), cell.products()
    outputs: dict[int, Tensor] = {}
    times = range(x.shape[0])
    for t in reversed(times) if direction.reverse else times:
        new = zoneout(noise, t, state, cell.step(inputs[t], state, products, noise.keep).state)
        if lengths is None:
            state, outputs[t] = new, new[0]
            continue
        running = (t < lengths)[:, None]  # (B, 1)
        state = tuple(torch.where(running, after, before) for before, after in zip(state, new, strict=True))
        outputs[t] = torch.where(running, state[0], 0.0)
    return torch.stack([outputs[t] for t in times]), state


def run_packed(cells: Sequence[Cell], call: Call) -> Result:
    """The directions of one layer over packed x (N, I)."""
    results = [unroll_packed(cells[each.cell], each, call) for each in call.directions]
    output = torch.cat([output for output, _, _ in results], -1) if len(results) > 1 else results[0][0]
    traces = [trace for _, _, trace in results if trace is not None]
    return Result(output, _stack([last for _, last, _ in results]), traces)


def unroll_packed(cell: Cell, direction: Direction, call: Call) -> tuple[Tensor, State, DirectionTrace | None]:
    """One direction over packed x (N, I) -> packed outputs (N, R), the last state (longest row first), the trace."""
    x, layout, noise = call.x, call.layout, direction.noise
    sizes = layout.batch_sizes
    inputs = cell.project_input(x).split(sizes)  # T tensors (rows, gates x H)
    products = cell.products(deferred=True)
    first = call.start(direction, layout.batch, x)
    outputs: list[Tensor] = []
    steps: list[dict[str, Tensor]] = []
    before: list[State] = []
    finished: list[State] = []
    state = tuple(part[:0] for part in first) if direction.reverse else first
    for t in range(len(sizes) - 1, -1, -1) if direction.reverse else range(len(sizes)):
        state = _resize(state, first, sizes[t], finished)
        step = cell.step(inputs[t], state, products, noise.mask(sizes[t]))
        if call.trace:
            before.append(state)
        state = zoneout(noise, t, state, step.state)
        outputs.append(state[0])
        if call.trace:
            steps.append({**step.gates, **dict(zip(("hidden", "cell"), state, strict=False))})
    if direction.reverse:
        outputs.reverse()
        steps.reverse()
        before.reverse()
    output, last = torch.cat(outputs), _last(state, finished, first)
    if not call.trace:
        return output, last, None
    by_name = {name: [step[name] for step in steps] for name in steps[0]}
    return output, last, DirectionTrace(by_name, layout, Recurrence(cell, inputs, before, noise, direction.reverse))


def _stack(states: list[State]) -> State:
    """States of the directions -> parts (directions, B, width)."""
    return tuple(torch.stack(parts) for parts in zip(*states, strict=True))


def _resize(state: State, first: State, rows: int, finished: list[State]) -> State:
    """The state of the rows that run now: some have ended (moved to `finished`), or some begin."""
    now = state[0].shape[0]
    if rows < now:
        finished.append(tuple(part[rows:] for part in state))
        return tuple(part[:rows] for part in state)
    if rows > now:
        return tuple(torch.cat((part, begin[now:rows])) for part, begin in zip(state, first, strict=True))
    return state


def _last(state: State, finished: list[State], first: State) -> State:
    """The last state of all rows: those still running, those that ended, those that never began."""
    pieces = [state, *reversed(finished)]
    covered = sum(piece[0].shape[0] for piece in pieces)
    if covered < first[0].shape[0]:
        pieces.append(tuple(part[covered:] for part in first))
    return state if len(pieces) == 1 else tuple(torch.cat(parts) for parts in zip(*pieces, strict=True))
