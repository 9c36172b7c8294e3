"""One layer of a recurrent decoder while it reads one target: what stays the same at all steps is made once.

W x = W_token y + W_rest r: the token's half is made for all steps at once, the rest (what the decoder feeds itself,
what comes from the layer below) step by step. Products of all steps make one weight gradient
(`harken.kernels.recurrent.deferred`). A plain LSTM adds what comes from its input and from its state, so both are one
product; every other cell, and every layer that is traced, goes through its own `step`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels.decoder_loop import gates as decoder_loop_gates
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.models.recurrent.attention import quick_kernels
from harken.nn.recurrent.cell import Cell, State, Step
from harken.nn.recurrent.lstm import LSTMCell, lstm_gates
from harken.nn.recurrent.packing import Layout
from harken.nn.recurrent.regularization import Noise
from harken.nn.recurrent.trace import DirectionTrace, Recurrence, Trace

Product = Callable[[Tensor], Tensor]


def product_with(weight: Tensor, deferred: bool) -> Product:
    """x -> W x, its weight gradients gathered or not."""
    return DeferredLinear(weight) if deferred else partial(F.linear, weight=weight)


def is_plain(cell: Cell, noise: Noise) -> bool:
    """Whether this is E2 as it stands."""
    usual = isinstance(cell, LSTMCell) and not cell.coupled and cell.peephole is None and cell.norm_ih is None
    return usual and noise.keep is None and not noise.stay


class LayerPass:
    """The cell of one layer, ready to step; the first `tokens` of its inputs are the token's."""

    def __init__(self, cell: Cell, tokens: int, noise: Noise, deferred: bool, joined: bool) -> None:
        self.cell, self.noise, self.deferred = cell, noise, deferred
        self.inputs: list[Tensor] = []  # what each step made of its input, and the state it began from
        self.before: list[State] = []
        self.constant = cell.constant()
        self.token_weight, rest = cell.weight_ih[:, :tokens], cell.weight_ih[:, tokens:]
        self.joined: Product | None = None
        self.rest: Product | None = None
        if joined and is_plain(cell, noise):
            self.joined = product_with(torch.cat((rest, cell.weight_hh), 1), deferred)
        else:
            self.rest = product_with(rest, deferred) if rest.shape[1] else None
            self.products = cell.products(deferred)

    def read_tokens(self, embedded: Tensor) -> Tensor:
        """What the tokens alone decide: (..., E) -> (..., gates x H), biases included unless a norm comes first."""
        return F.linear(embedded, self.token_weight, self.constant if self.cell.norm_ih is None else None)

    def step(self, token: Tensor | None, rest: Tensor | None, state: State, time: int) -> Step:
        """What `read_tokens` made (B, gates x H), the other inputs (B, R), the last state -> the new one."""
        if self.joined is not None:
            gates = self.joined(state[0] if rest is None else torch.cat((rest, state[0]), -1))
            if self.deferred and quick_kernels(gates):
                known = self.constant if token is None else token
                known = None if known is None else known.expand(gates.shape[0], -1)
                return Step(decoder_loop_gates.lstm_gates(gates, known, state[1]), {})
            return Step(lstm_gates(self._with_biases(gates, token), state[1]), {})
        self.inputs.append(self._from_input(token, rest))
        self.before.append(state)
        made = self.cell.step(self.inputs[-1], state, self.products, self.noise.keep)
        return Step(self.noise.zone(time, state, made.state), made.gates)

    def _from_input(self, token: Tensor | None, rest: Tensor | None) -> Tensor:
        product = None if rest is None or self.rest is None else self.rest(rest)
        if self.cell.norm_ih is None:
            return self._with_biases(product, token)
        parts = [part for part in (product, token) if part is not None]
        return self._with_biases(self.cell.norm_ih(sum(parts[1:], parts[0])), None)

    def _with_biases(self, product: Tensor | None, token: Tensor | None) -> Tensor:
        """W_rest r + W_token y + b, as far as there are any; the token's part has the biases in it."""
        known = self.constant if token is None else token
        if product is None or known is None:
            found = product if known is None else known
            assert found is not None, "a layer has some input"
            return found
        return product + known


@dataclass
class Pass:
    """What stays the same at all steps of one reading."""

    layers: list[LayerPass]
    combine: Product | None
    look: Product | None  # a query (B, H) -> its context, the quick way, where nobody wants the weights
    masks: list[Tensor | None]  # what variational dropout keeps of the feed, then of each higher layer's input


def trace_of(made: list[list[Step]], passes: list[LayerPass]) -> Trace:
    """Of T times L steps, what `harken.nn.recurrent.trace` shows."""
    layout, layers = Layout.of(None, made[0][0].state[0].shape[0], len(made)), []
    for depth, run in enumerate(passes):
        steps = [{**one[depth].gates, **dict(zip(("hidden", "cell"), one[depth].state, strict=False))} for one in made]
        words = {word: [step[word] for step in steps] for word in steps[0]}
        layers.append([DirectionTrace(words, layout, Recurrence(run.cell, run.inputs, run.before, run.noise))])
    return Trace(layers)
