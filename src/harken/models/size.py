"""How large a network is and how much one token costs, by arithmetic from its configuration alone (no torch).

    linear(m -> n)      m n + n
    LSTM (E3)           4 (m n + n^2 + 2 n), torch's two biases;  GRU: 3 (...)
    attention           4 D^2 + 4 D;  feed-forward: 2 D F + F + D, with SwiGLU 3 D F + 2 F + D;  norm: 2 D
    positions           learned: length D;  relative: 2 (2 C + 1) K for each self-attention
    training a token    6 FLOPs for each matrix entry it meets: 2 forward, 4 backward (Kaplan et al., 2020)

>>> from harken.models.config import TransformerConfig
>>> size_of(TransformerConfig(layers=1, width=4, heads=2, feedforward=8), 10, 10).parameters
{'embeddings': 40, 'encoder': 180, 'decoder': 268, 'output': 0}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.models.config import RecurrentConfig, TransformerConfig

FLOAT = 4  # bytes
TYPICAL_SOURCE = 24  # pieces of a source sentence, where the cost of attention depends on it


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


def size_of(config: TransformerConfig | RecurrentConfig, source_size: int, target_size: int) -> Size:
    """Count what `build_model(config, source_size, target_size)` would build."""
    if config.architecture == "transformer":
        return _transformer(config, source_size, target_size)
    return _recurrent(config, source_size, target_size)


def _embeddings(tied: str, source_size: int, target_size: int, width: int, output_width: int) -> dict[str, int]:
    embeddings = source_size * width + (0 if tied == "all" else target_size * width)
    return {"embeddings": embeddings, "output": target_size * output_width if tied == "none" else 0}


def _transformer(config: TransformerConfig, source_size: int, target_size: int) -> Size:
    width, inner = config.width, config.feedforward
    encoder_layers, decoder_layers = config.encoder_layers or config.layers, config.decoder_layers or config.layers
    square = width * width // config.heads  # a matrix (K, K) for each head
    of_score = {"cosine": config.heads, "multiplicative": square, "additive": 2 * square + width}
    attention, norm = 4 * width * width + 4 * width + of_score.get(config.attention, 0), 2 * width
    maps = 3 if config.activation == "swiglu" else 2  # between D and F
    feedforward = maps * width * inner + (maps - 1) * inner + width
    by_distance = 2 * (2 * config.max_distance + 1) * (width // config.heads) if config.positions == "relative" else 0
    by_place = 2 * config.max_length * width if config.positions == "learned" else 0
    last_norm = norm if config.norm == "pre" else 0
    vocabulary = _embeddings(config.tied, source_size, target_size, width, width)
    return Size(
        parameters={
            "embeddings": vocabulary["embeddings"] + by_place,
            "encoder": encoder_layers * (attention + by_distance + feedforward + 2 * norm) + last_norm,
            "decoder": decoder_layers * (2 * attention + by_distance + feedforward + 3 * norm) + last_norm,
            "output": vocabulary["output"],
        },
        source_matrices=encoder_layers * (4 * width**2 + maps * width * inner) + decoder_layers * 2 * width**2,
        target_matrices=decoder_layers * (6 * width**2 + maps * width * inner) + target_size * width,
        activations=encoder_layers * (10 * width + 2 * (maps - 1) * inner)
        + decoder_layers * (16 * width + 2 * (maps - 1) * inner)
        + 2 * target_size,
    )


def _recurrent(config: RecurrentConfig, source_size: int, target_size: int) -> Size:
    width, embedding, layers = config.width, config.embedding, config.layers
    gates, states = (4, 2) if config.cell == "lstm" else (3, 1)
    directions = 2 if config.bidirectional else 1
    attends = config.attention != "none"
    output_width = width if config.tied == "none" else embedding
    vocabulary = _embeddings(config.tied, source_size, target_size, embedding, output_width)

    inputs = [embedding, *[width] * (layers - 1)]
    each_way = width // directions
    encoder = sum(directions * gates * (wide * each_way + each_way**2) for wide in inputs)
    encoder_biases = layers * directions * gates * 2 * each_way
    inputs[0] += width if attends and (config.input_feeding or config.attend == "before") else 0
    decoder = sum(gates * (wide * width + width**2) for wide in inputs)
    decoder_biases = layers * gates * 2 * width

    bridge = layers * states * (width * width + width)
    keys = width**2 if config.attention in ("multiplicative", "additive") else 0
    queries = (2 * width**2 if attends else 0) + (width**2 if config.attention == "additive" else 0)
    vectors = {"additive": (3 if config.coverage else 2) * width, "cosine": 1}.get(config.attention, 0)
    narrow = width * embedding if config.tied != "none" and embedding != width else 0
    narrow_bias = embedding if narrow else 0
    compared = TYPICAL_SOURCE * width * (2 if config.attention == "additive" else 0)
    return Size(
        parameters={
            "embeddings": vocabulary["embeddings"],
            "encoder": encoder + encoder_biases,
            "decoder": decoder + decoder_biases + bridge + keys + queries + vectors,
            "output": vocabulary["output"] + target_size + narrow + narrow_bias,
        },
        source_matrices=encoder + keys,
        target_matrices=decoder + queries + narrow + target_size * output_width,
        activations=layers * (gates + 3) * width * 2 + 4 * width + compared + 2 * embedding + 2 * target_size,
    )
