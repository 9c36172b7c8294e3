"""How large a network is and how much one token costs, by arithmetic from its configuration alone (no torch).

    linear(m -> n)      m n + n
    LSTM           4 (m n + n^2 + 2 n), torch's two biases;  GRU: 3 (...)
    attention           4 D^2 + 4 D;  feed-forward: 2 D F + F + D, with SwiGLU 3 D F + 2 F + D;  norm: 2 D
    positions           learned: length D;  relative: 2 (2 C + 1) K for each self-attention
    training a token    6 FLOPs for each matrix entry it meets: 2 forward, 4 backward (Kaplan et al., 2020)

>>> from harken.models.config import TransformerConfig
>>> size_of(TransformerConfig(layers=1, width=4, heads=2, feedforward=8), 10, 10).parameters
{'embeddings': 40, 'encoder': 180, 'decoder': 268, 'output': 0}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harken.models.convolutional.size import convolutional_decoder, convolutional_encoder, filters_encoder
from harken.models.recurrent.size import recurrent_decoder, recurrent_encoder
from harken.models.size_side import Side
from harken.models.transformer.size import stack, transformer_decoder, transformer_encoder

if TYPE_CHECKING:
    from harken.models.config import Architecture, DecoderOnlyConfig

FLOAT = 4  # bytes

ENCODERS: dict[str, Callable[[Any], Side]] = {
    "transformer": transformer_encoder,
    "recurrent": recurrent_encoder,
    "convolutional": convolutional_encoder,
    "filters": filters_encoder,
}
DECODERS: dict[str, Callable[[Any], Side]] = {
    "transformer": transformer_decoder,
    "recurrent": recurrent_decoder,
    "convolutional": convolutional_decoder,
}


@dataclass(frozen=True, slots=True)
class Size:
    """Counts for one network."""

    parameters: dict[str, int]  # by part; shared matrices are counted once
    source_matrices: int  # matrix entries that a source token meets
    target_matrices: int  # matrix entries that a target token meets, the output layer included
    activations: int  # numbers kept for the backward pass, for one source and one target token

    @property
    def total(self) -> int:
        """All trained parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_target_token(self) -> int:
        """Floating-point operations of training on one target token and its share of the source."""
        return 6 * (self.source_matrices + self.target_matrices)

    def training_bytes(self, batch_tokens: int, averaged: bool = True) -> int:
        """Memory for weights, gradients, Adam's two moments, their average, and the activations of one batch."""
        copies = 5 if averaged else 4
        return FLOAT * (copies * self.total + batch_tokens * self.activations)


def size_of(config: Architecture, source_size: int, target_size: int) -> Size:
    """Count what `build_model(config, source_size, target_size)` would build."""
    if config.architecture == "decoder-only":
        return _decoder_only(config, source_size, target_size)
    encoder, table = ENCODERS[config.architecture](config), config.decoder or config
    decoder = DECODERS[table.architecture](table)
    join = 0 if encoder.width == decoder.memory else encoder.width * decoder.memory
    parameters = {
        "encoder": encoder.parameters,
        "decoder": decoder.parameters + join + (decoder.memory if join else 0),
    }
    source = encoder.matrices + decoder.source_matrices + join
    kept = encoder.activations + decoder.activations
    return _with_vocabulary(config.tied, source_size, target_size, encoder, decoder, parameters, source, kept)


def _decoder_only(config: DecoderOnlyConfig, source_size: int, target_size: int) -> Size:
    side = stack(config, config.layers)
    parts = {"encoder": 0, "decoder": side.parameters}
    return _with_vocabulary(
        config.tied, source_size, target_size, side, side, parts, side.matrices, 2 * side.activations
    )


def _with_vocabulary(
    tied: str,
    source_size: int,
    target_size: int,
    encoder: Side,
    decoder: Side,
    parts: dict[str, int],
    source_matrices: int,
    activations: int,
) -> Size:
    """Add embeddings and output layer: shared matrices once, and a map where a shared one has another width."""
    embeddings = source_size * encoder.embedding + (0 if tied == "all" else target_size * decoder.embedding)
    narrow = decoder.width * decoder.embedding if tied != "none" and decoder.embedding != decoder.width else 0
    output = target_size * decoder.width if tied == "none" else 0
    biases = (target_size if decoder.output_bias else 0) + (decoder.embedding if narrow else 0)
    seen = decoder.width if tied == "none" else decoder.embedding
    return Size(
        parameters={"embeddings": embeddings, **parts, "output": output + narrow + biases},
        source_matrices=source_matrices,
        target_matrices=decoder.matrices + narrow + target_size * seen,
        activations=activations + 2 * target_size,
    )
