"""A Transformer that writes on without end: where its window is full, the later half of it is read anew.

A network that was trained on chunks of `window` tokens has learnt nothing of places further on. So when so many are in
its state, the last window / 2 are read again from the first place, and writing goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harken.models.language.base import LanguageNetwork


@dataclass
class WindowState:
    """The network's own state and the tokens in it."""

    inner: Any
    tokens: Tensor  # (B, t)

    def select(self, rows: Tensor) -> WindowState:
        """Reorder, repeat or drop rows."""
        return WindowState(self.inner.select(rows), self.tokens[rows])


class Windowed:
    """A network with its window, as `harken.search.contract.StepModel`."""

    def __init__(self, network: LanguageNetwork, window: int) -> None:
        self.network, self.window = network, window

    def start(self, tokens: Tensor) -> WindowState:
        """The state after tokens (B, t); of many, after the last that fit."""
        tokens = tokens[:, -(self.window - 1) :]
        inner = self.network.start(len(tokens))
        if tokens.shape[1]:
            _, inner = self.network(tokens, inner)
        return WindowState(inner, tokens)

    def step(self, tokens: Tensor, state: WindowState) -> tuple[Tensor, WindowState, None]:
        """One token a row (B,)."""
        if state.tokens.shape[1] >= self.window:
            state = self.start(state.tokens[:, -(self.window // 2) :])
        logits, inner, _ = self.network.step(tokens, state.inner)
        return logits, WindowState(inner, torch.cat([state.tokens, tokens[:, None]], 1)), None
