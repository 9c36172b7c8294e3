"""Which recurrent cell, and how: the words of a recipe, checked against each other without loading torch.

>>> CellOptions("gru", peephole="diagonal")
Traceback (most recent call last):
ValueError: peephole = "diagonal" lets gates see a cell state, which only cell = "lstm" has, not "gru"; choose that \
cell, or leave peephole out
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harken.registry import CELLS


@dataclass(frozen=True)
class CellOptions:
    """Words for the cells of an encoder or a decoder; those that do not fit the cell are refused."""

    cell: str = "lstm"
    nonlinearity: str = "tanh"  # rnn: or "relu", "sigmoid"
    peephole: str = "none"  # lstm: or "diagonal", "full"
    coupled: bool = False  # lstm: E5
    reset: str = "after"  # gru: or "before"
    forget_bias: float = 1.0  # lstm
    layer_norm: bool = False
    zoneout: float = 0.0
    recurrent_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise ValueError(f'cell is "{self.cell}", but it can be {", ".join(CELLS.names())}')
        only = [
            ("rnn", "nonlinearity", "tanh", "says what bends the new state"),
            ("lstm", "peephole", "none", "lets gates see a cell state"),
            ("lstm", "coupled", False, "couples an input to a forget gate"),
            ("lstm", "forget_bias", 1.0, "opens forget gates"),
            ("gru", "reset", "after", "says when to reset"),
        ]
        for cell, key, default, meaning in only:
            value = getattr(self, key)
            if value != default and self.cell != cell:
                found = f'"{value}"' if isinstance(value, str) else str(value).lower()
                raise ValueError(
                    f'{key} = {found} {meaning}, which only cell = "{cell}" has, not "{self.cell}"; choose that cell, '
                    f"or leave {key} out"
                )

    @property
    def parts(self) -> int:
        """How many vectors the state has: h, and an LSTM's C."""
        return len(self._registered().state_sizes) if self.is_registered else 2 if self.cell == "lstm" else 1

    @property
    def gates(self) -> int:
        """How many vectors of pre-activations a step needs."""
        if self.is_registered:
            return int(self._registered().gates)
        return {"rnn": 1, "gru": 3, "lstm": 3 if self.coupled else 4}[self.cell]

    @property
    def is_registered(self) -> bool:
        """Whether the cell comes from another package (`harken.registry`)."""
        return self.cell not in CELLS.shipped

    def _registered(self) -> Any:
        """The smallest cell of its kind, to ask for its state and gates."""
        return CELLS.find(self.cell)(1, 1)
