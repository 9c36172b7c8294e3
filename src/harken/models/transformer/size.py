"""The size of Transformer stacks, by arithmetic: see `size.py`.

block of an encoder    4 D^2 + 4 D + 2 D F + F + D, and two norms of 2 D
block of a decoder     8 D^2 + 8 D + 2 D F + F + D, and three norms
experts                so many feed-forward layers and a gate D E; a token meets the active ones
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harken.models.size_side import Side

if TYPE_CHECKING:
    from harken.models.transformer.config import TransformerBlocksConfig, TransformerStackConfig


class Part(NamedTuple):
    """One sub-layer."""

    parameters: int
    matrices: int  # entries that a token meets
    activations: int


def transformer_encoder(config: TransformerBlocksConfig) -> Side:
    """What `TransformerEncoder` has."""
    return stack(config, getattr(config, "encoder_layers", None) or config.layers)


def stack(config: TransformerBlocksConfig, layers: int) -> Side:
    """Blocks that look at themselves alone."""
    attention, forward = _attention(config), _feedforward(config)
    each = attention.parameters + _by_distance(config) + forward.parameters + 2 * 2 * config.width
    return Side(
        parameters=layers * each + _around(config),
        matrices=layers * (attention.matrices + forward.matrices),
        activations=layers * (10 * config.width + forward.activations),
        embedding=config.width,
        width=config.width,
        memory=config.width,
    )


def transformer_decoder(config: TransformerStackConfig) -> Side:
    """What `TransformerDecoder` has."""
    width, layers = config.width, config.decoder_depth
    attention, forward = _attention(config), _feedforward(config)
    each = 2 * attention.parameters + _by_distance(config) + forward.parameters + 3 * 2 * width
    square = width**2 // config.heads if config.attention in ("multiplicative", "additive") else 0
    of_keys = 2 * width**2 + square  # keys and values of the source are made once for each of its tokens
    return Side(
        parameters=layers * each + _around(config),
        matrices=layers * (2 * attention.matrices - of_keys + forward.matrices),
        activations=layers * (16 * width + forward.activations),
        embedding=width,
        width=width,
        memory=width,
        source_matrices=layers * of_keys,
    )


def _attention(config: TransformerBlocksConfig) -> Part:
    width, score = config.width, _score(config)
    return Part(4 * width**2 + 4 * width + score.parameters, 4 * width**2 + score.matrices, 0)


def _score(config: TransformerBlocksConfig) -> Part:
    square = config.width**2 // config.heads  # a matrix (K, K) for each head
    return {
        "cosine": Part(config.heads, 0, 0),
        "multiplicative": Part(square, square, 0),
        "additive": Part(2 * square + config.width, 2 * square, 0),
    }.get(config.attention, Part(0, 0, 0))


def _feedforward(config: TransformerBlocksConfig) -> Part:
    width, inner = config.width, config.feedforward
    maps = 3 if config.activation == "swiglu" else 2  # between D and F
    matrices, vectors = maps * width * inner, (maps - 1) * inner + width
    kept = 2 * (maps - 1) * inner
    if not config.experts:
        return Part(matrices + vectors, matrices, kept)
    gate, active = width * config.experts, config.experts_active
    return Part(config.experts * (matrices + vectors) + gate, active * matrices + gate, active * (kept + width))


def _by_distance(config: TransformerBlocksConfig) -> int:
    tables = 2 * (2 * config.max_distance + 1)
    return tables * (config.width // config.heads) if config.positions in ("relative", "dependency") else 0


def _around(config: TransformerBlocksConfig) -> int:
    """Learned positions, and the last norm."""
    places = config.max_length * config.width if config.positions == "learned" else 0
    return places + (2 * config.width if config.norm == "pre" else 0)
