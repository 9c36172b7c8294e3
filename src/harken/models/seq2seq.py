"""Recurrent encoder-decoder, with attention (S19) or with the last state as all the decoder gets (S17).

h_1 .. h_S = encoder(x)                          bidirectional, stacked
s_0 = tanh(W h_S)                                the bridge
s_t = cell([y_{t-1}; a_{t-1}], s_{t-1})          input feeding: the last attentional state comes along
c_t = attention(s_t, h)                          E8, with a score of E9
a_t = tanh(W_c [c_t; s_t])                       what the output layer sees; without attention a_t = s_t

That is the order of Luong et al. (2015), attend = "after". In that of Bahdanau et al. (2015), "before", the decoder
looks with its last state and takes the context into the step, which leaves nothing for input feeding to do:

c_t = attention(s_{t-1}, h)      s_t = cell([y_{t-1}; c_t], s_{t-1})      a_t = tanh(W_c [c_t; s_t])

With coverage, the additive score also sees the sum of the weights so far (Tu et al., 2016). The whole: Sutskever et al.
(2014). All that does not depend on the last step (the input half of the first layer's gates, the keys, the output
layer) is made for all steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.deferred import DeferredLinear
from harken.models.encoder_decoder import EncoderDecoder
from harken.nn.attention import Attention
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.gru import GRUCell, gru_gates
from harken.nn.lstm import LSTMCell, lstm_gates
from harken.nn.masks import length_mask
from harken.nn.recurrent import GRU, LSTM, initialise
from harken.nn.scores import SCORES, AdditiveScore

Layer = tuple[Tensor, ...]  # (h,) for a GRU, (h, C) for an LSTM; each (B, H)
Product = Callable[[Tensor], Tensor]


@dataclass
class RecurrentState:
    """The decoder's layers, the last attentional state, and the memory it looks into."""

    layers: list[Layer]
    feed: Tensor | None  # (B, H)
    keys: Tensor | None  # (B, S, A)
    memory: Tensor | None  # (B, S, H)
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to
    coverage: Tensor | None = None  # (B, S) the sum of the weights so far

    def select(self, rows: Tensor) -> RecurrentState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        layers = [tuple(part[rows] for part in layer) for layer in self.layers]
        feed = None if self.feed is None else self.feed[rows]
        coverage = None if self.coverage is None else self.coverage[rows]
        state = replace(self, layers=layers, feed=feed, coverage=coverage)
        if self.memory is None or self.keys is None or torch.equal(owner, self.owner):
            return replace(state, owner=owner)
        mask = None if self.mask is None else self.mask[rows]
        return replace(state, keys=self.keys[rows], memory=self.memory[rows], mask=mask, owner=owner)


