"""Gates over time: for each gate, candidate and state a field of shades, units downwards, words across.

The units of a layer stand in the same order in all fields, the one that keeps most on top. Where there is no room for
all, those are shown whose state changes most over the sentence: a mean over many units would be grey everywhere.
Values below 0 (candidates and states) are laid on in a second, warm ink.

>>> layer = LayerGates("layer 1", "RNN", ["a", "b"], {"hidden": np.array([[0.9, 0.1, 0.0], [0.9, -0.5, 0.1]])})
>>> sheet_of(layer).fields[0].pick(2)  # not the first unit: it stays as it is
array([[ 0. ,  0.1],
       [ 0.1, -0.5]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harken.errors import UserError
from harken.inspection.gates import GATES, OPEN, SHUT, GateTrace, LayerGates
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

ORDER = ("forget", "input", "reset", "update", "candidate", "cell", "output", "hidden")  # as the equations go
NAMES = {"candidate": "candidate", "cell": "cell C", "hidden": "state h"}


@dataclass(frozen=True)
class Field:
    """One gate of one layer."""

    word: str
    name: str
    notes: list[str]  # mean, how often shut, how often open
    units: np.ndarray  # (H,) which unit stands in each row
    values: np.ndarray  # (H, T), from -1 to 1
    scale: float  # what 1 stands for
    lively: np.ndarray  # (H,) rows, the one whose unit changes most first

    def pick(self, most: int) -> np.ndarray:
        """(at most `most`, T): the liveliest units, in their order."""
        return self.values[np.sort(self.lively[:most])]

    def means(self) -> np.ndarray:
        """(T,): the mean over all units; of what may be negative, its size."""
        return self.scale * (self.values if self.word in GATES else np.abs(self.values)).mean(0)


@dataclass(frozen=True)
class Sheet:
    """One layer."""

    name: str
    cell: str
    words: list[str]
    fields: list[Field]


class GatePicture(Picture):
    """The gates of all layers, or of one."""

    def __init__(self, trace: GateTrace, layer: int | None = None) -> None:
        """
        Args:
            layer: which, counted from 0; all where it is not said.

        Raises:
            UserError: a layer that is not there.
        """
        if layer is not None and not 0 <= layer < len(trace):
            names = ", ".join(f"{number}: {one.name}" for number, one in enumerate(trace))
            raise UserError(f"there is no layer {layer}; there are {names}")
        self.title = trace.title
        self.sheets = [sheet_of(one) for one in (trace.layers if layer is None else [trace.layers[layer]])]

    def lines(self, width: int, color: bool) -> list[Text]:
        """A few lines for every gate: its mean at each step, and the liveliest units."""
        from harken.inspection.gate_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        """Layers across, gates down."""
        from harken.inspection.gate_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        """Layers across, gates down, every unit."""
        from harken.inspection.gate_png import draw_png

        return draw_png(self)

    def to_html(self) -> str:
        """A page to point at every unit and step."""
        from harken.inspection.gate_html import draw_page

        return draw_page(self)


def sheet_of(layer: LayerGates) -> Sheet:
    """A layer ready to be drawn."""
    order = layer.order()
    state = layer.values["cell" if "cell" in layer.values else "hidden"]
    words = sorted(layer.values, key=lambda word: ORDER.index(word) if word in ORDER else len(ORDER))
    fields = [_field(word, layer.values[word], order, state) for word in words]
    return Sheet(layer.name, layer.cell, layer.words, fields)


def _field(word: str, values: np.ndarray, order: np.ndarray, state: np.ndarray) -> Field:
    if values.shape[1] != len(order):  # a projected h has fewer units than the gates
        order, state = np.argsort(-values.mean(0), kind="stable"), values
    lively = np.argsort(-state.std(0)[order], kind="stable")
    sorted_values = values.T[order]  # (H, T)
    if word in GATES:
        notes = [f"mean {values.mean():.2f}", f"shut {_percent(values < SHUT)}", f"open {_percent(values > OPEN)}"]
        return Field(word, f"{word} gate", notes, order, sorted_values, 1.0, lively)
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    notes = [f"mean |·| {np.abs(values).mean():.2f}", f"{values.min():.2f} to {values.max():.2f}"]
    return Field(word, NAMES.get(word, word), notes, order, sorted_values / scale, scale, lively)


def _percent(which: np.ndarray) -> str:
    return f"{100 * which.mean():.0f} %"
