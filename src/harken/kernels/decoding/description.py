"""Models described by their tensors: what the compiled decoders, CUDA graphs and exporters read of a model.

Models build a description (`harken.models.transformer.description`, `harken.models.recurrent.description`); whoever
runs or writes a model without its modules reads it by name, such as `layer.self_attention.query_key_value.weight`:

    Transformer           encoder and decoder: Stack          target_embedding, output
      Stack               layers: StackLayer                  norm, width, heads, positions ...
        StackLayer        self_attention, cross_attention, feed_forward, each with its norm
    Recurrent             cells: Cell                         query, combine, narrow, output ...
    RecurrentStack        layers of Cells by direction        connections; an encoder or a layer of `harken.nn`

A description says all that the model computes when it evaluates. Parts that have no place in it, and subclasses or
modules with hooks, which may compute something else, raise `Undescribed` with the option's name. A reader that supports
less checks the fields itself. Tensors are the model's own, not copies; those of a stored description are numpy arrays
(`harken.kernels.decoding.stored`).

Nothing here imports numba or a model, so that the decision to use the kernels can be made without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


Table = Callable[[int], "Tensor"]  # length -> (length, width)


class Undescribed(Exception):
    """A model has a part that no description has a place for; the message is the option, such as `model.experts`."""


class SpecialTokens(NamedTuple):
    """The ids that a search knows; kernels do not import `harken.data.tokenizers.tokens`."""

    pad: int
    bos: int  # never written, as is `pad`
    eos: int


class Linear(NamedTuple):
    """y = W x + b."""

    weight: Tensor  # (O, K)
    bias: Tensor | None
    is_output: bool = False  # the last layer: outputs that fill its last panel are never chosen


class Norm(NamedTuple):
    """Layer normalisation, or without a bias RMS norm."""

    weight: Tensor
    bias: Tensor | None
    epsilon: float


class Buckets(NamedTuple):
    """Biases of the scores by ranges of distances; see `harken.nn.positions.buckets`."""

    bias: Tensor  # (B, N)
    max_distance: int


@dataclass(frozen=True)
class SelfAttention:
    """Self-attention with the norm before or after it."""

    query_key_value: Linear  # (3 D, D)
    output: Linear
    norm: Norm


@dataclass(frozen=True)
class SSRU:
    """The recurrent unit in the place of self-attention; the bias of the candidate is 0."""

    forget_candidate: Linear  # (2 D, D)
    norm: Norm


@dataclass(frozen=True)
class CrossAttention:
    """Attention to the memory with the norm before or after it."""

    query: Linear
    key_value: Linear  # (2 D, D)
    output: Linear
    norm: Norm


@dataclass(frozen=True)
class FeedForward:
    """The feed-forward layer with the norm before or after it; a gated one's `expand` has gate and candidate in one."""

    expand: Linear
    contract: Linear
    norm: Norm


@dataclass(frozen=True)
class StackLayer:
    """One Transformer block; encoders and decoders without an encoder have no cross-attention."""

    self_attention: SelfAttention | SSRU
    cross_attention: CrossAttention | None
    feed_forward: FeedForward


@dataclass(frozen=True)
class Stack:
    """One side of a Transformer, or all of a decoder-only one."""

    layers: tuple[StackLayer, ...]
    norm: Norm | None  # after all layers, where `pre`
    width: int
    heads: int
    feedforward: int
    pre: bool  # norm before the sub-layers, not after
    activation: str  # relu, gelu, gelu_tanh, silu, swiglu or geglu
    scaled: bool  # scores divided by sqrt(K)
    positions: Table | None = None  # added to the embeddings
    angles: Table | None = None  # of rotary positions
    slopes: Tensor | None = None  # (N,) of ALiBi
    buckets: Buckets | None = None
    biases: Table | None = None  # length -> (N, 2 length - 1): slopes or buckets by distance, from 1 - length on
    max_length: int | None = None  # of learned positions
    embedding_scale: float = 1.0
    embedding_norm: Norm | None = None  # of the embeddings with their positions

    @property
    def ssru(self) -> bool:
        """Whether a recurrent unit takes the place of self-attention."""
        return isinstance(self.layers[0].self_attention, SSRU)

    @property
    def head_width(self) -> int:
        """K."""
        mixer, cross = self.layers[0].self_attention, self.layers[0].cross_attention
        layer = mixer if isinstance(mixer, SelfAttention) else cross
        assert layer is not None
        return layer.output.weight.shape[1] // self.heads

    @property
    def is_rms(self) -> bool:
        """Whether the norms are RMS norms."""
        return self.layers[0].feed_forward.norm.bias is None

    @property
    def epsilon(self) -> float:
        """The epsilon of all norms."""
        return self.layers[0].feed_forward.norm.epsilon


