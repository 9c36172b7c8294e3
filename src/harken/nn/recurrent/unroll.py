"""A cell over all the steps of a sequence: the reference of every kernel, and the loop that runs where no kernel does.

`MASKED` calls `cell.step` for one step after the other on padded rows and keeps the old state of rows that have ended.
`LOOP` computes the same on packed rows, so that rows that have ended take no part (`harken.kernels.recurrent.packing`),
and with one weight gradient for all steps (`harken.kernels.recurrent.deferred`). In both W x + b of all steps is one
product, and both can be differentiated any number of times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.kernels.recurrent.call import Backend, Call, Direction, Result
from harken.kernels.recurrent.packing import Layout
from harken.nn.recurrent.cell import State
from harken.nn.recurrent.trace import DirectionTrace, Recurrence


def run_padded(call: Call) -> Result:
    """The directions of one layer over x (T, B, I), with lengths."""
    results = [unroll_padded(each, call.x, call.lengths) for each in call.directions]
    return Result(torch.cat([output for output, _ in results], -1), _stack([last for _, last in results]))


def unroll_padded(direction: Direction, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, State]:
    """One direction over x (T, B, I): outputs (T, B, R), 0 behind the end of a row, and the state after its end."""
    cell, noise, state = direction.cell, direction.noise, direction.start(x.shape[1], x)
    inputs, products = cell.project_input(x), cell.products()
    outputs: dict[int, Tensor] = {}
    times = range(x.shape[0])
    for t in reversed(times) if direction.reverse else times:
        new = noise.zone(t, state, cell.step(inputs[t], state, products, noise.keep).state)
        if lengths is None:
            state, outputs[t] = new, new[0]
            continue
        running = (t < lengths)[:, None]  # (B, 1)
        state = tuple(torch.where(running, after, before) for before, after in zip(state, new, strict=True))
        outputs[t] = torch.where(running, state[0], 0.0)
    return torch.stack([outputs[t] for t in times]), state


def run_packed(call: Call) -> Result:
    """The directions of one layer over packed x (N, I)."""
    results = [unroll_packed(each, call.x, call.layout, call.trace) for each in call.directions]
    output = torch.cat([output for output, _, _ in results], -1) if len(results) > 1 else results[0][0]
    traces = [trace for _, _, trace in results if trace is not None]
    return Result(output, _stack([last for _, last, _ in results]), traces)


def unroll_packed(
    direction: Direction, x: Tensor, layout: Layout, traced: bool
) -> tuple[Tensor, State, DirectionTrace | None]:
    """One direction over packed x (N, I) -> packed outputs (N, R), the last state (longest row first), the trace."""
    cell, noise, sizes = direction.cell, direction.noise, layout.batch_sizes
    inputs = cell.project_input(x).split(sizes)  # T tensors (rows, gates x H)
    products = cell.products(deferred=True)
    first = direction.start(layout.batch, x)
    outputs: list[Tensor] = []
    steps: list[dict[str, Tensor]] = []
    before: list[State] = []
    finished: list[State] = []
    state = tuple(part[:0] for part in first) if direction.reverse else first
    for t in range(len(sizes) - 1, -1, -1) if direction.reverse else range(len(sizes)):
        state = _resize(state, first, sizes[t], finished)
        step = cell.step(inputs[t], state, products, noise.mask(sizes[t]))
        if traced:
            before.append(state)
        state = noise.zone(t, state, step.state)
        outputs.append(state[0])
        if traced:
            steps.append({**step.gates, **dict(zip(("hidden", "cell"), state, strict=False))})
    if direction.reverse:
        outputs.reverse()
        steps.reverse()
        before.reverse()
    output, last = torch.cat(outputs), _last(state, finished, first)
    if not traced:
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


def _reads_no_lengths(call: Call) -> bool:
    """A graph that is compiled once for all lengths must not read them."""
    return torch.compiler.is_compiling() and call.lengths is not None and not call.trace


MASKED = Backend("masked", _reads_no_lengths, run_padded, is_kernel=False, takes_padded=True)
LOOP = Backend("loop", lambda call: True, run_packed, is_kernel=False)
