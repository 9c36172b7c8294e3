"""From `CellOptions` to a cell for one step at a time, or to a layer for a whole sequence.

>>> type(make_cell(CellOptions("rnn", nonlinearity="relu"), 3, 5)).__name__
'RNNCell'
"""

from __future__ import annotations

from typing import Any

from harken.models.recurrent.cell_options import CellOptions
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.layers import GRU, LSTM, RNN, RecurrentLayer, initialize
from harken.nn.recurrent.options import StackOptions
from harken.registry import CELLS


def make_cell(options: CellOptions, input_size: int, hidden_size: int) -> Cell:
    """One step, with first weights drawn; zoneout and recurrent dropout are for whoever runs it."""
    cell: Cell = CELLS.find(options.cell)(input_size, hidden_size, layer_norm=options.layer_norm, **_words(options))
    initialize(cell, options.forget_bias)
    return cell


def make_layer(options: CellOptions, input_size: int, hidden_size: int, bidirectional: bool) -> RecurrentLayer:
    """A whole sequence."""
    if options.is_registered:
        return _registered_layer(options, input_size, hidden_size, bidirectional)
    words = _words(options)
    if options.cell == "lstm":
        words["forget_bias"] = options.forget_bias
    layers = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
    return layers[options.cell](
        input_size,
        hidden_size,
        batch_first=True,
        bidirectional=bidirectional,
        layer_norm=options.layer_norm,
        zoneout=options.zoneout,
        recurrent_dropout=options.recurrent_dropout,
        **words,
    )


def _registered_layer(options: CellOptions, input_size: int, hidden_size: int, bidirectional: bool) -> RecurrentLayer:
    """A layer of a cell from another package: there is no fused loop for it, so it is unrolled."""
    shape = StackOptions(
        input_size,
        hidden_size,
        batch_first=True,
        bidirectional=bidirectional,
        layer_norm=options.layer_norm,
        zoneout=options.zoneout,
        recurrent_dropout=options.recurrent_dropout,
    )
    layer = RecurrentLayer(shape, hidden_size, lambda size: make_cell(options, size, hidden_size))
    layer.lacking = [f"cell={options.cell!r}"]
    return layer


def _words(options: CellOptions) -> dict[str, Any]:
    """What only this cell takes."""
    if options.is_registered:
        return {}
    if options.cell == "rnn":
        return {"nonlinearity": options.nonlinearity}
    if options.cell == "gru":
        return {"reset": options.reset}
    return {"peephole": None if options.peephole == "none" else options.peephole, "coupled": options.coupled}
