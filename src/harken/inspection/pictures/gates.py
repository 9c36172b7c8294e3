"""Gates over time: for each gate, candidate and state a heat map, units downwards, words across.

A layer has hundreds of units, most of them hardly moving, so those whose state varies most over the sentence are shown,
in one order for all gates of the layer: the unit whose memory gate is the most open on top. Gates are shaded from 0 to
1; candidates and states on both sides of 0.

>>> layer = LayerGates("layer 1", "RNN", ["a", "b"], {"hidden": np.array([[0.9, 0.1, 0.0], [0.9, -0.5, 0.1]])})
>>> telling_units(layer, 2).tolist()  # not the first unit: it stays as it is
[2, 1]
"""

from __future__ import annotations

import numpy as np

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Heat
from harken.inspection.measures.gates import GATES, OPEN, SHUT, GateTrace, LayerGates
from harken.inspection.pictures.picture import Picture

UNITS, FEW_UNITS = 24, 8  # shown of each layer, on paper and in a terminal
ORDER = ("forget", "input", "reset", "update", "candidate", "cell", "output", "hidden")  # as the equations go
NAMES = {"candidate": "candidate g", "cell": "cell state C", "hidden": "hidden state h"}


class GatePicture(Picture):
    """The gates of all layers, or of one."""

    caption = "Gates: blank is closed (0), dark open (1). Candidates and states: blue above 0, orange below."

    def __init__(self, trace: GateTrace, layer: int | None = None) -> None:
        """
        Args:
            layer: which, counted from 0; all by default.

        Raises:
            UserError: a layer that is not there.
        """
        if layer is not None and not 0 <= layer < len(trace):
            names = ", ".join(f"{number}: {record.name}" for number, record in enumerate(trace))
            raise UserError(f"there is no layer {layer}; there are {names}")
        self.title = trace.title
        self.layers = list(trace.layers) if layer is None else [trace.layers[layer]]

    def figures(self) -> list[Figure]:
        return [layer_figure(layer, UNITS) for layer in self.layers]

    def terminal_figures(self) -> list[Figure]:
        return [Figure(self.title), *(layer_figure(layer, FEW_UNITS) for layer in self.layers)]


def telling_units(layer: LayerGates, most: int, word: str | None = None) -> np.ndarray:
    """The units whose state varies most over the steps, ordered by how open their memory gate is on average."""
    state = layer.values[word or ("cell" if "cell" in layer.values else "hidden")]  # (T, H)
    memory = layer.values[layer.memory]
    memory = memory if memory.shape == state.shape else state  # a projected h has fewer units than the gates
    chosen = np.argsort(-state.std(0), kind="stable")[:most]
    return chosen[np.argsort(-memory.mean(0)[chosen], kind="stable")]


def layer_figure(layer: LayerGates, units: int) -> Figure:
    """One panel for each gate, candidate and state of a layer."""
    words = sorted(layer.values, key=lambda word: ORDER.index(word) if word in ORDER else len(ORDER))
    shown = telling_units(layer, units)
    panels = []
    for number, word in enumerate(words):
        own = layer.values[word].shape[1] != layer.units
        panels.append(_panel(layer, word, telling_units(layer, units, word) if own else shown, own or number == 0))
    which = (
        f"the {len(shown)} of {layer.units} units whose state varies most" if len(shown) < layer.units else "all units"
    )
    notes = "; ".join(_note(word, layer.values[word]) for word in words if word in GATES)
    return Figure(
        f"{layer.name} ({layer.cell}): {which}", panels, f"Over all units: {notes}." * bool(notes), name=layer.name
    )


def _panel(layer: LayerGates, word: str, units: np.ndarray, named: bool) -> Heat:
    values, rows = layer.values[word].T[units], [f"unit {unit}" for unit in units]
    most = float(np.abs(values).max(initial=0.0)) or 1.0
    gate = word in GATES
    high = 1.0 if gate else most if word == "cell" else max(1.0, most)  # C has no bound, and is often far from 1
    name = NAMES.get(word, f"{word} gate")
    look = {"form": "", "row_names": named, "signed": not gate}
    return Heat(name, "step", "unit", layer.words, rows, values.tolist(), 0.0 if gate else None, high, **look)  # type: ignore[arg-type]


def _note(word: str, values: np.ndarray) -> str:
    closed, open_ = 100 * (values < SHUT).mean(), 100 * (values > OPEN).mean()
    return f"{word} gate mean {values.mean():.2f}, below {SHUT:g} {closed:.0f} %, above {OPEN:g} {open_:.0f} %"
