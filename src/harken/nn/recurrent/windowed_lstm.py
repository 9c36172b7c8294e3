"""An LSTM layer that sees a text through a soft window, which it moves itself.

h_t = LSTM([x_t; w_{t-1}], h_{t-1}, batch_first=True)        E2, with what was seen last
w_t, κ_t = window(h_t, κ_{t-1}, c)         `harken.nn.recurrent.window`

What a step sees depends on where the step before has moved the window, so there is no way around a loop; `definition`
asks cell and window one step after the other, `forward` is its quick twin `harken.kernels.recurrent.windowed_lstm`.
Graves (2013), section 5.

>>> layer = WindowedLSTM(3, 8, characters=4, gaussians=2)
>>> values, texts = torch.randn(2, 5, 3), torch.randn(2, 6, 4)
>>> quick, slow = layer(values, texts), layer.reference(values, texts)
>>> torch.allclose(quick.hidden, slow.hidden, atol=1e-5), quick.weights.shape
(True, torch.Size([2, 5, 6]))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.recurrent.windowed_lstm import windowed_lstm
from harken.nn.recurrent.cell import State
from harken.nn.recurrent.layers import initialize
from harken.nn.recurrent.lstm import LSTMCell, LSTMState
from harken.nn.recurrent.packing import Layout
from harken.nn.recurrent.regularization import Noise
from harken.nn.recurrent.trace import DirectionTrace, Recurrence, Trace
from harken.nn.recurrent.window import GaussianWindow, Look


class Windowed(NamedTuple):
    """What a whole sequence made."""

    hidden: Tensor  # h (B, T, H)
    seen: Tensor  # w (B, T, E)
    weights: Tensor  # φ (B, T, U); from the quick way without a gradient


class WindowedLSTM(nn.Module):
    """Values (B, T, I) and characters (B, U, E), of which the mask (B, U) says which are there."""

    traceable = True  # `harken.inspection.tracing`

    def __init__(
        self, input_size: int, hidden_size: int, *, characters: int, gaussians: int, pace: float = 16.0
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.cell = LSTMCell(input_size + characters, hidden_size)
        initialize(self.cell)
        self.window = GaussianWindow(hidden_size, gaussians, pace)

    def forward(self, values: Tensor, characters: Tensor, mask: Tensor | None = None, trace: bool = False) -> Any:
        """All steps, the quick way: `Windowed`; with `trace`, step by step, and also every gate and state."""
        if trace:
            return self._traced(values, characters, _all(characters) if mask is None else mask)
        from_value, from_seen = self.cell.weight_ih.split([self.input_size, characters.shape[2]], 1)
        inputs = F.linear(values, from_value, self.cell.constant())  # (B, T, 4 H)
        joint = torch.cat([self.cell.weight_hh, from_seen], 1)
        project, mask = self.window.project, _all(characters) if mask is None else mask
        return Windowed(*windowed_lstm(inputs, joint, project.weight, project.bias, characters, mask))

    def reference(self, values: Tensor, characters: Tensor, mask: Tensor | None = None) -> Windowed:
        """All steps, one after the other."""
        mask = _all(characters) if mask is None else mask
        nothing = values.new_zeros(len(values), self.hidden_size)
        state: LSTMState = (nothing, nothing)
        seen, position = self.start(characters)
        made = []
        for value in values.unbind(1):
            state, (seen, position, weights) = self.step(value, state, seen, position, characters, mask)
            made.append((state[0], seen, weights))
        return Windowed(*(torch.stack(part, 1) for part in zip(*made, strict=True)))

    def _traced(self, values: Tensor, characters: Tensor, mask: Tensor) -> tuple[Windowed, Trace]:
        nothing = values.new_zeros(len(values), self.hidden_size)
        state: State = (nothing, nothing)
        seen, position = self.start(characters)
        products, inputs, before, made, looks = self.cell.products(), [], [], [], []
        for value in values.unbind(1):
            inputs.append(self.cell.project_input(torch.cat([value, seen], -1)))
            before.append(state)
            step = self.cell.step(inputs[-1], state, products)
            state = step.state
            seen, position, weights = self.window(state[0], position, characters, mask)
            made.append({**step.gates, "hidden": state[0], "cell": state[1]})
            looks.append((state[0], seen, weights))
        words = {word: [step[word] for step in made] for word in made[0]}
        layout = Layout.of(None, len(values), len(made))
        recurrence = Recurrence(self.cell, inputs, before, Noise(None, ()))
        windowed = Windowed(*(torch.stack(part, 1) for part in zip(*looks, strict=True)))
        return windowed, Trace([[DirectionTrace(words, layout, recurrence)]])

    def start(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """w (B, E) and κ (B, K) before the first step."""
        return characters.new_zeros(len(characters), characters.shape[2]), self.window.start(len(characters))

    def step(
        self, value: Tensor, state: LSTMState, seen: Tensor, position: Tensor, characters: Tensor, mask: Tensor
    ) -> tuple[LSTMState, Look]:
        """x (B, I), the last state, w and κ -> the new state, and what it sees."""
        state = self.cell(torch.cat([value, seen], -1), state)
        return state, self.window(state[0], position, characters, mask)


def _all(characters: Tensor) -> Tensor:
    return torch.ones(characters.shape[:2], dtype=characters.dtype, device=characters.device)
