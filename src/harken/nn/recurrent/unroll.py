"""A cell over all the steps of a sequence: the definition, and the fast way.

`unroll_by_definition` asks the cell for one step after the other and keeps the old state of rows that have ended.
`unroll` gives the same numbers: W x for all steps is one product, the weight gradients of all steps are one product
(`harken.kernels.recurrent.deferred`), and rows that have ended take no part (`harken.nn.recurrent.packing`). The fast
way can be differentiated once, the definition as often as one likes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.packing import Layout
from harken.nn.recurrent.regularization import Noise
from harken.nn.recurrent.trace import DirectionTrace, Recurrence


def unroll_by_definition(
    cell: Cell, values: Tensor, running: Tensor, state: State, noise: Noise, reverse: bool, at_once: bool = False
) -> tuple[Tensor, State]:
    """x (B, T, I), running (B, T) True where a row has a step, (B, H) a part of the state -> (B, T, R), last state.

    `at_once` makes W x of all steps in one product, for a graph that is compiled.
    """
    inputs = cell.from_input(values) if at_once else values
    outputs: dict[int, Tensor] = {}
    steps = range(values.shape[1])
    for time in reversed(steps) if reverse else steps:
        from_input = inputs[:, time] if at_once else cell.from_input(values[:, time])
        new = cell.step(from_input, state, cell.products(), noise.keep).state
        new = tuple(noise.zone(part, time, *pair) for part, pair in enumerate(zip(state, new, strict=True)))
        goes_on = running[:, time, None]
        state = tuple(torch.where(goes_on, after, before) for before, after in zip(state, new, strict=True))
        outputs[time] = torch.where(goes_on, state[0], 0.0)
    return torch.stack([outputs[time] for time in steps], 1), state


def unroll(
    cell: Cell, values: Tensor, layout: Layout, first: State, noise: Noise, reverse: bool, traced: bool
) -> tuple[Tensor, State, DirectionTrace | None]:
    """Packed x (N, I), first state (parts (B, H), longest row first) -> packed (N, R), last state, what was traced."""
    count = len(layout.sizes)
    inputs = cell.from_input(values).split(layout.sizes)
    products = cell.products(deferred=torch.is_grad_enabled() and not torch.compiler.is_compiling())
    outputs: list[Tensor] = []
    made: list[dict[str, Tensor]] = []
    before: list[State] = []
    finished: list[State] = []
    state = tuple(part[:0] for part in first) if reverse else first
    for time in range(count - 1, -1, -1) if reverse else range(count):
        state = _resize(state, first, layout.sizes[time], finished)
        if traced:
            before.append(state)
        step = cell.step(inputs[time], state, products, noise.mask(layout.sizes[time]))
        state = tuple(noise.zone(part, time, *pair) for part, pair in enumerate(zip(state, step.state, strict=True)))
        outputs.append(state[0])
        if traced:
            words = ("hidden", "cell")[: len(state)]
            made.append({**step.gates, **dict(zip(words, state, strict=True))})
    if reverse:
        outputs.reverse()
        made.reverse()
        before.reverse()
    if not traced:
        return torch.cat(outputs), _last(state, finished, first), None
    steps = {word: [step[word] for step in made] for word in made[0]}
    trace = DirectionTrace(steps, layout, Recurrence(cell, inputs, before, noise, reverse))
    return torch.cat(outputs), _last(state, finished, first), trace


def _resize(state: State, first: State, rows: int, finished: list[State]) -> State:
    """The state of the rows that run now: some have ended (put away in `finished`), or some begin."""
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
