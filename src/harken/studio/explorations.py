"""Claims with sliders: the measurement behind a claim, for values that the reader chooses, in a second or two.

The functions are those of `harken.lab.claims`; only their arguments are free here. The claim itself is judged by the
whole experiment, at the sizes its thresholds were written for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch

from harken.errors import UserError
from harken.inspection.figure import Bars, Figure, Lines, Mark, Series
from harken.inspection.figure.spec import Group
from harken.lab.pool import one_thread
from harken.studio.figures import figures_json

Values = Mapping[str, Any]


class Table(NamedTuple):
    """Rows below a figure."""

    columns: list[str]
    rows: list[list[str]]


Drawn = tuple[Figure, str] | tuple[Figure, str, Table]  # and what the numbers say, in a sentence


@dataclass(frozen=True)
class Slider:
    """A number that the reader chooses, or one of some names."""

    key: str
    label: str
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    value: float | str = 0.0
    choices: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # key and value of another one, which is set where this one is moved

    def read(self, given: Any) -> Any:
        """A given value within the limits; the default where it is none.

        >>> Slider("s", "s", 0.5, 2.0, 0.1, 1.0).read(99), Slider("d", "d", 1, 9, 1, 3).read("x")
        (2.0, 3)
        """
        if self.choices:
            return given if given in self.choices else self.value
        try:
            number = min(max(float(given), self.low), self.high)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            number = float(self.value)
        return round(number) if self.step >= 1 else number


@dataclass(frozen=True)
class Exploration:
    """Sliders and the figure they change."""

    sliders: tuple[Slider, ...]
    draw: Callable[[Values, int], Drawn]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"sliders": [asdict(slider) for slider in self.sliders]}


Draw = Callable[[Values, int], Drawn]
EXPLORATIONS: dict[str, Exploration] = {}  # those of claims, by the names of these


def exploration(name: str, *sliders: Slider, among: dict[str, Exploration] = EXPLORATIONS) -> Callable[[Draw], Draw]:
    """A decorator that makes a function of chosen values and a seed the exploration of a name."""

    def register(draw: Draw) -> Draw:
        among[name] = Exploration(sliders, draw)
        return draw

    return register


def explore(name: str, given: Values, seed: int = 1, among: Mapping[str, Exploration] = EXPLORATIONS) -> dict[str, Any]:
    """The figure of a claim, or of another of some explorations, for chosen values.

    Raises:
        UserError: it has no sliders.
    """
    chosen = among.get(name)
    if chosen is None:
        raise UserError(f"{name} has no sliders; those that have: {', '.join(among)}")
    values = {slider.key: slider.read(given.get(slider.key, slider.value)) for slider in chosen.sliders}
    with one_thread():  # a second one slows small networks down
        figure, sentence, *table = chosen.draw(values, seed)
    drawn = {"values": values, "said": sentence, "figures": figures_json([figure])}
    return drawn | {"table": table[0]._asdict() if table else None}


NETWORKS = {"no input": "quiet", "random inputs": "driven", "random matrix": "gaussian", "after training": "trained"}


@exploration(
    "vanishing",
    Slider("s", "Largest singular value s", 0.5, 2.0, 0.05, 0.9),
    Slider("width", "Units", 4, 128, 4, 32),
    Slider("network", "Network", value="no input", choices=tuple(NETWORKS)),
)
def _vanishing(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.vanishing import DISTANCE, EXPLODED, VANISHED, gradient_lengths

    size, width, weights = values["s"], values["width"], NETWORKS[values["network"]]
    measured = gradient_lengths(weights, size, width, 8, 20, seed)
    bound = [size**distance for distance in range(DISTANCE + 1)]
    series = [
        Series("measured", range(DISTANCE + 1), measured["lengths"]),
        Series("s^distance", range(DISTANCE + 1), bound, dashed=True, colour=7),
    ]
    panel = Lines(
        "", "steps back from the loss", "|dL/dh|, relative", series, log_y=True, dots=False, marks=[Mark(1, "")]
    )
    last = measured["lengths"][-1]
    fate = "vanishes" if last < VANISHED else "explodes" if last > EXPLODED else "stays"
    largest = measured["largest"]
    sentence = f"After {DISTANCE} steps {last:.2g} of the gradient is left, so it {fate}; s is {largest:.3g}."
    return Figure("", [panel], f"Vanilla tanh RNN, {width} units, 8 sequences."), sentence


@exploration(
    "clipping",
    Slider("scale", "Scale of the recurrent weights", 0.8, 3.0, 0.1, 2.0),
    Slider("clip", "Clip at", 0.1, 5.0, 0.1, 1.0),
)
def _clipping(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.clipping import CHANCE, train

    limits = {"no clipping": math.inf, f"clipped at {values['clip']:g}": values["clip"]}
    runs = {name: train(values["scale"], limit, 64, 120, 16, seed) for name, limit in limits.items()}
    losses = [Series(name, range(len(run["losses"])), run["losses"]) for name, run in runs.items()]
    norms = [Series(name, range(len(run["lengths"])), run["lengths"]) for name, run in runs.items()]
    panels = [
        Lines("", "update", "loss", losses, log_y=True, dots=False, marks=[Mark(CHANCE, "guessing")]),
        Lines("", "update", "norm of the gradient, before clipping", norms, log_y=True, dots=False),
    ]
    ends = "; ".join(
        f"{name}: loss {run['losses'][-1]:.3g} after {len(run['losses'])} updates" for name, run in runs.items()
    )
    return Figure("", panels, "Vanilla RNN, 64 units, echo of 3 steps, SGD."), f"{ends}."


@exploration("cell-memory", Slider("bias", "Forget bias", -2.0, 8.0, 0.25, 3.0))
def _cell_memory(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.cell_memory import keeper, predicted_half_life

    steps, bias = 300, values["bias"]
    torch.manual_seed(seed)
    layer = keeper(1, torch.tensor([bias])).double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "weight" in name:  # f is sigmoid(b) alone
                parameter[1:2] = 0.0
        first = torch.ones(1, 1, 1, dtype=torch.float64)
        _, _, trace = layer(torch.randn(1, steps, 4, dtype=torch.float64), (torch.zeros_like(first), first), trace=True)
    shares = [1.0, *trace[0].cell[0, :, 0].tolist()]
    life = predicted_half_life(bias)
    series = [Series("share of C_0 in C_t", range(steps + 1), shares)]
    panel = Lines(
        "", "step", "share of the first cell state", series, dots=False, y_limits=(0, 1.02), marks=[Mark(0.5, "")]
    )
    forget = 1 / (1 + math.exp(-bias))
    return Figure(
        "", [panel], "An LSTM with its input gate shut."
    ), f"f = {forget:.4f}: half is left after {life:.3g} steps."


@exploration("long-memory", Slider("delay", "Delay", 2, 60, 1, 10), Slider("updates", "Updates", 20, 300, 20, 100))
def _long_memory(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.long_memory import accuracies

    delay, updates = values["delay"], values["updates"]
    asked = sorted({max(1, delay // 2), delay, 2 * delay})
    kinds = ("RNN, orthogonal", "LSTM, forget bias 5")
    shares_right = {kind: accuracies(kind, 32, delay, delay, asked, updates, seed) for kind in kinds}
    groups = [Group(kind, shares) for kind, shares in shares_right.items()]
    panel = Bars(
        "",
        "delay asked",
        "share right",
        list(map(str, asked)),
        groups,
        y_limits=(0, 1.05),
        marks=[Mark(0.25, "guessing")],
    )
    index = asked.index(delay)
    sentence = "; ".join(f"{kind}: {shares[index]:.0%} right at {delay} steps" for kind, shares in shares_right.items())
    return Figure("", [panel], f"Trained on one delay, {updates} updates."), f"{sentence}."


@exploration("saturation", Slider("width", "Width of a head", 4, 1024, 1, 256))
def _saturation(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.saturation import KEYS, SCORES, WORDS, random_weights

    widths = [2**power for power in range(1, int(math.log2(values["width"])) + 1)]
    measured = {kind: [random_weights(kind, width, 64, seed) for width in widths] for kind in SCORES}
    panels = [
        Lines(
            "",
            "width of queries and keys",
            title,
            [Series(WORDS[kind], widths, [row[what] for row in rows]) for kind, rows in measured.items()],
            log_x=True,
            y_limits=limits,
        )
        for what, title, limits in (
            ("largest", "mean largest weight", (0.0, 1.0)),
            ("gradient", "mean |gradient| of the scores", None),
        )
    ]
    plain, scaled = (measured[kind][-1]["largest"] for kind in ("dot", "scaled"))
    sentence = (
        f"At width {widths[-1]} the largest of {KEYS} weights is {plain:.2f} undivided and {scaled:.2f} divided by √d."
    )
    return Figure("", panels, f"Random queries and keys of unit variance, {KEYS} keys."), sentence


@exploration("path-length", Slider("length", "Words", 4, 64, 4, 32))
def _path_length(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.path_length import KINDS, hops

    length = values["length"]
    rounds = {kind: hops(kind, length, seed) for kind in KINDS}
    panel = Bars("", "", "rounds", list(rounds), [Group("", list(rounds.values()))], log_y=True)
    sentence = "; ".join(f"{kind} {count}" for kind, count in rounds.items())
    return Figure("", [panel]), f"Rounds until the last of {length} outputs depends on the first input: {sentence}."


@exploration(
    "deep-stacks",
    Slider("depth", "Layers", 2, 16, 1, 8),
    Slider("cell", "Cell", value="LSTM", choices=("LSTM", "vanilla RNN")),
)
def _deep_stacks(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.deep_stacks import KINDS, signal_at_the_top

    depths = list(range(1, values["depth"] + 1))
    signals = {kind: [signal_at_the_top(values["cell"], kind, depth, seed) for depth in depths] for kind in KINDS}
    panel = Lines(
        "",
        "layers",
        "signal at the top, relative",
        [Series(kind, depths, shares) for kind, shares in signals.items()],
        log_y=True,
    )
    sentence = "; ".join(f"{kind} {shares[-1]:.2g}" for kind, shares in signals.items())
    return Figure(
        "", [panel], "Before training: how much outputs differ between sequences."
    ), f"With {depths[-1]} layers: {sentence}."


@exploration(
    "averaging",
    Slider("depth", "Layers", 1, 16, 1, 8),
    Slider("width", "Width", 16, 128, 16, 32),
    Slider("tokens", "Tokens", 2, 32, 1, 12),
)
def _averaging(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.averaging import STACKS, likeness

    depth, width = values["depth"], values["width"]
    curves = {kind: likeness(kind, depth, width, values["tokens"], 4, seed) for kind in STACKS}
    panel = Lines(
        "",
        "layer",
        "difference between tokens, relative",
        [Series(kind, range(depth + 1), curve) for kind, curve in curves.items()],
        log_y=True,
        dots=False,
    )
    sentence = "; ".join(f"{kind} {curve[-1]:.2g}" for kind, curve in curves.items())
    return Figure(
        "", [panel], f"Untrained stacks, width {width}."
    ), f"What is left of the differences after {depth} layers: {sentence}."


@exploration(
    "quadratic",
    Slider("length", "Words", 64, 1024, 64, 512),
    Slider("width", "Width", 32, 256, 32, 64),
    Slider("heads", "Heads", value="4", choices=("1", "2", "4", "8", "16", "32")),
)
def _quadratic(values: Values, seed: int) -> Drawn:
    from torch.utils.flop_counter import FlopCounterMode

    from harken.nn import LSTM
    from harken.nn.attention.multihead import SelfAttention

    width, heads = values["width"], int(values["heads"])
    lengths = [2**power for power in range(4, int(math.log2(values["length"])) + 1)]
    operations: dict[str, list[float]] = {"self-attention": [], "of that, products of sequences": [], "LSTM": []}
    with FlopCounterMode(display=False) as counter:
        LSTM(width, width, batch_first=True, device="meta").reference(torch.empty(1, 4, width, device="meta"))
    operations["LSTM"] = [counter.get_total_flops() / 4 * length for length in lengths]  # every step does the same
    for length in lengths:
        words = torch.empty(1, length, width, device="meta")  # shapes are enough to count
        with FlopCounterMode(display=False) as counter:
            SelfAttention(width, heads).to("meta").with_weights(words, None, False)
        counts = counter.get_flop_counts()["Global"]
        operations["self-attention"].append(counter.get_total_flops())
        operations["of that, products of sequences"].append(sum(n for kind, n in counts.items() if "bmm" in str(kind)))
    series = [Series(name, lengths, counts) for name, counts in operations.items()]
    panel = Lines("", "words", "multiplications and additions", series, log_x=True, log_y=True)
    ratio = operations["self-attention"][-1] / operations["LSTM"][-1]
    sentence = (
        f"At {lengths[-1]} words self-attention needs {ratio:.2g} times the operations of an LSTM, whatever its heads."
    )
    return Figure("", [panel], f"One layer of width {width}, {heads} heads, counted in a forward pass."), sentence


@exploration("both-ways", Slider("units", "Units", 4, 24, 4, 16), Slider("updates", "Updates", 20, 400, 20, 200))
def _both_ways(values: Values, seed: int) -> Drawn:
    from harken.lab.claims.both_ways import DIRECTIONS, OFFSETS, train

    right = {kind: train(kind, values["units"], values["updates"], 800, seed)["right"] for kind in DIRECTIONS}
    series = [Series(kind, OFFSETS, shares) for kind, shares in right.items()]
    panel = Lines(
        "", "place of the deciding word", "share right", series, y_limits=(0.3, 1.02), marks=[Mark(0.5, "guessing")]
    )
    ahead = {
        kind: [share for at, share in zip(OFFSETS, shares, strict=True) if at > 0] for kind, shares in right.items()
    }
    sentence = "; ".join(f"{kind} {sum(shares) / len(shares):.0%}" for kind, shares in ahead.items())
    return Figure("", [panel], "LSTMs of nearly equal size."), f"Right where the deciding word comes later: {sentence}."
