"""The probability of a text by a language model, token by token, and windows of text for a Transformer.

recurrent       the text is read from its first token to its last with one state, in segments that bound memory:
                exactly what one row (batch 1) gives. `rows` above 1 cuts the text into so many parts that are read
                side by side, each from a state of zeros: faster, and good enough for validation.
Transformer     windows of data.chunk tokens, each half a window after the last; of a window the second half counts
                (of the first one all of it), so that every token is seen after at least half a window of text.

Generation by a Transformer goes on without end in the same windows: a network trained on chunks of `window` tokens has
learnt nothing of later positions, so when the window is full its last half is read again from the first position
(`Windowed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.models.language.base import LanguageNetwork
from harken.models.transformer.language import TransformerLanguage

SEGMENT = 512  # tokens of a row that are read at once
AT_ONCE = 8192  # tokens of all windows that are read at once

Tick = Callable[[int], None]


@torch.no_grad()
def log_probabilities(
    network: LanguageNetwork, ids: np.ndarray, window: int, rows: int = 1, progress: Tick | None = None
) -> np.ndarray:
    """(N - 1,): log P of every id after the first; the network must not be in training."""
    device = network.embedding.weight.device
    text = torch.from_numpy(ids).to(device)
    parts = _windows(network, text, window) if isinstance(network, TransformerLanguage) else _rows(network, text, rows)
    pieces = []
    for part in parts:
        pieces.append(part)
        if progress is not None:
            progress(len(part))
    if not isinstance(network, TransformerLanguage):
        pieces = _in_order(pieces, len(ids) - 1, rows)
    return torch.cat(pieces).cpu().numpy().astype(np.float64) if pieces else np.zeros(0)


def _rows(network: LanguageNetwork, text: Tensor, rows: int) -> Iterator[Tensor]:
    """Segment after segment, (rows x T,) each, of `rows` parts of the text side by side; the last is filled up."""
    each = -(-(len(text) - 1) // rows)
    starts = each * torch.arange(rows, device=text.device)
    state = None
    for at in range(0, each, SEGMENT):
        indices = starts[:, None] + torch.arange(at, min(at + SEGMENT, each) + 1, device=text.device)
        piece = text[indices.clamp(max=len(text) - 1)]  # (rows, T + 1)
        hidden, state = network(piece[:, :-1], state)
        yield _chosen(network, hidden, piece[:, 1:]).flatten()


def _in_order(parts: list[Tensor], count: int, rows: int) -> list[Tensor]:
    if rows == 1:
        return parts
    joined = torch.cat([part.view(rows, -1) for part in parts], 1) if parts else torch.zeros(rows, 0)
    return [joined.flatten()[:count]]


def _windows(network: LanguageNetwork, text: Tensor, window: int) -> Iterator[Tensor]:
    """The scored tokens of some windows after the other."""
    count, half = len(text) - 1, max(1, window // 2)
    if count <= window:
        hidden, _ = network(text[None, :-1])
        yield _chosen(network, hidden, text[None, 1:])[0]
        return
    starts = list(range(0, count - window, half))
    starts.append(count - window)  # the last window ends where the text does
    scored = 0
    for first in range(0, len(starts), max(1, AT_ONCE // window)):
        some = starts[first : first + max(1, AT_ONCE // window)]
        piece = text[torch.tensor(some, device=text.device)[:, None] + torch.arange(window + 1, device=text.device)]
        hidden, _ = network(piece[:, :-1])
        chosen = _chosen(network, hidden, piece[:, 1:])
        fresh = []
        for row, start in zip(chosen, some, strict=True):
            fresh.append(row[scored - start :])
            scored = start + window
        yield torch.cat(fresh)


def _chosen(network: LanguageNetwork, hidden: Tensor, targets: Tensor) -> Tensor:
    """(B, T): log P of the tokens that came."""
    logits = network.logits(hidden).float()
    return torch.log_softmax(logits, -1).gather(-1, targets[..., None])[..., 0]


@dataclass
class WindowState:
    """The network's own state and the tokens in it."""

    inner: Any
    tokens: Tensor  # (B, t)
    beam: int = 1

    def reorder_(self, beam_index: Tensor) -> None:
        """See `harken.search.contract`."""
        self.inner.reorder_(beam_index)
        self.tokens = self.tokens[beam_index]

    def expand_(self, beam: int) -> None:
        """See `harken.search.contract`."""
        self.inner.expand_(beam)
        self.tokens, self.beam = self.tokens.repeat_interleave(beam, 0), beam

    def keep_(self, sources: Tensor) -> None:
        """See `harken.search.contract`."""
        self.inner.keep_(sources)
        self.tokens = self.tokens.unflatten(0, (-1, self.beam))[sources].flatten(0, 1)


class Windowed:
    """A network with its window, as `harken.search.contract.StepModel`."""

    def __init__(self, network: LanguageNetwork, window: int) -> None:
        self.network, self.window = network, window

    def start(self, tokens: Tensor) -> WindowState:
        """The state after tokens (B, t); of many, after the last that fit."""
        tokens = tokens[:, -(self.window - 1) :]
        return WindowState(self.network.start(len(tokens), tokens, self.window - tokens.shape[1]), tokens)

    def step(self, tokens: Tensor, state: WindowState) -> Tensor:
        """One token a row (B,)."""
        if state.tokens.shape[1] >= self.window:
            again = self.start(state.tokens[:, -(self.window // 2) :])
            again.inner.beam = state.beam
            state.inner, state.tokens = again.inner, again.tokens
        state.tokens = torch.cat([state.tokens, tokens[:, None]], 1)
        return self.network.step(tokens, state.inner)
