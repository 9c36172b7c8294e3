"""Gradient against distance to the loss: one set of axes for all networks and layers, the numbers in a table.

A straight line on this logarithmic axis is a product of equal factors: where it falls the gradient shrinks.

>>> import torch, harken.nn
>>> from harken.inspection import gradient_flow
>>> values = torch.randn(8, 30, 8)
>>> layers = [kind(8, 16, batch_first=True) for kind in (harken.nn.RNN, harken.nn.LSTM)]
>>> flows = {type(layer).__name__: gradient_flow(layer, values) for layer in layers}
>>> [series.label for series in FlowPicture(flows).states().series]
['RNN, h', 'LSTM, C', 'LSTM, h']
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harken.inspection.figure.spec import Figure, Lines, Mark, Series
from harken.inspection.measures.verdict import FEWEST_ROWS
from harken.inspection.pictures.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

    from harken.inspection.measures.flow import GradientFlow, LayerFlow

FEW = 3  # up to this many lines of carriers, the h of an LSTM is drawn as well as its C
MEANINGS = {
    "× a step": "what one step back does to the gradient, by a line fitted to its logarithm",
    "halves or doubles": "steps in which it is halved where it shrinks, or doubled where it grows; near 1 it stays",
    "arrives": "share of the gradient that arrives at the longest distance, by that line",
    "rows": "how many rows stand behind the farthest point; the curve stops where fewer than 8 are left",
    "max σ(U)": "largest singular value of the recurrent weights, all gates together",
    "max σ(J)": "largest singular value of the step's Jacobian, mean over the sampled steps; an LSTM's of (h, C)",
    "growth": "the product of all steps' Jacobians, its largest singular value as a factor a step",
}
HEADINGS = ["layer", "cell", "verdict", *MEANINGS]


class FlowPicture(Picture):
    """Gradients of one network, or of several in one set of axes."""

    caption = "A straight line is a product of equal factors: falling, it shrinks the gradient; rising, it enlarges it."

    def __init__(self, flows: Mapping[str, GradientFlow], title: str | None = None) -> None:
        """
        Args:
            flows: what each network is called -> its gradients. The name of a single one may be empty.
        """
        self.flows = dict(flows)
        kinds = "; ".join(f"{name}: {flow.kind}" if name else flow.kind for name, flow in self.flows.items())
        self.title = title or f"Gradient by distance to the loss. {kinds}"

    def states(self) -> Lines:
        """The gradient at C where there is one, else at h; with few lines at the h of an LSTM too."""
        layers = [(number, name, layer) for number, (name, flow) in enumerate(self.flows.items()) for layer in flow]
        series = []
        for index, (number, name, layer) in enumerate(layers):
            label = _label(name, layer, several=len(self.flows[name].layers) > 1)
            colour = number if len(self.flows) > 1 else index
            symbol = "C" if layer.carrier == "cell" else "h"
            series.append(_series(f"{label}, {symbol}", layer, layer.carrier, colour, note=layer.verdict.short))
            if layer.carrier == "cell" and len(layers) <= FEW:
                series.append(_series(f"{label}, h", layer, "hidden", colour, dashed=True))
        return self._panel("", series)

    def row_counts(self) -> Lines:
        """How many rows stand behind each point, a line for each network."""
        series = []
        for number, (name, flow) in enumerate(self.flows.items()):
            counts = max((layer.row_counts(layer.carrier) for layer in flow), key=len).tolist()
            series.append(Series(name or "rows", list(range(len(counts))), counts, colour=number))
        same = all((line.x, line.y) == (series[0].x, series[0].y) for line in series)
        series = [Series("rows", series[0].x, series[0].y, colour=7)] if same else series
        marks = [Mark(FEWEST_ROWS, f"{FEWEST_ROWS} rows: curves stop below")]
        high = 1.1 * max([FEWEST_ROWS, *(count for line in series for count in line.y)])
        return Lines(
            "",
            self._x_label(),
            "rows behind each point",
            series,
            marks=marks,
            y_limits=(0, high),
            dots=False,
            flat=True,
        )

    def gates(self) -> list[Lines]:
        """The gradient at gates and candidates, a panel for each layer that has some."""
        panels = []
        for name, flow in self.flows.items():
            for layer in flow:
                words = [word for word in layer.words if word not in ("hidden", "cell")]
                title = f"{name} {layer.name}".strip()
                if words:
                    panels.append(self._panel(title, [_series(word, layer, word, n) for n, word in enumerate(words)]))
        return panels

    def _panel(self, title: str, series: list[Series]) -> Lines:
        return Lines(title, self._x_label(), "norm of the gradient, mean over rows", series, log_y=True)

    def _x_label(self) -> str:
        last = {flow.looked_from for flow in self.flows.values()} == {"last"}
        return "steps to the loss" if last else "steps before the last that the loss depends on"

    def figures(self) -> list[Figure]:
        counts = self.row_counts()
        vary = len({count for line in counts.series for count in line.y}) > 1  # not where all rows are equally long
        return [Figure(self.title, [self.states(), *([counts] if vary else [])], across=1)]

    def page_figures(self) -> list[Figure]:
        gates = self.gates()
        return [*self.figures(), *([Figure("At the gates", gates)] if gates else [])]

    def page_tail(self) -> str:
        """The table of numbers behind the verdicts."""
        from harken.inspection.figure.page import text, value_table

        entries = "".join(f"<dt>{text(name)}</dt><dd>{text(meaning)}</dd>" for name, meaning in MEANINGS.items())
        meanings = f"<details><summary>What the numbers mean</summary><dl>{entries}</dl></details>"
        return f"<h2>The numbers behind the verdicts</h2>{value_table(HEADINGS, self.rows())}{meanings}"

    def rows(self) -> list[list[str]]:
        """One row for each layer, under `HEADINGS`."""
        return [
            [f"{name}: {layer.name}" if len(self.flows) > 1 else layer.name, *_numbers(layer)]
            for name, flow in self.flows.items()
            for layer in flow
        ]

    def lines(self, width: int, color: bool) -> list[Text]:
        """The lines and the table below them, whose last columns are the first to go in a narrow terminal."""
        from rich.text import Text

        from harken.inspection.figure.text import columns

        table = [HEADINGS, *self.rows()]
        while len(table[0]) > 4 and max(map(len, columns(table))) > width:
            table = [row[:-1] for row in table]
        return [
            *super().lines(width, color),
            Text(),
            *(Text(line, style="bold" if color and not number else "") for number, line in enumerate(columns(table))),
        ]


def _label(name: str, layer: LayerFlow, several: bool) -> str:
    return f"{name} {layer.name}" if name and several else name or layer.name


def _series(label: str, layer: LayerFlow, word: str, colour: int, note: str = "", dashed: bool = False) -> Series:
    curve = layer.curve(word).tolist()
    return Series(label, list(range(len(curve))), curve, colour=colour, note=note, dashed=dashed)


def _numbers(layer: LayerFlow) -> list[str]:
    verdict, jacobians = layer.verdict, layer.jacobians
    weight = next(iter(layer.weights.values()), math.nan)
    state = math.nan if jacobians is None else float(jacobians.largest.get("state", jacobians.largest["hidden"]).mean())
    growth = "" if jacobians is None else f"× {math.exp(min(jacobians.growth, 700)):.3f}"
    return [
        layer.cell,
        verdict.kind,
        _known(verdict.factor, ".3f"),
        verdict.pace,
        _known(verdict.share, ".2g"),
        str(verdict.rows),
        _known(weight, ".3f"),
        _known(state, ".3f"),
        growth,
    ]


def _known(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else ""
