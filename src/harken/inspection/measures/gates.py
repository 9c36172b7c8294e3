"""The gates of a recurrent network while it reads one sentence: every gate, candidate and state, step by step.

Units are many, so pictures show them in one order, sorted by how open their memory gate is on average (forget of an
LSTM, update of a GRU), and summaries say mean, quartiles, and how often a gate is shut (below 0.1) or open (above 0.9),
as Karpathy et al. (2015), "Visualizing and Understanding Recurrent Networks", do.

>>> import torch, harken.nn
>>> trace = gates(harken.nn.GRU(3, 8, batch_first=True), torch.randn(1, 4, 3), words=["the", "cat", "sleeps", "."])
>>> trace[0].words, trace[0].values["update"].shape
(['the', 'cat', 'sleeps', '.'], (4, 8))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from harken.errors import UserError
from harken.inspection.figure.values import left_to_right
from harken.inspection.measures.running import run, unwrap
from harken.inspection.measures.tracing import LayerRecord, NamedLayers, still, tracing, with_harken_layers
from harken.inspection.pictures.inputs import piece_names

if TYPE_CHECKING:
    from harken.inspection.pictures.gates import GatePicture

SHUT, OPEN = 0.1, 0.9  # a gate below the one or above the other is saturated
GATES = ("input", "forget", "output", "reset", "update")  # these lie between 0 and 1
ENDS = ("<s>", "</s>")  # how the begin and the end of a sentence are written on an axis
Words = Sequence[str] | Mapping[str, Sequence[str]] | None


@dataclass(frozen=True)
class LayerGates:
    """One layer in one direction over one sentence."""

    name: str  # `encoder.0 →`
    cell: str  # LSTM, GRU or RNN
    words: list[str]  # (T,) what was read at each step
    values: dict[str, np.ndarray]  # input, forget, candidate, output, hidden, cell ... -> (T, H)

    @property
    def units(self) -> int:
        """H."""
        return int(self.values[self.memory].shape[1])

    @property
    def memory(self) -> str:
        """The name of what decides how much stays: the forget or the update gate; of a vanilla RNN, h itself."""
        return next((word for word in ("forget", "update") if word in self.values), "hidden")

    def order(self) -> np.ndarray:
        """(H,) units, the one whose memory gate is the most open first; one order for all gates of the layer."""
        return np.argsort(-self.values[self.memory].mean(0), kind="stable")

    def __repr__(self) -> str:
        shape = f"{len(self.words)} steps x {self.units} units"
        return f"LayerGates({self.name!r}, {self.cell}, {shape}: {', '.join(self.values)})"

    def summary(self, word: str) -> dict[str, np.ndarray]:
        """Over the units, at each step (T,): mean, and the quartiles low, median, high."""
        values = self.values[word]
        low, median, high = np.quantile(values, (0.25, 0.5, 0.75), axis=1)
        return {"mean": values.mean(1), "low": low, "median": median, "high": high}

    def saturated(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """For each unit (H,) the share of steps at which a gate is shut, and at which it is open."""
        return (self.values[word] < SHUT).mean(0), (self.values[word] > OPEN).mean(0)

    def to_dict(self, units: bool = False) -> dict[str, Any]:
        """The layer as JSON can hold it; with every single value if `units`."""
        gates: dict[str, Any] = {}
        for word, values in self.values.items():
            row: dict[str, Any] = {key: numbers.tolist() for key, numbers in self.summary(word).items()}
            if word in GATES:
                row |= {"shut": float((values < SHUT).mean()), "open": float((values > OPEN).mean())}
            if units:
                row["units"] = values.tolist()
            gates[word] = row
        return {"name": self.name, "cell": self.cell, "units": self.units, "words": self.words, "gates": gates}


@dataclass(frozen=True)
class GateTrace(NamedLayers[LayerGates]):
    """All recurrent layers while they read; `trace[0]`, `trace["decoder"]`, or one after the other."""

    title: str

    def to_dict(self, units: bool = False) -> dict[str, Any]:
        """The trace as JSON can hold it."""
        return {"title": self.title, "layers": [layer.to_dict(units) for layer in self.layers]}

    def __repr__(self) -> str:
        shapes = ", ".join(f"{layer.name} ({layer.cell}, {layer.units} units)" for layer in self.layers)
        return f"GateTrace({self.title!r}: {shapes})"

    def picture(self, layer: int | None = None) -> GatePicture:
        """Gates over time, of one layer (counted from 0) or of all."""
        from harken.inspection.pictures.gates import GatePicture

        return GatePicture(self, layer)

    def __str__(self) -> str:
        return str(self.picture())

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def gates(model: Any, batch: Any, *, words: Words = None, target: str | None = None, row: int = 0) -> GateTrace:
    """Run a model on one sentence and keep what its gates did.

    Args:
        model: a recurrent layer, a module that contains some (harken's or torch's), or a translator.
        batch: what the model is called with; for a translator a sentence.
        words: what stands on the axis, one for each step; or a dict from the start of a layer's name to such a list
            (with " call 2" after it for what is read second).
        target: a translator's decoder reads this; by default what the translator itself makes of the sentence.
        row: which row of a batch.

    Raises:
        UserError: a model without recurrent layers, or a sentence without words.
    """
    title = "Gates"
    if isinstance(batch, str):
        batch, words, title = _sentence(model, batch, target)
    network, batch = unwrap(model, batch)
    network = with_harken_layers(network)
    with still(network), torch.no_grad(), tracing(network) as records:
        run(network, batch)
    if not records:
        raise UserError(
            f"{type(network).__name__} has no recurrent layer (harken.nn.RNN, LSTM or GRU, or torch's), so it has no "
            "gates; to see what attention looks at, use harken attention"
        )
    return GateTrace([_layer(record, words, row) for record in records], title)


def _sentence(model: Any, sentence: str, target: str | None) -> tuple[Any, Words, str]:
    """A translator's batch of one pair, the pieces that its encoder and its decoder read, and what to write above."""
    if hasattr(model, "reading") and sentence.strip():  # a model that reads one text, and no pair
        return model.reading(sentence)
    if isinstance(model, nn.Module) or not hasattr(model, "translate"):
        raise UserError(f"a {type(model).__name__} reads no sentences; give it the tensors it is called with")
    if not sentence.strip():
        raise UserError("the sentence is empty; give some words in quotes")
    if target is None:
        target = model.translate(sentence, attention=False).text
    batch = model.batch([(sentence, target)])
    source, read = batch.source[0].tolist(), batch.target_input[0].tolist()
    words = {
        "encoder": [*axis_pieces(model.source, source[:-1]), ENDS[1]],
        "decoder": [ENDS[0], *axis_pieces(model.target, read[1:])],
    }
    return batch, words, f"{left_to_right(sentence)} → {left_to_right(target)}"


def axis_pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Pieces of a text as they are written on an axis."""
    return piece_names(tokenizer.pieces(list(ids)))


def _layer(record: LayerRecord, words: Words, row: int) -> LayerGates:
    trace = record.trace
    steps_of = trace.layout.unpack(torch.ones_like(torch.cat(trace.steps["hidden"])[:, :1]))  # (B, T, 1)
    if not 0 <= row < steps_of.shape[0]:
        raise UserError(f"there is no row {row}; the batch has {steps_of.shape[0]}, counted from 0")
    steps = int(steps_of[row].sum())
    values = {word: trace[word][row, :steps].double().cpu().numpy() for word in trace.names}
    if isinstance(words, Mapping):
        called = f"{record.module} call {record.call + 1}"  # a module may read one thing after another
        words = next((labels for start, labels in words.items() if called.startswith(start)), None)
    labels = [str(number + 1) for number in range(steps)] if words is None else [str(word) for word in words]
    if len(labels) != steps:
        raise UserError(f"{len(labels)} words do not fit the {steps} steps of {record.name}; give one for each")
    cell = "recurrent" if trace.recurrence is None else type(trace.recurrence.cell).__name__.removesuffix("Cell")
    return LayerGates(record.name, cell, labels, values)
