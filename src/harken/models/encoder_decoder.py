"""Encoder-decoders: any encoder with any decoder, between embeddings and an output layer.

P(y | x) = product over t of P(y_t | y_<t, x)

source ids -> embeddings -> encoder -> memory -> (a linear map where widths differ) -> decoder -> output layer

>>> from harken.models.build import build_model
>>> from harken.models.config import TransformerConfig
>>> recurrent = {"architecture": "recurrent", "embedding": 8, "width": 6}
>>> model = build_model(TransformerConfig(layers=1, width=8, heads=2, feedforward=16, decoder=recurrent), 20, 20)
>>> source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 3))
>>> model.logits(model(source, None, target)).shape
torch.Size([2, 3, 20])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.errors import UserError
from harken.kernels.decoding.description import Recurrent, Transformer, Undescribed
from harken.models.base import CAPACITY, Decoder, DecoderState, Encoder, Memory, token_embedding
from harken.nn.fake_int8 import fake_int8, round_to_int8
from harken.nn.loss import linear_cross_entropy
from harken.nn.transformer.experts import Balance


class TranslationModel(nn.Module, ABC):
    """Source ids (B, S) with lengths (B,) in, target distributions out.

    A subclass implements `start` (sources to a state), `step` (one token), and `forward` (a whole target under teacher
    forcing); `step` and `forward` give the same numbers.
    """

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    output_bias: nn.Parameter | None
    output_weight: Tensor  # (V, D); tied: the target embedding's
    narrow: nn.Module  # from the decoder's width to that of a tied output matrix
    alignment_shift: bool = False  # see Decoder
    rounds_to_int8: bool = False  # whether products are rounded, see `round_to_int8`
    balances: bool = False  # whether the loss has a term for the balance of experts

    def build_vocabulary(
        self, sizes: tuple[int, int], widths: tuple[int, int], hidden_width: int, tied: str, bias: bool
    ) -> None:
        """Create the source embedding, the target embedding and the output matrix, shared as `tied` says.

        Args:
            sizes: words of the source and of the target.
            widths: of their embeddings.
            hidden_width: of the inputs of the output layer.
            tied: "all", "embeddings", "output" or "none".
            bias: whether the output layer has one.

        Raises:
            ValueError: matrices to be shared differ in shape.
        """
        (source_size, target_size), (source_width, target_width) = sizes, widths
        is_shared, is_own_output = tied in ("all", "embeddings"), tied in ("none", "embeddings")
        if is_shared and source_size != target_size:
            raise ValueError("tied embeddings need one vocabulary for both sides: set tokenizer.joint = true")
        if is_shared and source_width != target_width:
            raise ValueError(
                f"tied embeddings need one width for both sides, but the encoder reads {source_width} and the decoder "
                f'{target_width}: make them equal, or set model.tied = "output"'
            )
        self.source_embedding = token_embedding(source_size, source_width)
        self.target_embedding = self.source_embedding if is_shared else token_embedding(target_size, target_width)
        self.output_bias = nn.Parameter(torch.zeros(target_size)) if bias else None
        if is_own_output:
            self.output_weight = nn.Parameter(torch.empty(target_size, hidden_width))
            nn.init.normal_(self.output_weight, std=hidden_width**-0.5)
        else:
            self.output_weight = self.target_embedding.weight
        differ = not is_own_output and target_width != hidden_width
        self.narrow = nn.Linear(hidden_width, target_width) if differ else nn.Identity()

    @abstractmethod
    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Source (B, S), target so far (B, T), BOS first -> hidden states (B, T, D) before the output layer.

        Lengths (B,) are those of the sources; None: no padding. Distances (B, S, S) are for relative positions that
        come with the data.
        """

    @abstractmethod
    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`forward`, and the weighted sum of the experts' balances over the tokens where real (B, T) is True."""

    @abstractmethod
    def start(
        self,
        source: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        *,
        beam: int = 1,
        max_length: int = CAPACITY,
    ) -> DecoderState:
        """The state after the sources and before the first token, with `beam` hypotheses a source.

        Caches are allocated for `max_length` tokens and grow where more are read.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """Tokens (R,) -> logits (R, V) of the next; changes the state in place."""

    @abstractmethod
    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor | None:
        """All weights (B, L, N, T, S) of reading `target` under teacher forcing; None without attention."""

    @abstractmethod
    def alignment(self, weights: Tensor) -> Tensor:
        """The part of `attention`'s (B, L, N, T, S) that is read as word alignment: (B, T, S)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return F.linear(*self._output_operands(hidden), self.output_bias)

    def loss(
        self,
        source: Tensor,
        lengths: Tensor | None,
        target: Tensor,
        labels: Tensor,
        smoothing: float = 0.0,
        distances: Tensor | None = None,
        z_loss: float = 0.0,
    ) -> Tensor:
        """Summed loss over the real tokens of `labels` (B, T), which is `target` one step ahead with EOS.

        In training the weighted balance of experts is added to the loss of each token, where there are any. `z_loss` is
        the weight of (log Z)^2 (`harken.nn.loss`).
        """
        if not (self.training and self.balances):
            return self.loss_of_hidden(self(source, lengths, target, distances), labels, smoothing, z_loss)
        real = labels != PAD
        hidden, uneven = self.forward_with_balance(source, lengths, target, real, distances)
        return self.loss_of_hidden(hidden, labels, smoothing, z_loss) + real.sum() * uneven

    def loss_of_hidden(self, hidden: Tensor, labels: Tensor, smoothing: float, z_loss: float = 0.0) -> Tensor:
        """The summed loss of hidden states (..., D) before the output layer, and labels (...)."""
        flat, labels = self._output_operands(hidden.reshape(-1, hidden.shape[-1])), labels.reshape(-1)
        return linear_cross_entropy(*flat, self.output_bias, labels, smoothing, z_loss, PAD)

    def _output_operands(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The factors of the output layer's product."""
        if self.rounds_to_int8:
            return fake_int8(hidden), fake_int8(self.output_weight)
        return hidden, self.output_weight

    def round_to_int8(self) -> None:
        """Compute every product from now on as the compiled search does in int8, with gradients for training.

        Raises:
            UserError: the compiled search does not support the network in int8, encoder included.
        """
        described = getattr(self, "describe_for_decoding", lambda **_: None)(device=None)
        if not isinstance(described, Transformer) or described.encoder is None:
            raise UserError(
                "adapt.int8 is for Transformers that are decoded in int8, and this network has other parts; "
                "leave adapt.int8 out"
            )
        round_to_int8(self)
        self.rounds_to_int8 = True

    def matrix_sizes(self) -> tuple[int, int]:
        """Weights that a source token and a target token are multiplied with; a table of embeddings is not one."""
        sizes = [0, 0]
        for name, value in self.named_parameters():
            if value.dim() >= 2 and "embedding" not in name and value is not self.output_weight:
                sizes[not name.startswith("encoder.") and ".cross.key_value." not in name] += value.numel()
        return sizes[0], sizes[1] + self.output_weight.numel()

    def dry_run(self, length: int) -> Tensor:
        """Logits (1, T, V) of a source and a target of `length` tokens (`harken.models.sizing`)."""
        ids = torch.full((1, length), PAD, device=self.output_weight.device)
        return self.logits(self(ids, None, ids))


class EncoderDecoder(TranslationModel):
    """See the module's docstring; `harken.models.build.build_model` builds one from its config."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        encoder: Encoder,
        decoder: Decoder,
        tied: str = "all",
    ) -> None:
        super().__init__()
        self.build_vocabulary(
            (source_size, target_size),
            (encoder.embedding, decoder.embedding),
            decoder.width,
            tied,
            decoder.output_bias,
        )
        self.encoder: Encoder = encoder
        self.decoder: Decoder = decoder
        same = encoder.width == decoder.memory_width
        self.join = None if same else nn.Linear(encoder.width, decoder.memory_width)
        self.alignment_shift = decoder.alignment_shift
        self.balances = encoder.balance > 0 or decoder.balance > 0

    def encode(self, source: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S) -> the memory that the decoder attends to."""
        return self._join(self.encoder(self.source_embedding(source), lengths, distances))

    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self.narrow(self.decoder(self.target_embedding(target), self.encode(source, lengths, distances)))

    def start(
        self,
        source: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        *,
        beam: int = 1,
        max_length: int = CAPACITY,
    ) -> DecoderState:
        """The state after the sources."""
        return self.decoder.start(self.encode(source, lengths, distances), beam, max_length)

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """One token per row."""
        return self.logits(self.narrow(self.decoder.step(self.target_embedding(tokens), state)))

    def describe_for_decoding(self, device: str | None = "cpu") -> Transformer | Recurrent | None:
        """The model's tensors for the compiled decoders; None where it has parts without a description.

        For a `device` the tensors must be there and in float32; None takes any.
        """
        from harken.models.recurrent.description import describe_recurrent
        from harken.models.transformer.description import describe_transformer

        if device is not None and any(
            weight.device.type != device or weight.dtype != torch.float32 for weight in self.parameters()
        ):
            return None
        for describe in (describe_transformer, describe_recurrent):
            with suppress(Undescribed):
                return describe(self)
        return None

    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor | None:
        """Weights (B, L, N, T, S)."""
        return self.decoder.attention(self.target_embedding(target), self.encode(source, lengths, distances))

    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`forward`, and the balance of the experts of both sides, times their weights."""
        reading, writing = Balance(), Balance(real)
        to_encoder = {"balance": reading} if self.encoder.balance else {}
        to_decoder = {"balance": writing} if self.decoder.balance else {}
        memory = self._join(self.encoder(self.source_embedding(source), lengths, distances, **to_encoder))
        hidden = self.narrow(self.decoder(self.target_embedding(target), memory, **to_decoder))
        uneven = self.encoder.balance * reading.total() + self.decoder.balance * writing.total()
        return hidden, uneven.to(hidden.device)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S), as the decoder reads it."""
        return self.decoder.alignment(weights)

    def _join(self, memory: Memory) -> Memory:
        return memory if self.join is None else memory.map(self.join)