@dataclass(frozen=True)
class Transformer:
    """An encoder-decoder; where the encoder is of another kind, it is None and its memory is computed by the model."""

    encoder: Stack | None
    source_embedding: Tensor
    decoder: Stack
    target_embedding: Tensor
    output: Linear
    alignment_layer: int = 0  # the layer of the decoder whose attention is the alignment
    alignment_heads: tuple[int, ...] = ()  # its heads, of which the mean is taken; empty: all


@dataclass(frozen=True)
class Cell:
    """A recurrent cell: W, U and both biases in the layout of `torch.nn`; rows of i, f, g, o or r, z, n.

    A coupled LSTM has no i: rows of f, g, o. Peephole weights (gates, H) are those of i, f, o, or f, o.
    """

    kind: str  # rnn, lstm or gru
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    peephole: Tensor | None = None
    coupled: bool = False
    reset: str = "after"  # whether the reset gate of a GRU acts on U h ("after") or on h ("before")
    nonlinearity: str = "tanh"  # of an RNN

    @property
    def width(self) -> int:
        """H."""
        return self.weight_hh.shape[1]

    @property
    def parts(self) -> int:
        """Tensors of the state: h, and of an LSTM c."""
        return 2 if self.kind == "lstm" else 1


@dataclass(frozen=True)
class Connections:
    """Connections between recurrent layers; see `harken.nn.recurrent.connections`."""

    kind: str | None  # residual, highway, dense or None
    first: int  # the first layer that has them
    gates: tuple[Linear, ...] = ()  # of highway connections, from layer `first` on


@dataclass(frozen=True)
class RecurrentStack:
    """Recurrent layers over whole sequences; each has one cell for each direction."""

    layers: tuple[tuple[Cell, ...], ...]
    connections: Connections


@dataclass(frozen=True)
class RecurrentEncoder:
    """The recurrent encoder of a translator."""

    embedding: Tensor  # (V, E)
    scale: float  # of the embeddings
    stack: RecurrentStack
    join: Linear | None  # to the width of the decoder


@dataclass(frozen=True)
class Recurrent:
    """A model with a recurrent decoder; where the encoder is of another kind, it is None and the model computes it."""

    cells: tuple[Cell, ...]
    connections: Connections
    output: Linear
    embedding: int  # E
    width: int  # H
    target_embedding: Tensor
    embedding_scale: float
    bridge: tuple[Linear, ...] = ()  # to the first states, for every part of every layer
    keys: Linear | None = None  # from the memory to the keys of the additive and multiplicative scores
    query: Linear | None = None  # of the additive score
    combine: Linear | None = None  # of [context; state], with attention
    narrow: Linear | None = None  # between the decoder and the output layer
    score: str | None = None  # additive, dot or cosine; None: no attention
    scale: float = 1.0  # of the scores
    energy: Tensor | None = None  # (A,) the vector v of the additive score
    coverage: Tensor | None = None  # (A,) what it adds for the sum of earlier weights
    attends_before: bool = False
    feeds_back: bool = False  # the last attentional state is an input
    reads: tuple[bool, ...] = (False,)  # the layers that read the context or the last attentional state
    query_layer: int = 0
    constant_context: bool = False  # without attention, every step reads a summary of the source
    zoneout: float = 0.0
    encoder: RecurrentEncoder | None = None
