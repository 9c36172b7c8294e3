"""The size of a transcriber by arithmetic: see `size.py`. A symbol is said in several steps, each of which costs.

>>> from harken.models.config_encoder import RecurrentEncoderConfig
>>> from harken.models.convolutional.config import FrontConfig
>>> encoder = RecurrentEncoderConfig(embedding=8, width=6)
>>> transcriber_size(encoder, FrontConfig(), channels=40, symbols=10, steps_per_symbol=4).parameters
{'input': 408, 'encoder': 312, 'output': 77}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.models.size import ENCODERS, Size
from harken.models.size_side import linear

if TYPE_CHECKING:
    from harken.models.config_encoder import AnyEncoderConfig
    from harken.models.convolutional.config import FrontConfig


def transcriber_size(
    encoder: AnyEncoderConfig, front: FrontConfig, channels: int, symbols: int, steps_per_symbol: float
) -> Size:
    """Count what `TranscriberNetwork` has; `steps_per_symbol` are those that the encoder reads."""
    side = ENCODERS[encoder.architecture](encoder)
    width, output = side.embedding, side.width * (symbols + 1)
    convolution = front.layers * width * width * front.kernel
    read = channels * width * front.stride**front.layers + convolution + side.matrices + output
    return Size(
        parameters={
            "input": linear(channels, width) + 2 * channels + convolution + front.layers * width,
            "encoder": side.parameters,
            "output": output + symbols + 1,
        },
        source_matrices=round(read * steps_per_symbol),
        target_matrices=0,
        activations=side.activations + 2 * (symbols + 1) + width * (1 + front.layers),
    )