class Seq2Seq(EncoderDecoder):
    """See the module's text; keyword arguments are those of `RecurrentConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        cell: str = "lstm",
        attention: str = "additive",
        attend: str = "after",
        coverage: bool = False,
        hard_attention: bool = False,
        layers: int = 1,
        embedding: int = 256,
        width: int = 512,
        bidirectional: bool = True,
        input_feeding: bool = True,
        dropout: float = 0.2,
        variational: bool = True,
        tied: str = "all",
    ) -> None:
        super().__init__()
        self.cell, self.width = cell, width
        self.scale = math.sqrt(embedding)  # embeddings are drawn small for the output layer they are tied to
        self.attends, self.looks_first, self.covers = attention != "none", attend == "before", coverage
        self.feeds = self.attends and (input_feeding or self.looks_first)  # the first layer reads beyond the token
        self.build_embeddings(source_size, target_size, embedding, embedding if tied != "none" else width, tied)
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.narrow = nn.Linear(width, embedding) if tied != "none" and embedding != width else nn.Identity()
        self.dropout = VariationalDropout(dropout) if variational else Dropout(dropout)
        self.variational = variational
        directions = 2 if bidirectional else 1
        encoder = LSTM if cell == "lstm" else GRU
        self.encoder = nn.ModuleList(
            encoder(width if layer else embedding, width // directions, bidirectional=bidirectional)
            for layer in range(layers)
        )
        decoder = LSTMCell if cell == "lstm" else GRUCell
        feed = width if self.feeds else 0
        self.decoder = nn.ModuleList(decoder(width if layer else embedding + feed, width) for layer in range(layers))
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(layers * (2 if cell == "lstm" else 1)))
        for step_cell in self.decoder:
            initialise(step_cell)
        if self.attends:
            score = AdditiveScore(width, width, coverage=True) if coverage else SCORES[attention](width, width)
            self.attend = Attention(score, hard_attention)
            self.combine = nn.Linear(2 * width, width, bias=False)

    def encode(self, source: Tensor, lengths: Tensor | None) -> tuple[Tensor, list[Layer]]:
        """(B, S) -> memory (B, S, H) and the decoder's first states."""
        values, last = self.source_embedding(source) * self.scale, []
        for layer in self.encoder:
            values, state = layer(self.dropout(values), lengths=lengths)
            parts = state if isinstance(state, tuple) else (state,)  # each (directions, B, H / directions)
            last.append([part.transpose(0, 1).flatten(1) for part in parts])  # (B, H)
        bridge = iter(self.bridge)
        first = [tuple(torch.tanh(next(bridge)(part)) for part in parts) for parts in last]
        return self.dropout(values), first

    def start(self, source: Tensor, lengths: Tensor | None) -> RecurrentState:
        """Read the sources; the keys are made here, once."""
        memory, layers = self.encode(source, lengths)
        owner = torch.arange(source.shape[0], device=source.device)
        if not self.attends:
            return RecurrentState(layers, None, None, None, None, owner)
        fed_back = self.feeds and not self.looks_first
        feed = layers[-1][0].new_zeros(source.shape[0], self.width) if fed_back else None
        coverage = memory.new_zeros(memory.shape[:2]) if self.covers else None
        mask = None if lengths is None else length_mask(lengths, source.shape[1])
        keys = self.attend.score.keys(memory)  # type: ignore[operator]
        return RecurrentState(layers, feed, keys, memory, mask, owner, coverage)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """One token a row."""
        token_gates = self._token_gates(self.target_embedding(tokens) * self.scale)
        hidden, state, weights = self._advance(token_gates, state, self._products(deferred=False), self._masks(state))
        return self.logits(self.narrow(hidden)), state, weights

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Hidden states (B, T, E) under teacher forcing, the loop over T inside."""
        hidden, _ = self._unroll(self.start(source, lengths), target)
        return self.narrow(self.dropout(hidden))

    def attention(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor | None:
        """Weights (B, 1, 1, T, S): one layer, one head."""
        if not self.attends:
            return None
        weights = self._unroll(self.start(source, lengths), target)[1]
        return torch.stack(weights, 1)[:, None, None]  # type: ignore[arg-type]

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, 1, 1, T, S) -> (B, T, S)."""
        return weights[:, 0, 0]

    def _unroll(self, state: RecurrentState, target: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        gates = self._token_gates(self.dropout(self.target_embedding(target) * self.scale)).unbind(1)  # T x (B, gates)
        products = self._products(deferred=torch.is_grad_enabled())
        masks = self._masks(state)
        hidden, attention = [], []
        for token_gates in gates:
            now, state, weights = self._advance(token_gates, state, products, masks)
            hidden.append(now)
            attention.append(weights)
        return torch.stack(hidden, 1), attention

    def _cells(self) -> list[Any]:
        """The decoder's layers, bottom first."""
        return list(self.decoder)

    def _masks(self, state: RecurrentState) -> list[Tensor | None]:
        """What variational dropout keeps, at all steps, of each layer's input from below: the feed, then states."""
        like = state.layers[0][0]
        inputs = [self.feeds, *[True] * (len(self.decoder) - 1)]
        if not isinstance(self.dropout, VariationalDropout):
            return [None for _ in inputs]
        return [self.dropout.mask(like.shape[0], self.width, like) if present else None for present in inputs]

    def _token_gates(self, embedded: Tensor) -> Tensor:
        """The part of the first layer's gates that the token alone decides, (..., E) -> (..., gates)."""
        first = self._cells()[0]
        return F.linear(embedded, first.weight_ih[:, : embedded.shape[-1]], first.bias_ih)

    def _products(self, deferred: bool) -> list[Product]:
        """Products with the weights that every step uses: the layers', then the attention's."""
        weights = []
        for depth, cell in enumerate(self._cells()):
            inputs = cell.weight_ih[:, -self.width :] if depth or self.feeds else None
            if self.cell == "lstm":  # gates of input and state are summed: one product for both
                weights.append(cell.weight_hh if inputs is None else torch.cat((inputs, cell.weight_hh), 1))
            else:
                weights.extend([cell.weight_hh] if inputs is None else [inputs, cell.weight_hh])
        if self.attends:
            weights.append(self.combine.weight)
        if deferred:
            return [DeferredLinear(weight) for weight in weights]
        return [lambda values, weight=weight: F.linear(values, weight) for weight in weights]  # type: ignore[misc]

    def _advance(
        self, token_gates: Tensor, state: RecurrentState, products: list[Product], masks: list[Tensor | None]
    ) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """One step from the token's gates (B, gates) to the hidden state (B, H) that the output layer sees."""
        product = iter(products)
        layers: list[Layer] = []
        below, context, weights = state.feed, None, None
        if self.looks_first and state.keys is not None:
            below, weights = self.attend(state.layers[-1][0], state.keys, state.memory, state.mask, state.coverage)
            context = below
        for depth, (cell, layer, mask) in enumerate(zip(self._cells(), state.layers, masks, strict=True)):
            if below is not None and mask is not None:
                below = below * mask
            constant = token_gates if depth == 0 else cell.bias_ih
            if self.cell == "lstm":
                inputs = layer[0] if below is None else torch.cat((below, layer[0]), -1)
                moved: Layer = lstm_gates(next(product)(inputs) + (constant + cell.bias_hh), layer[1])
            else:
                from_input = (
                    constant.expand(layer[0].shape[0], -1) if below is None else next(product)(below) + constant
                )
                from_hidden = next(product)(layer[0]) + cell.bias_hh
                moved = (gru_gates(from_input, from_hidden, layer[0]),)
            layers.append(moved)
            below = moved[0] if self.variational or depth + 1 == len(self.decoder) else self.dropout(moved[0])
        hidden = layers[-1][0]
        if state.memory is None or state.keys is None:
            return hidden, replace(state, layers=layers), None
        if context is None:
            context, weights = self.attend(hidden, state.keys, state.memory, state.mask, state.coverage)
        hidden = torch.tanh(next(product)(torch.cat((context, hidden), -1)))
        feed = hidden if self.feeds and not self.looks_first else None
        coverage = None if state.coverage is None or weights is None else state.coverage + weights
        return hidden, replace(state, layers=layers, feed=feed, coverage=coverage), weights
