"""Gradient against distance to the loss: a line for each layer, a panel for each model, the numbers in a table.

A straight line on this logarithmic axis is E14's product of equal factors: falling is vanishing, rising is exploding.

>>> import torch, harken.nn
>>> from harken.inspection import gradient_flow
>>> values = torch.randn(4, 30, 8)
>>> layers = [kind(8, 16, batch_first=True) for kind in (harken.nn.RNN, harken.nn.LSTM)]
>>> flows = {type(layer).__name__: gradient_flow(layer, values) for layer in layers}
>>> [panel.title for panel in FlowPicture(flows).chart().panels]
['RNN', 'LSTM']
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harken.inspection.chart import Chart, Line, Panel
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

    from harken.inspection.flow import GradientFlow, LayerFlow

FEW = 3  # up to this many layers a panel has h beside C


class FlowPicture(Picture):
    """Gradients of one model, or of several side by side."""

    def __init__(self, flows: Mapping[str, GradientFlow], title: str | None = None) -> None:
        """
        Args:
            flows: what each model is called -> its gradients. The name of a single one may be empty.
        """
        self.flows = dict(flows)
        self.title = title or "How far gradients travel"

    def chart(self, few: int = FEW) -> Chart:
        """The states: C where there is one, and h beside it in models of at most `few` layers."""
        return self._chart(self.title, [Panel(name, _states(list(flow), few)) for name, flow in self.flows.items()])

    def gate_chart(self) -> Chart | None:
        """The gates and candidates, a panel for each layer; None where there are none."""
        panels = [
            Panel(f"{name} {layer.name}".strip(), _gates(layer))
            for name, flow in self.flows.items()
            for layer in flow
            if len(layer.words) > len({"hidden", "cell"} & set(layer.words))
        ]
        return self._chart("At the gates", panels) if panels else None

    def _chart(self, title: str, panels: list[Panel]) -> Chart:
        sources = {flow.looked_from for flow in self.flows.values()}
        from_where = "steps before the last that the loss looks at" if sources != {"last"} else "steps to the loss"
        return Chart(title, from_where, "norm of the gradient, mean over the batch", panels)

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and one row for each layer: what the verdict rests on."""
        headings = ["layer", "cell", "verdict", "× a step", "half-life", "arrives", "max σ(U)", "max σ(J)", "growth"]
        named = len(self.flows) > 1
        rows = [
            [f"{name}: {layer.name}" if named else layer.name, *_numbers(layer)]
            for name, flow in self.flows.items()
            for layer in flow
        ]
        return headings, rows

    def lines(self, width: int, color: bool) -> list[Text]:
        """The chart and the table below it."""
        from rich.text import Text

        from harken.inspection.chart_terminal import lines

        table = [
            Text(line, style="bold" if color and not number else "") for number, line in enumerate(self._table(width))
        ]
        return [*lines(self.chart(few=1), width, color), Text(), *table]

    def _table(self, width: int) -> list[str]:
        headings, rows = self.rows()
        table = [headings, *rows]
        while True:
            sizes = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
            if sum(sizes) + 2 * len(sizes) - 2 <= width or len(sizes) <= 4:
                break
            table = [row[:-1] for row in table]  # the last columns are the first to go
        return ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in table]

    def to_svg(self) -> str:
        """The chart."""
        from harken.inspection.chart_svg import draw_svg

        return draw_svg(self.chart())

    def to_png(self) -> bytes:
        """The chart."""
        from harken.inspection.chart_png import draw_png

        return draw_png(self.chart())

    def to_html(self) -> str:
        """The chart, the table, and the gradients at the gates."""
        from harken.inspection.flow_html import draw_page

        return draw_page(self)


def _states(layers: Sequence[LayerFlow], few: int) -> list[Line]:
    lines = []
    for number, layer in enumerate(layers):
        verdict = layer.verdict
        symbol = {"cell": "C", "hidden": "h"}
        lines.append(
            Line(f"{layer.name}, {symbol[layer.carrier]}", layer.curve(layer.carrier).tolist(), verdict.short, number)
        )
        if layer.carrier == "cell" and len(layers) <= few:
            lines.append(Line(f"{layer.name}, h", layer.curve("hidden").tolist(), "", number, dashed=True))
    return lines


def _gates(layer: LayerFlow) -> list[Line]:
    words = [word for word in layer.words if word not in ("hidden", "cell")]
    return [Line(word, layer.curve(word).tolist(), colour=number) for number, word in enumerate(words)]


def _numbers(layer: LayerFlow) -> list[str]:
    verdict, found = layer.verdict, layer.jacobians
    weight = next(iter(layer.weights.values()), math.nan)
    state = math.nan if found is None else float(found.largest.get("state", found.largest["hidden"]).mean())
    growth = "" if found is None else f"× {math.exp(min(found.growth, 700)):.3f}"
    return [
        layer.cell,
        verdict.kind,
        _known(verdict.factor, ".3f"),
        f"{verdict.half_life:.3g} steps" if verdict.half_life < 10_000 else "",
        _known(verdict.share, ".2g"),
        _known(weight, ".3f"),
        _known(state, ".3f"),
        growth,
    ]


def _known(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else ""
