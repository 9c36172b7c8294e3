"""An LSTM layer that sees a text through a soft window, which it moves itself. Graves (2013), section 5.

h_t = LSTM([x_t; w_{t-1}], h_{t-1})          the input and what was seen last
(α̂, β̂, Δ̂)_t = W h_t + b                    three numbers for each of K Gaussians
κ_t = κ_{t-1} + exp(Δ̂_t)                    the window only moves forward
φ(t, u) = Σ_k α_k exp(-β_k (κ_k - u - ½)²)
w_t = Σ_u φ(t, u) c_u                        what is seen of the characters c

Character u reaches from u to u + 1, and its middle is where it weighs most; at first the window moves 1 / `pace` of a
character per step. The weights are no probabilities: they may add up to more or less than 1. Padding is not seen.

What a step sees depends on where the step before moved the window, so there is no way around a loop: `reference` calls
cell and window step by step, `forward` runs `harken.kernels.recurrent.windowed_lstm`.

>>> layer = WindowedLSTM(3, 8, characters=4, gaussians=2)
>>> values, texts = torch.randn(2, 5, 3), torch.randn(2, 6, 4)
>>> fast, slow = layer(values, texts), layer.reference(values, texts)
>>> torch.allclose(fast.hidden, slow.hidden, atol=1e-5), fast.weights.shape
(True, torch.Size([2, 5, 6]))
>>> window = GaussianWindow(4, gaussians=2, pace=8)
>>> _ = window.project.weight.data.zero_()
>>> look = window(torch.zeros(1, 4), window.start(1), torch.ones(1, 3, 5), torch.ones(1, 3))
>>> look.position.tolist(), int(look.weights.argmax())
([[0.125, 0.125]], 0)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.recurrent.packing import Layout
from harken.kernels.recurrent.windowed_lstm import WINDOWED_LSTM
from harken.nn.recurrent.cell import State
from harken.nn.recurrent.layers import initialize
from harken.nn.recurrent.lstm import LSTMCell, LSTMState
from harken.nn.recurrent.regularization import NONE
from harken.nn.recurrent.trace import DirectionTrace, Recurrence, Trace

SHARPNESS = 2.0  # β at first: a deviation of half a character


class Look(NamedTuple):
    """The view of one step."""

    view: Tensor  # w (B, E)
    position: Tensor  # κ (B, K)
    weights: Tensor  # φ (B, U)


class GaussianWindow(nn.Module):
    """Looks at characters (B, U, E) through K Gaussians, moved by a hidden state (B, H)."""

    def __init__(self, hidden: int, gaussians: int, pace: float = 16.0) -> None:
        super().__init__()
        if gaussians < 1 or pace <= 0:
            raise ValueError(f"a window needs at least one Gaussian and a pace above 0, not {gaussians} and {pace}")
        self.gaussians = gaussians
        self.project = nn.Linear(hidden, 3 * gaussians)
        first = torch.tensor([-math.log(gaussians), math.log(SHARPNESS), -math.log(pace)])
        with torch.no_grad():
            self.project.weight.mul_(0.1)  # so that the first steps are even
            self.project.bias.copy_(first.repeat_interleave(gaussians))

    def start(self, rows: int) -> Tensor:
        """κ before the first step, (B, K): where the text begins."""
        return self.project.weight.new_zeros(rows, self.gaussians)

    def forward(self, hidden: Tensor, position: Tensor, characters: Tensor, mask: Tensor) -> Look:
        """One step: h (B, H), κ (B, K), characters (B, U, E), mask (B, U) of 1 and 0."""
        weight, sharpness, step = self.project(hidden).exp().chunk(3, -1)  # (B, K) each
        position = position + step
        middles = torch.arange(characters.shape[1], device=hidden.device) + 0.5  # (U,)
        bumps = torch.exp(-sharpness[:, :, None] * (position[:, :, None] - middles).square())  # (B, K, U)
        weights = torch.bmm(weight[:, None], bumps)[:, 0] * mask  # (B, U)
        view = torch.bmm(weights[:, None], characters)[:, 0]  # (B, E)
        return Look(view, position, weights)


class Windowed(NamedTuple):
    """The results of a whole sequence."""

    hidden: Tensor  # h (B, T, H)
    view: Tensor  # w (B, T, E)
    weights: Tensor  # φ (B, T, U); from `forward` without a gradient


class WindowedLSTM(nn.Module):
    """Values (B, T, I) and characters (B, U, E), of which the mask (B, U) says which are there."""

    traceable = True  # `harken.inspection.measures.tracing`

    def __init__(
        self, input_size: int, hidden_size: int, *, characters: int, gaussians: int, pace: float = 16.0
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.cell = LSTMCell(input_size + characters, hidden_size)
        initialize(self.cell)
        self.window = GaussianWindow(hidden_size, gaussians, pace)

    def forward(self, values: Tensor, characters: Tensor, mask: Tensor | None = None, trace: bool = False) -> Any:
        """All steps: `Windowed`; with `trace` also a `Trace` of every gate and state."""
        mask = _all(characters) if mask is None else mask
        if trace:
            return self._unroll(values, characters, mask)
        if not self.cell.is_plain or not WINDOWED_LSTM.supports():
            return self.reference(values, characters, mask)
        from_value, from_window = self.cell.weight_ih.split([self.input_size, characters.shape[2]], 1)
        inputs = F.linear(values, from_value, self.cell.summed_bias())  # (B, T, 4 H)
        joint = torch.cat([self.cell.weight_hh, from_window], 1)
        project = self.window.project
        return Windowed(*WINDOWED_LSTM.run(inputs, joint, project.weight, project.bias, characters, mask))

    def reference(self, values: Tensor, characters: Tensor, mask: Tensor | None = None) -> Windowed:
        """All steps, one after the other."""
        return self._unroll(values, characters, _all(characters) if mask is None else mask)[0]

    def _unroll(self, values: Tensor, characters: Tensor, mask: Tensor) -> tuple[Windowed, Trace]:
        state: State = self.cell.start(values[:, 0])
        view, position = self.start(characters)
        products = self.cell.products()
        inputs: list[Tensor] = []
        before: list[State] = []
        steps: list[dict[str, Tensor]] = []
        looks: list[tuple[Tensor, ...]] = []
        for value in values.unbind(1):
            inputs.append(self.cell.project_input(torch.cat([value, view], -1)))
            before.append(state)
            step = self.cell.step(inputs[-1], state, products)
            state = step.state
            view, position, weights = self.window(state[0], position, characters, mask)
            steps.append({**step.gates, "hidden": state[0], "cell": state[1]})
            looks.append((state[0], view, weights))
        by_name = {name: [step[name] for step in steps] for name in steps[0]}
        recurrence = Recurrence(self.cell, inputs, before, NONE)
        windowed = Windowed(*(torch.stack(part, 1) for part in zip(*looks, strict=True)))
        return windowed, Trace([[DirectionTrace(by_name, Layout.of(None, len(values), len(steps)), recurrence)]])

    def start(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """w (B, E) and κ (B, K) before the first step."""
        return characters.new_zeros(len(characters), characters.shape[2]), self.window.start(len(characters))

    def step(
        self, value: Tensor, state: LSTMState, view: Tensor, position: Tensor, characters: Tensor, mask: Tensor
    ) -> tuple[LSTMState, Look]:
        """x (B, I), the last state, w and κ -> the new state, and what it sees."""
        state = self.cell(torch.cat([value, view], -1), state)
        return state, self.window(state[0], position, characters, mask)


def _all(characters: Tensor) -> Tensor:
    return torch.ones(characters.shape[:2], dtype=characters.dtype, device=characters.device)
