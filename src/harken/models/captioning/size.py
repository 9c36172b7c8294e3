"""The size of a captioner, by arithmetic: see `size.py`.

convolution 3 x 3 (m -> n)   9 m n + n
learned places               (rows + columns) W

The cost of a picture is spread over the words of a caption, TYPICAL_CAPTION of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.models.size import DECODERS, Size
from harken.models.size_side import linear

if TYPE_CHECKING:
    from harken.models.captioning.config import AnyImageConfig, PatchesConfig, RegionsConfig

TYPICAL_CAPTION = 12  # words and the end


def size_of_captioner(config: AnyImageConfig, image_size: int, target_size: int) -> Size:
    """Count what `build_caption_model(config, image_size, target_size)` would build."""
    side = config.side(image_size)
    encoder, products, kept = (
        _patches(config, side) if config.architecture == "patches" else _regions(config, image_size)
    )
    decoder = DECODERS[config.decoder.architecture](config.decoder)
    join = 0 if config.width == decoder.memory else config.width * decoder.memory
    differ = config.tied != "none" and decoder.embedding != decoder.width
    narrow = linear(decoder.width, decoder.embedding) if differ else 0
    output = target_size * decoder.width if config.tied == "none" else 0
    bias = target_size if decoder.output_bias else 0
    seen = decoder.width if config.tied == "none" else decoder.embedding
    regions = side * side * (decoder.source_matrices + join)
    return Size(
        parameters={
            "embeddings": target_size * decoder.embedding,
            "encoder": encoder + 2 * side * config.width,
            "decoder": decoder.parameters + (linear(config.width, decoder.memory) if join else 0),
            "output": output + narrow + bias,
        },
        source_matrices=(products + regions) // TYPICAL_CAPTION,
        target_matrices=decoder.matrices + narrow + target_size * seen,
        activations=decoder.activations + 2 * target_size + kept // TYPICAL_CAPTION,
    )


def _regions(config: RegionsConfig, size: int) -> tuple[int, int, int]:
    """Parameters without places, products for one picture, and numbers kept for the backward pass."""
    parameters = products = kept = 0
    before = 3
    for channels, depth in zip(config.channels, config.depth, strict=True):
        size //= 2
        weights = 9 * before * channels + depth * 9 * channels**2
        parameters += weights + (1 + depth) * channels
        products += size**2 * weights
        kept += 2 * (1 + depth) * size**2 * channels
        before = channels
    parameters += linear(before, config.width) + linear(config.width, config.width)
    return parameters, products + size**2 * (before + config.width) * config.width, kept + 2 * size**2 * config.width


def _patches(config: PatchesConfig, side: int) -> tuple[int, int, int]:
    width, inner, pixels = config.width, config.feedforward, 3 * config.patch**2
    block = 4 * linear(width, width) + linear(width, inner) + linear(inner, width) + 4 * width
    matrices = config.layers * (4 * width**2 + 2 * width * inner)
    parameters = linear(pixels, width) + config.layers * block + 2 * width
    kept = config.layers * (10 * width + 2 * inner)
    return parameters, side**2 * (pixels * width + matrices), side**2 * kept
