"""The contracts between encoders, decoders and what is built of them.

    encoder: embeddings (B, S, E) -> Memory (B, S, W)
    decoder: Memory, then token by token (B, E) -> hidden states (B, O) for the output layer

>>> memory = Memory(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
>>> memory.summary().tolist()  # the mean over the words, without padding
[[2.0]]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.errors import UserError
from harken.nn.positions.absolute import LearnedPositions

CAPACITY = 64  # tokens that a state has room for at first; caches double where more are written


def token_embedding(size: int, width: int) -> nn.Embedding:
    """V rows from N(0, 1 / E), as the output layer may share them; the row of the padding is 0.

    Encoders and decoders multiply what they read by sqrt(E).
    """
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding


@dataclass
class Memory:
    """The sources of a batch as a decoder sees them."""

    values: Tensor  # (B, S, W)
    mask: Tensor | None  # (B, S) True where there is a word; None: no padding
    states: list[tuple[Tensor, ...]] | None = None  # recurrent encoders: last state of each layer, parts (B, W)
    embedded: Tensor | None = None  # (B, S, W) convolutional encoders: what attention adds to the values (ConvS2S)

    def summary(self) -> Tensor:
        """One vector per source, (B, W): the last state of the top layer, or else the mean over the words."""
        if self.states is not None:
            return self.states[-1][0]
        if self.mask is None:
            return self.values.mean(1)
        visible = self.mask[:, :, None]
        return torch.where(visible, self.values, 0.0).sum(1) / visible.sum(1)

    def map(self, function: Callable[[Tensor], Tensor]) -> Memory:
        """Every tensor (..., W) through `function`; the mask stays."""
        states = None if self.states is None else [tuple(function(part) for part in parts) for parts in self.states]
        embedded = None if self.embedded is None else function(self.embedded)
        return replace(self, values=function(self.values), states=states, embedded=embedded)


class DecoderState(ABC):
    """The state that a decoder carries from step to step for B sources with `beam` hypotheses each.

    There are R = B * beam rows, those of one source side by side. Tensors of the source are stored once a source and
    are not moved when hypotheses are reordered.
    """

    beam: int = 1
    need_weights: bool = False  # whether steps leave their attention weights in `attention`
    attention: Tensor | None = None  # (R, S) of the last step, where there is any

    @abstractmethod
    def map_rows_(self, function: Callable[[Tensor], Tensor]) -> None:
        """Replace every tensor that has a row for each hypothesis."""

    @abstractmethod
    def map_sources_(self, function: Callable[[Tensor], Tensor]) -> None:
        """Replace every tensor that has a row for each source."""

    def reorder_(self, beam_index: Tensor) -> None:
        """Row r goes on with the hypothesis of row beam_index[r] (R,), which belongs to the same source."""
        self.map_rows_(lambda rows: rows.copy_(rows.index_select(0, beam_index)))

    def keep_(self, sources: Tensor) -> None:
        """Drop all sources but these (B',) and their hypotheses."""
        self.map_rows_(lambda rows: rows.unflatten(0, (-1, self.beam)).index_select(0, sources).flatten(0, 1))
        self.map_sources_(lambda values: values.index_select(0, sources))

    def load_(self, fresh: DecoderState) -> None:
        """Become `fresh`, a state before the first token and of the same shapes, without a change of addresses."""
        new: list[Tensor] = []
        for map_ in (fresh.map_rows_, fresh.map_sources_):
            map_(lambda values: new.append(values) or values)  # type: ignore[func-returns-value]
        rest = iter(new)
        for map_ in (self.map_rows_, self.map_sources_):
            map_(lambda values: values.copy_(next(rest)))

    def expand_(self, beam: int) -> None:
        """From one hypothesis a source to `beam` equal ones."""
        if self.beam != 1:
            raise ValueError(f"only a state with one hypothesis a source can be expanded, not one with {self.beam}")
        if beam > 1:
            self.map_rows_(lambda rows: rows.repeat_interleave(beam, 0))
        self.beam = beam


class Encoder(nn.Module, ABC):
    """Reads sources; a subclass is built from its pydantic config: `EncoderClass(config)`."""

    embedding: int  # E, the width of the embeddings it reads
    width: int  # W, the width of its memory
    balance: float = 0.0  # weight of the experts' balance in the loss; above 0, forward takes `balance=`

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """Embeddings (B, S, E) -> memory; the encoder itself applies scaling, positions and dropout.

        Args:
            embedded: rows of the embedding matrix.
            lengths: (B,) words of each source; None: no padding.
            distances: (B, S, S) in place of j - i, for relative positions that come with the data.
        """


class Decoder(nn.Module, ABC):
    """Writes targets; a subclass is built from its pydantic config: `DecoderClass(config)`.

    `step` reads one token, `forward` a whole target under teacher forcing; both give the same numbers.
    """

    embedding: int  # E, the width of the embeddings it reads
    memory_width: int  # W, the width of the memory it attends to
    width: int  # O, the width of its hidden states
    balance: float = 0.0  # weight of the experts' balance in the loss; above 0, forward takes `balance=`
    output_bias: bool = False  # whether the output layer above it has a bias
    is_static: bool = False  # whether `start` takes `static=True`: a state of fixed shapes and addresses
    alignment_shift: bool = False  # a word's alignment is read one step after its prediction, where it is the input

    @abstractmethod
    def start(self, memory: Memory, beam: int = 1, max_length: int = CAPACITY) -> DecoderState:
        """The state before the first token, with room for `max_length` tokens; it grows where more are read."""

    @abstractmethod
    def step(self, embedded: Tensor, state: Any) -> Tensor:
        """Embeddings of one token per row (R, E) -> hidden (R, O); changes the state in place."""

    @abstractmethod
    def forward(self, embedded: Tensor, memory: Memory) -> Tensor:
        """Embeddings of the target so far, BOS first, (B, T, E) -> hidden (B, T, O)."""

    @abstractmethod
    def attention(self, embedded: Tensor, memory: Memory) -> Tensor | None:
        """All weights (B, L, N, T, S) of reading a target under teacher forcing; None without attention."""

    @abstractmethod
    def alignment(self, weights: Tensor) -> Tensor:
        """The part of `attention`'s (B, L, N, T, S) that is read as word alignment: (B, T, S)."""


def require_numbers(output: Any) -> None:
    """Check what a network computed: a tensor, or a tuple with tensors in it. -inf is a log-probability; NaN is not.

    Raises:
        UserError: a value is NaN or infinite.
    """
    if isinstance(output, Tensor) and output.is_floating_point():
        if bool((torch.isnan(output) | torch.isposinf(output)).any()):
            raise UserError("the model's outputs are not finite numbers; its training has diverged, so train it again")
    elif isinstance(output, tuple):
        for part in output:
            require_numbers(part)


def check_outputs(module: nn.Module, inputs: Any, output: Any) -> None:
    """`require_numbers` as a forward hook."""
    require_numbers(output)


def refuse_too_long(positions: nn.Module | None, length: int) -> None:
    """Check the length of a sequence against the positions that were learned.

    Raises:
        UserError: there are positions for fewer tokens than `length`.
    """
    if isinstance(positions, LearnedPositions) and length > positions.embedding.num_embeddings:
        raise UserError(
            f"a sequence of {length} tokens is too long: positions were learned for "
            f"{positions.embedding.num_embeddings}; shorten the text, or train with a larger model.max_length"
        )
