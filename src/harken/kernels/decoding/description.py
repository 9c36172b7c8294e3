"""Encoder-decoders described by their tensors: what models give to the compiled decoders.

Nothing here imports numba, so that a model can be described, and the decision to use the kernels be made, without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

Table = Callable[[int], Tensor]  # length -> (length, width)


class Linear(NamedTuple):
    """y = W x + b."""

    weight: Tensor  # (O, K)
    bias: Tensor | None
    is_output: bool = False  # the last layer: outputs that fill its last panel are never chosen


class Norm(NamedTuple):
    """Layer normalisation."""

    weight: Tensor
    bias: Tensor
    epsilon: float


@dataclass(frozen=True)
class Stack:
    """One side of a model.

    The linear maps of a layer are, in this order: queries, keys and values in one; the output of self-attention; both
    maps of the feed-forward layer; in a decoder also the query, keys and values in one, and output of cross-attention.
    With an SSRU forget gate and candidate in one take the place of the first two.
    Norms: that of self-attention, of the feed-forward layer, of cross-attention; with the norm first, a last one after
    all layers.
    """

    linears: list[Linear]
    norms: list[Norm]
    layers: int
    width: int
    heads: int
    feedforward: int
    pre: bool  # norm before the sub-layers, not after
    activation: str  # relu, gelu or swiglu
    scaled: bool  # scores divided by sqrt(K)
    positions: Table | None = None  # added to the embeddings
    angles: Table | None = None  # of rotary positions
    slopes: Tensor | None = None  # (N,) of ALiBi
    max_length: int | None = None  # of learned positions
    ssru: bool = False  # a decoder with an SSRU in the place of self-attention


@dataclass(frozen=True)
class Transformer:
    """A whole model; where the encoder is of another kind, it is None and its memory is computed by the model."""

    encoder: Stack | None
    source_embedding: Tensor
    decoder: Stack
    target_embedding: Tensor
    output: Linear


class CellWeights(NamedTuple):
    """One layer: W, U and both biases in the layout of `torch.nn`; rows of i, f, g, o or r, z, n."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None


@dataclass(frozen=True)
class Recurrent:
    """A model with a recurrent decoder, whose memory, keys and first states are computed by the model itself.

    Cells are "rnn", "lstm", "gru" or, where the reset gate acts on h, "gru-before". The linear maps after them: of the
    query, for the additive score; of [context; state], with attention; `narrow`; and the output layer.
    """

    cells: list[CellWeights]
    linears: list[Linear]
    cell: str
    layers: int
    embedding: int  # E
    width: int  # H
    target_embedding: Tensor
    embedding_scale: float
    score: str | None = None  # additive, dot or cosine; None: no attention
    scale: float = 1.0  # of the scores
    energy: Tensor | None = None  # (A,) the vector v of the additive score
    coverage: Tensor | None = None  # (A,) what it adds for the sum of earlier weights
    attends_before: bool = False
    feeds_back: bool = False  # the last attentional state is an input
    reads: tuple[bool, ...] = (False,)  # the layers that read the context or the last attentional state
    query_layer: int = 0
    residual_from: int = 1 << 30  # the first layer whose input is added to its output
    zoneout: float = 0.0
    narrows: bool = False  # whether there is a map between the decoder and the output layer


class Snapshot:
    """The modules, parameters and, if asked, buffers of a model, to notice when one is replaced, moved or changed.

    Torch counts changes in place, but not those of fused optimizers and CUDA graphs: after such an update, what was
    derived from the weights has to be forgotten (`harken.search.graphs.forget_searches`).
    """

    def __init__(self, model: nn.Module, buffers: bool = False) -> None:
        self._parts: list[tuple[dict[str, Any], str, Any]] = []
        for module in model.modules():
            tables: list[dict[str, Any]] = [module._modules, module._parameters]
            for members in [*tables, module._buffers] if buffers else tables:
                self._parts += [(members, name, member) for name, member in members.items()]
        self._parameters = [part for _, _, part in self._parts if isinstance(part, Tensor)]
        self.versions = self._current()

    def _current(self) -> list[tuple[int, int]]:
        """Where each parameter lies and how often it was changed in place."""
        return [(one.data_ptr(), 0 if one.is_inference() else one._version) for one in self._parameters]

    def is_current(self) -> bool:
        """Whether the model is still the same, weights included."""
        return self._has_same_parts() and self.versions == self._current()

    def is_in_place(self) -> bool:
        """Whether all tensors are still the same and where they were; their values may have changed."""
        before = [address for address, _ in self.versions]
        return self._has_same_parts() and before == [one.data_ptr() for one in self._parameters]

    def _has_same_parts(self) -> bool:
        return all(members.get(name) is part for members, name, part in self._parts)
