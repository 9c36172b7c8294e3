"""The Transformer encoder-decoder from the stacks of `harken.nn.transformer.stack`.

source -> embedding + positions -> N encoder blocks -> memory
target -> embedding + positions -> N decoder blocks, each looking into the memory -> hidden states

Positions are added to the embeddings (sinusoidal, learned) or live in the self-attention of both sides (rotary,
ALiBi, relative); attention between the sides knows of none. Vaswani et al. (2017).
"""

from __future__ import annotations

from typing import Any

from harken.models.encoder_decoder import EncoderDecoder
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder


class Transformer(EncoderDecoder):
    """See the module's text; keyword arguments are those of `TransformerConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        layers: int = 3,
        encoder_layers: int | None = None,
        decoder_layers: int | None = None,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        norm: str = "pre",
        activation: str = "relu",
        attention: str = "scaled",
        positions: str = "sinusoidal",
        max_length: int = 512,
        max_distance: int = 16,
        experts: int = 0,
        experts_active: int = 2,
        balance: float = 0.01,
        tied: str = "all",
        alignment_layer: int | None = None,
        alignment_heads: list[int] | None = None,
        alignment_shift: bool = False,
    ) -> None:
        both: dict[str, Any] = {
            "width": width,
            "heads": heads,
            "feedforward": feedforward,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "feedforward_dropout": feedforward_dropout,
            "norm": norm,
            "activation": activation,
            "score": attention,
            "positions": positions,
            "max_length": max_length,
            "max_distance": max_distance,
            "experts": experts,
            "experts_active": experts_active,
            "balance": balance,
        }
        encoder = TransformerEncoder(layers=encoder_layers or layers, **both)
        decoder = TransformerDecoder(
            layers=decoder_layers or layers,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            alignment_shift=alignment_shift,
            **both,
        )
        super().__init__(source_size, target_size, encoder, decoder, tied)
