"""Self-attention costs O(n^2) in length.

projections   Q, K, V and the output      8 n D^2 operations (a product and a sum are two)
attention     Q K^T and weights V         4 n^2 D
an LSTM       eight matrices a step      16 n D^2;  a vanilla RNN has two, 4 n D^2

So the square is there from the first word and rules from about n = 2 D on. Vaswani et al. (2017), table 1, compares
n^2 D with n D^2 and leaves the projections out.

Operations are counted by torch on the reference, which materialises the weights (`SelfAttention.with_weights`). Time is
that of the fast path (`SelfAttention.forward`, which never does) and of harken's RNN and LSTM. Memory is what a forward
pass keeps for the backward one, both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from harken.inspection.figure import Figure, Lines, Series
from harken.lab.experiment import Experiment, Findings, Part, Progress, Settings, grade
from harken.lab.helpers import crossing, exponent, seconds
from harken.lab.pool import one_thread
from harken.nn import LSTM, RNN, SelfAttention

WIDTH, HEADS = 64, 4
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
LAYERS = ("attention", "RNN", "LSTM")

QUADRATIC = (1.9, 2.1)  # the exponent of the operations of attention itself, over all lengths
MOSTLY = 1.5  # the exponent of the time and of the operations of a whole layer, over the last two doublings, is above
LINEAR = 1.2  # and those of RNN and LSTM are below
LAST = 3  # points that make the last two doublings


def operations(layer: str, length: int) -> dict[str, int]:
    """Counted in one forward pass of the reference: all, and those of attention itself (products of sequences)."""
    with FlopCounterMode(display=False) as counter:
        values = torch.empty(1, length, WIDTH, device="meta")  # shapes are enough to count
        if layer == "attention":
            SelfAttention(WIDTH, HEADS).to("meta").with_weights(values, None, False)
        else:
            {"RNN": RNN, "LSTM": LSTM}[layer](WIDTH, WIDTH, batch_first=True, device="meta").reference(values)
    counts = counter.get_flop_counts()["Global"]
    batched = sum(count for kind, count in counts.items() if "bmm" in str(kind))
    return {"all": counter.get_total_flops(), "attention": batched}


def saved_bytes(forward: Callable[[Tensor], Any], length: int) -> int:
    """Bytes a forward pass keeps for the backward one, without the parameters; what is shared counts once."""
    values = torch.randn(1, length, WIDTH, requires_grad=True)
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter) and not isinstance(tensor._base, torch.nn.Parameter):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward(values)
    del result  # alive until here, so that no memory was used twice
    return sum(storages.values())


def measure(length: int, budget: float, seed: int) -> dict[str, Any]:
    """Operations, seconds and bytes of every layer at one length."""
    torch.manual_seed(seed)
    attention = SelfAttention(WIDTH, HEADS)
    recurrent = {"RNN": RNN(WIDTH, WIDTH, batch_first=True), "LSTM": LSTM(WIDTH, WIDTH, batch_first=True)}
    values = torch.randn(1, length, WIDTH)
    with torch.no_grad():
        time = {"attention": seconds(lambda: attention(values), budget)}
        for name, layer in recurrent.items():
            time[name] = seconds(lambda layer=layer: layer(values), budget)  # type: ignore[misc]
    memory = {
        "attention, reference": saved_bytes(lambda x: attention.with_weights(x, None, False), length),
        "attention, fast": saved_bytes(attention, length),
        "LSTM, reference": saved_bytes(recurrent["LSTM"].reference, length),
    }
    return {"operations": {name: operations(name, length) for name in LAYERS}, "seconds": time, "bytes": memory}


def growth(costs: dict[int, dict[str, Any]]) -> dict[str, float]:
    """The exponents the rule asks for."""
    lengths = sorted(costs)
    late = lengths[-LAST:]
    inner = [costs[n]["operations"]["attention"]["attention"] for n in lengths]
    exponents = {"attention itself": exponent(lengths, inner)}
    for name in LAYERS:
        exponents[f"operations, {name}"] = exponent(late, [costs[n]["operations"][name]["all"] for n in late])
        exponents[f"time, {name}"] = exponent(late, [costs[n]["seconds"][name] for n in late])
    for name in costs[lengths[0]]["bytes"]:
        exponents[f"memory, {name}"] = exponent(late, [costs[n]["bytes"][name] for n in late])
    return exponents


def judge(exponents: dict[str, float], crossings: dict[str, float | None]) -> tuple[bool | None, str]:
    """Exponents of `growth`; where attention begins to cost more than an RNN or LSTM."""
    counted = QUADRATIC[0] <= exponents["attention itself"] <= QUADRATIC[1]
    counted &= exponents["operations, attention"] > MOSTLY
    counted &= max(exponents["operations, RNN"], exponents["operations, LSTM"]) < LINEAR
    timed = exponents["time, attention"] > MOSTLY and max(exponents["time, RNN"], exponents["time, LSTM"]) < LINEAR

    def where(name: str) -> str:
        return "nowhere measured" if crossings[name] is None else f"n = {crossings[name]:.0f}"

    verdict = (
        f"operations of attention itself grow as n^{exponents['attention itself']:.2f}, of the whole layer at the "
        f"longest as n^{exponents['operations, attention']:.2f} and its time as n^{exponents['time, attention']:.2f} "
        f"(LSTM: n^{exponents['operations, LSTM']:.2f}, n^{exponents['time, LSTM']:.2f}); memory as "
        f"n^{exponents['memory, attention, reference']:.2f} where weights are materialised and "
        f"n^{exponents['memory, attention, fast']:.2f} where not; more expensive than an LSTM of equal width "
        f"({WIDTH}) from {where('operations, LSTM')} in operations and {where('time, LSTM')} in time"
    )
    return grade(counted and timed, counted), verdict


def run(settings: Settings, progress: Progress) -> Findings:
    """One length after the other, on one thread, one at a time."""
    lengths = LENGTHS[:4] if settings.quick else LENGTHS
    costs = {}
    with one_thread():
        for done, length in enumerate(lengths):
            costs[length] = measure(length, 0.02 if settings.quick else 1.5, settings.seed)
            progress((done + 1) / len(lengths), f"length {length}")
    exponents = growth(costs)
    curves = {f"{what}, {name}": _curve(costs, what, name) for what in ("operations", "time") for name in LAYERS}
    crossings = {
        f"{what}, {name}": crossing(lengths, curves[f"{what}, attention"], curves[f"{what}, {name}"])
        for what in ("operations", "time")
        for name in ("RNN", "LSTM")
    }
    holds, verdict = judge(exponents, crossings)
    columns = ["n", *(f"Mflop {name}" for name in LAYERS), *(f"ms {name}" for name in LAYERS)]
    columns += ["MiB attention, reference", "fast", "MiB LSTM"]
    rows: list[list[Any]] = [
        [n, *(curves[f"operations, {name}"][at] / 1e6 for name in LAYERS)]
        + [1e3 * curves[f"time, {name}"][at] for name in LAYERS]
        + [size / 2**20 for size in costs[n]["bytes"].values()]
        for at, n in enumerate(lengths)
    ]
    growing = ["grows as n^…", *(exponents[f"{what}, {name}"] for what in ("operations", "time") for name in LAYERS)]
    rows.append([*growing, *(exponents[f"memory, {name}"] for name in costs[lengths[0]]["bytes"])])
    measured = {"width": WIDTH, "found": costs, "exponents": exponents, "crossings": crossings}
    return Findings(columns, rows, holds, verdict, _figure(costs, curves), measured)


def _curve(costs: dict[int, dict[str, Any]], what: str, name: str) -> list[float]:
    if what == "operations":
        return [costs[n]["operations"][name]["all"] for n in costs]
    return [costs[n]["seconds"][name] for n in costs]


def _figure(costs: dict[int, dict[str, Any]], curves: dict[str, list[float]]) -> Figure:
    lengths = list(costs)
    inner = [costs[n]["operations"]["attention"]["attention"] / 1e6 for n in lengths]
    axes: dict[str, Any] = {"log_x": True, "log_y": True}
    count = [Series(name, lengths, [y / 1e6 for y in curves[f"operations, {name}"]]) for name in LAYERS]
    count.append(Series("itself, 4 n² D", lengths, inner, dashed=True, colour=0))
    clock = [Series(name, lengths, [1e3 * y for y in curves[f"time, {name}"]]) for name in LAYERS]
    names = list(costs[lengths[0]]["bytes"])
    memory = [
        Series(name, lengths, [costs[n]["bytes"][name] / 2**20 for n in lengths], dashed="fast" in name, colour=colour)
        for name, colour in zip(names, (0, 0, 2), strict=True)
    ]
    panels = [
        Lines("Operations, counted", "length n", "million operations", count, **axes),
        Lines("Time, one thread", "length n", "milliseconds, forward", clock, **axes),
        Lines("Memory kept for the backward pass", "length n", "MiB", memory, **axes),
    ]
    note = f"One layer of width {WIDTH}, {HEADS} heads, one sequence at a time."
    return Figure("What self-attention costs as a sequence grows", panels, note)


EXPERIMENT = Experiment(
    name="quadratic",
    statement="Self-attention costs O(n²) in length.",
    shows="operations, time and memory of self-attention against length, and where an RNN becomes cheaper",
    run=run,
    parts=(
        Part("arithmetic", "the operations of attention itself are 4 n² D: they are counted"),
        Part("empirical", "time and memory follow from about n = 2 D on"),
    ),
)
