"""The convolutional encoder-decoder: ConvS2S (Gehring et al., 2017) or ByteNet (Kalchbrenner et al., 2016).

All positions of a layer are made at once, as in a Transformer, and each sees a window around it; what lies further away
comes in with the layers above. See `convolutional_encoder.py` and `convolutional_decoder.py`.
"""

from __future__ import annotations

from typing import Any

from harken.models.convolutional.decoder import ConvolutionalDecoder
from harken.models.convolutional.encoder import ConvolutionalEncoder
from harken.models.encoder_decoder import EncoderDecoder


class Convolutional(EncoderDecoder):
    """See the module's text; keyword arguments are those of `ConvolutionalConfig`."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        style: str = "convs2s",
        layers: int = 4,
        encoder_layers: int | None = None,
        decoder_layers: int | None = None,
        embedding: int = 256,
        width: int = 256,
        kernel: int = 3,
        attention: str = "style",
        dropout: float = 0.1,
        positions: str = "learned",
        max_length: int = 512,
        tied: str = "all",
        alignment_layer: int | None = None,
        alignment_shift: bool = False,
    ) -> None:
        both: dict[str, Any] = {
            "style": style,
            "width": width,
            "embedding": embedding,
            "kernel": kernel,
            "dropout": dropout,
            "positions": positions,
            "max_length": max_length,
        }
        encoder = ConvolutionalEncoder(layers=encoder_layers or layers, **both)
        decoder = ConvolutionalDecoder(
            layers=decoder_layers or layers,
            attention=attention,
            alignment_layer=alignment_layer,
            alignment_shift=alignment_shift,
            **both,
        )
        super().__init__(source_size, target_size, encoder, decoder, tied)
