"""Any encoder with any decoder: embeddings, an encoder, a decoder, an output layer.

source ids -> embeddings -> encoder -> memory -> (a linear map where widths differ) -> decoder -> output layer

>>> import torch
>>> from harken.models.config import TransformerConfig
>>> from harken.models.recurrent.decoder import RecurrentDecoder
>>> from harken.models.transformer.encoder import TransformerEncoder
>>> encoder = TransformerEncoder(TransformerConfig(width=8, heads=2, feedforward=16, layers=1))
>>> model = EncoderDecoder(20, 20, encoder, RecurrentDecoder(embedding=8, width=6))
>>> source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 3))
>>> model.logits(model(source, None, target)).shape
torch.Size([2, 3, 20])
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from harken.models.decoder import Decoder, State
from harken.models.encoder import Encoder
from harken.models.memory import Memory
from harken.models.translation_model import TranslationModel
from harken.nn.transformer.balance import Balance


class EncoderDecoder(TranslationModel):
    """See the module's text."""

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
        """(B, S) -> what the decoder looks into."""
        return self._joined(self.encoder(self.source_embedding(source), lengths, distances))

    def forward(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self.narrow(self.decoder(self.target_embedding(target), self.encode(source, lengths, distances)))

    def start(self, source: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> State:
        """Read the sources once."""
        return self.decoder.start(self.encode(source, lengths, distances))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any, Tensor | None]:
        """One token a row."""
        hidden, state, attention = self.decoder.step(self.target_embedding(tokens), state)
        return self.logits(self.narrow(hidden)), state, attention

    def attention(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, distances: Tensor | None = None
    ) -> Tensor | None:
        """Weights (B, L, N, T, S)."""
        return self.decoder.attention(self.target_embedding(target), self.encode(source, lengths, distances))

    def forward_with_balance(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, real: Tensor, distances: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and how unevenly experts were used on both sides, each by its weight."""
        reading, writing = Balance(), Balance(real)
        to_encoder = {"balance": reading} if self.encoder.balance else {}
        to_decoder = {"balance": writing} if self.decoder.balance else {}
        memory = self._joined(self.encoder(self.source_embedding(source), lengths, distances, **to_encoder))
        hidden = self.narrow(self.decoder(self.target_embedding(target), memory, **to_decoder))
        uneven = self.encoder.balance * reading.total() + self.decoder.balance * writing.total()
        return hidden, uneven.to(hidden.device)

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S), as the decoder reads it."""
        return self.decoder.alignment(weights)

    def _joined(self, memory: Memory) -> Memory:
        return memory if self.join is None else memory.through(self.join)
