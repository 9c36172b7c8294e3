"""Any encoder with any decoder (S17): embeddings, an encoder, a decoder, an output layer.

source ids -> embeddings -> encoder -> memory -> (a linear map where widths differ) -> decoder -> output layer

>>> import torch
>>> from harken.models.recurrent_decoder import RecurrentDecoder
>>> from harken.models.transformer_encoder import TransformerEncoder
>>> encoder = TransformerEncoder(width=8, heads=2, feedforward=16, layers=1)
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
from harken.models.translation_model import PAD, TranslationModel
from harken.nn.balance import Balance


class EncoderDecoder(TranslationModel):
    """See the module's text."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        encoder: Encoder,
        decoder: Decoder,
        tied: str = "all",
        balance: float = 0.01,
    ) -> None:
        super().__init__()
        self.balance = balance  # the weight of the experts' balance in the loss, where there are any
        self.build_vocabulary(
            (source_size, target_size),
            (encoder.embedding, decoder.embedding),
            decoder.width,
            tied,
            decoder.output_bias,
        )
        self.encoder, self.decoder = encoder, decoder
        same = encoder.width == decoder.memory_width
        self.join = None if same else nn.Linear(encoder.width, decoder.memory_width)
        self.alignment_shift = decoder.alignment_shift

    def encode(self, source: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S) -> what the decoder looks into."""
        return self._joined(self.encoder(self.source_embedding(source), lengths, distances))

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Hidden states (B, T, D) under teacher forcing."""
        return self.narrow(self.decoder(self.target_embedding(target), self.encode(source, lengths)))

    def start(self, source: Tensor, lengths: Tensor | None) -> State:
        """Read the sources once."""
        return self.decoder.start(self.encode(source, lengths))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any, Tensor | None]:
        """One token a row."""
        hidden, state, attention = self.decoder.step(self.target_embedding(tokens), state)
        return self.logits(self.narrow(hidden)), state, attention

    def attention(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor | None:
        """Weights (B, L, N, T, S)."""
        return self.decoder.attention(self.target_embedding(target), self.encode(source, lengths))

    def loss(
        self, source: Tensor, lengths: Tensor | None, target: Tensor, wanted: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed loss over the real tokens of `wanted` (B, T); in training each also bears the experts' balance."""
        if not (self.training and (self.encoder.experts or self.decoder.experts)):
            return super().loss(source, lengths, target, wanted, smoothing)
        reading, writing = Balance(), Balance(wanted != PAD)
        more = {"balance": reading} if self.encoder.experts else {}
        memory = self._joined(self.encoder(self.source_embedding(source), lengths, **more))
        more = {"balance": writing} if self.decoder.experts else {}
        hidden = self.narrow(self.decoder(self.target_embedding(target), memory, **more))
        tokens = (wanted != PAD).sum()
        uneven = reading.total().to(hidden.device) + writing.total().to(hidden.device)
        return self.loss_of_hidden(hidden, wanted, smoothing) + self.balance * tokens * uneven

    def alignment(self, weights: Tensor) -> Tensor:
        """(B, L, N, T, S) -> (B, T, S), as the decoder reads it."""
        return self.decoder.alignment(weights)

    def _joined(self, memory: Memory) -> Memory:
        return memory if self.join is None else memory.through(self.join)
