"""Operations that must wait for each other grow with length in an RNN and not in self-attention; any two words are
O(1) apart under attention and O(n) under recurrence.

chain   the longest way through the graph of a forward pass, in operations: what no number of cores makes shorter
hops    how many rounds it takes until the last output depends on the first input, where in each round all places
        move at once: a layer of attention or convolution, or one step of a recurrent cell

The chain is walked in autograd's graph of the reference. A hop is seen through gradients: an input and an output are
connected when d output / d input is not exactly 0. Vaswani et al. (2017), table 1; ByteNet's dilated convolutions:
Kalchbrenner et al. (2016). Convolutions are stacked until they connect everything, three words wide, plain or with a
dilation that doubles.

Time is measured as well, on one thread, where a short chain helps little: work that may run at the same time does not.

>>> x = torch.ones(2, requires_grad=True)
>>> longest_chain(x.exp().exp().view(2, 1) + x)  # exp, exp, sum
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from harken.inspection.figure import Figure, Lines, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, grade
from harken.lab.helpers import exponent, seconds
from harken.lab.pool import one_thread
from harken.nn import LSTM, RNN, LSTMCell, RNNCell, SelfAttention

WIDTH = 16
LENGTHS = (4, 8, 16, 32, 64, 128)
TIMED = (64, 128, 256, 512, 1024)
TIMED_WIDTH = 64
KINDS = ("RNN", "LSTM", "self-attention", "convolution", "dilated convolution")

GROWS = 0.9  # the exponent of chain and hops against length, RNN and LSTM, is above this
FLAT = 0.05  # and that of self-attention is below this
VIEWS = {"Expand", "Permute", "Select", "Slice", "Split", "Squeeze", "T", "Transpose", "Unbind", "Unsqueeze", "View"}


def longest_chain(output: Tensor) -> int:
    """Operations on the longest way from `output` back to any input, in autograd's graph; views compute nothing."""
    depth: dict[Any, int] = {}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]  # type: ignore[union-attr]
        missing = [parent for parent in before if parent not in depth]
        if missing:
            waiting.extend(missing)
            continue
        name = waiting.pop().name().partition("Backward")[0]  # type: ignore[union-attr]
        computes = bool(before) and name not in VIEWS  # nothing comes before a leaf, where gradients are gathered
        depth[node] = computes + max((depth[parent] for parent in before), default=0)
    return depth[output.grad_fn]


def rounds(kind: str, values: Tensor) -> Iterator[Tensor]:
    """(T, D) -> outputs (T, D) after one round, two, ... in which all places move at once."""
    length, width = values.shape
    if kind in ("RNN", "LSTM"):
        cell = (RNNCell if kind == "RNN" else LSTMCell)(width, width).double()
        state: Any = values.new_zeros(2, length, width)
        while True:
            before = nn.functional.pad(state, (0, 0, 1, 0))[:, :-1]  # every place has the state of the one on its left
            state = cell(values, before[0])[None] if kind == "RNN" else torch.stack(cell(values, tuple(before)))
            yield state[0]
    reach = 1
    while True:
        if kind == "self-attention":
            values = SelfAttention(width, 1).double()(values[None])[0]
        else:
            step = reach if kind == "dilated convolution" else 1
            layer = nn.Conv1d(width, width, 3, padding=step, dilation=step).double()
            values = layer(values.t()[None])[0].t()
            reach *= 2
        yield values


def hops(kind: str, length: int, seed: int) -> int:
    """Rounds until the last output depends on the first input."""
    torch.manual_seed(seed)
    values = torch.randn(length, WIDTH, dtype=torch.float64, requires_grad=True)
    for count, outputs in enumerate(rounds(kind, values), start=1):
        (gradient,) = torch.autograd.grad(outputs[-1].sum(), values, retain_graph=True)
        if bool(gradient[0].any()):
            return count
    raise AssertionError("rounds never end")


