"""The size of convolutional encoders and decoders, by arithmetic: see `size.py`.

gated block         2 K D^2 + 2 D
dilated block       D^2 + K (D / 2)^2, three norms and three biases
attention           2 D E + D + E
filters             sum over widths k of (k E + 1) H / their number
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.models.size_side import Side

if TYPE_CHECKING:
    from harken.models.config_encoder import FiltersEncoderConfig
    from harken.models.convolutional.config import ConvolutionalBlocksConfig, ConvolutionalStackConfig


def convolutional_encoder(config: ConvolutionalBlocksConfig) -> Side:
    """What `ConvolutionalEncoder` has."""
    layers, embedding = getattr(config, "encoder_layers", None) or config.layers, config.embedding
    matrices, vectors = _around(config)
    block, block_vectors = _block(config)
    matrices += layers * block
    vectors += layers * block_vectors
    return Side(matrices + vectors, matrices, layers * _kept(config), embedding, embedding)


def filters_encoder(config: FiltersEncoderConfig) -> Side:
    """What `FiltersEncoder` has."""
    each = config.width // len(config.kernels)
    matrices = sum(config.kernels) * config.embedding * each
    kept = (sum(config.kernels) + 1) * config.embedding + 2 * config.width
    return Side(matrices + config.width, matrices, kept, config.embedding, config.width)


def convolutional_decoder(config: ConvolutionalStackConfig) -> Side:
    """What `ConvolutionalDecoder` has, without the output layer."""
    width, embedding, layers = config.width, config.embedding, config.decoder_depth
    matrices, vectors = _around(config)
    block, block_vectors = _block(config)
    if config.attends:
        block += 2 * embedding * width
        block_vectors += embedding + width + (0 if config.style == "convs2s" else 2 * width)
    else:
        matrices += embedding * width
        vectors += width
    matrices += layers * block
    vectors += layers * block_vectors
    kept = layers * (_kept(config) + (4 * embedding if config.attends else 0))
    return Side(matrices + vectors, matrices, kept, embedding, embedding, embedding, output_bias=True)


def _around(config: ConvolutionalBlocksConfig) -> tuple[int, int]:
    """Positions, the maps into and out of the blocks, and the last norm: entries of matrices, and the rest."""
    width, embedding = config.width, config.embedding
    places = config.max_length * embedding if config.positions == "learned" else 0
    norm = 0 if config.style == "convs2s" else 2 * width
    return 2 * embedding * width, places + embedding + width + norm


def _block(config: ConvolutionalBlocksConfig) -> tuple[int, int]:
    """One block without attention: entries of matrices, and the rest."""
    width, inner = config.width, max(1, config.width // 2)
    if config.style == "convs2s":
        return 2 * config.kernel * width**2, 2 * width
    norms, biases = 2 * width + 4 * inner, width + 2 * inner
    return 2 * width * inner + config.kernel * inner**2, norms + biases


def _kept(config: ConvolutionalBlocksConfig) -> int:
    """Windows, both halves of the gate and what comes of them; or the inputs of three maps and norms."""
    return (config.kernel + 6) * config.width if config.style == "convs2s" else (config.kernel + 10) * config.width // 2