def chain(kind: str, length: int, layers: int) -> int:
    """The longest chain in what connects all words: one layer of an RNN, or `layers` of the others."""
    values = torch.randn(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    if kind in ("RNN", "LSTM"):
        layer = {"RNN": RNN, "LSTM": LSTM}[kind](WIDTH, WIDTH, batch_first=True, dtype=torch.float64, orthogonal=True)
        return longest_chain(layer.reference(values)[0])
    if kind == "self-attention":
        for _ in range(layers):
            values, _ = SelfAttention(WIDTH, 1).double().with_weights(values, None, False)
        return longest_chain(values)
    outputs = rounds(kind, values[0])
    return longest_chain([next(outputs) for _ in range(layers)][-1])


def timed(length: int, budget: float, seed: int) -> dict[str, float]:
    """Seconds of one thread for one layer over one sequence."""
    torch.manual_seed(seed)
    convolution = nn.Conv1d(TIMED_WIDTH, TIMED_WIDTH, 3, padding=1)
    layers: dict[str, Callable[[Tensor], Any]] = {
        "RNN": RNN(TIMED_WIDTH, TIMED_WIDTH, batch_first=True),
        "LSTM": LSTM(TIMED_WIDTH, TIMED_WIDTH, batch_first=True),
        "self-attention": SelfAttention(TIMED_WIDTH, 4),
        "convolution": lambda values: convolution(values.transpose(1, 2)),
    }
    values = torch.randn(1, length, TIMED_WIDTH)
    with torch.no_grad():
        return {kind: seconds(lambda layer=layer: layer(values), budget) for kind, layer in layers.items()}  # type: ignore[misc]


def judge(chains: dict[str, dict[int, int]], apart: dict[str, dict[int, int]]) -> tuple[bool | None, str]:
    """Kind -> length -> operations in the longest chain; kind -> length -> hops."""
    grows = {
        kind: (
            exponent(list(chains[kind]), list(chains[kind].values())),
            exponent(list(apart[kind]), list(apart[kind].values())),
        )
        for kind in ("RNN", "LSTM", "self-attention")
    }
    recurrent = all(min(grows[kind]) > GROWS for kind in ("RNN", "LSTM"))
    flat = max(grows["self-attention"]) < FLAT
    longest = max(chains["RNN"])

    def both(kind: str) -> str:
        powers = "n^{:.2f} and n^{:.2f}".format(*grows[kind])
        return f"{kind} {chains[kind][longest]:,} and {apart[kind][longest]:,} (as {powers})"

    verdict = (
        f"longest chain of operations and hops between the ends of {longest} words: {both('RNN')}, {both('LSTM')}, "
        f"{both('self-attention')}; convolutions of 3 words need {apart['convolution'][longest]} layers, dilated ones "
        f"{apart['dilated convolution'][longest]}"
    )
    return grade(recurrent and flat, recurrent or flat), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """Hops first: they say how many layers the chains need."""
    lengths, clock = (LENGTHS[:4], TIMED[:2]) if settings.quick else (LENGTHS, TIMED)
    apart = {kind: {n: hops(kind, n, settings.seed) for n in lengths} for kind in KINDS}
    progress(0.4, "hops")
    chains = {kind: {n: chain(kind, n, apart[kind][n]) for n in lengths} for kind in KINDS}
    progress(0.5, "chains")
    times = {}
    with one_thread():
        for done, length in enumerate(clock, start=1):
            times[length] = timed(length, 0.01 if settings.quick else 1.5, settings.seed)
            progress(0.5 + 0.5 * done / len(clock), f"time at length {length}")
    holds, verdict = judge(chains, apart)
    columns = ["what", "n", *KINDS]
    rows: list[list[Any]] = [["chain, operations", n, *(chains[kind][n] for kind in KINDS)] for n in lengths]
    rows += [["hops", n, *(apart[kind][n] for kind in KINDS)] for n in lengths]
    rows += [
        ["milliseconds, one layer", n, *(1e3 * times[n][kind] if kind in times[n] else "" for kind in KINDS)]
        for n in clock
    ]
    axes: dict[str, Any] = {"log_x": True, "log_y": True}
    clocked = [Series(kind, clock, [1e3 * times[n][kind] for n in clock]) for kind in KINDS if kind in times[clock[0]]]
    panels = [
        Lines("Operations that wait for each other", "length n", "longest chain", _series(chains), **axes),
        Lines("From the first word to the last", "length n", "hops", _series(apart), **axes),
        Lines("Time of one layer, one thread", "length n", "milliseconds, forward", clocked, **axes),
    ]
    note = f"Width {WIDTH}; convolutions of 3 words, as many layers as connect all. Time: one of width {TIMED_WIDTH}."
    figure = Figure("What has to wait, and how far apart words are", panels, note)
    measured = {"chains": chains, "hops": apart, "seconds": times}
    return Findings(columns, rows, holds, verdict, figure, measured)


def _series(counts: dict[str, dict[int, int]]) -> list[Series]:
    return [Series(kind, list(by), list(by.values()), dashed=kind == "LSTM") for kind, by in counts.items()]


EXPERIMENT = Experiment(
    name="path-length",
    statement="The number of operations that cannot run in parallel grows with length for an RNN and not for "
    "self-attention; any two words are O(1) apart under attention and O(n) under recurrence.",
    shows="the longest chain of operations and the way between two words, against length, for four kinds of layer",
    run=run,
    parts=(
        Part(
            "arithmetic",
            "chain and hops, which are counted, grow with n under recurrence and are constant under attention",
        ),
        Part("empirical", "the time of one layer on one thread, where a short chain helps little"),
    ),
    changes=("2026-11-19: views such as transpositions, which compute nothing, are no operations; before, they were",),
)
