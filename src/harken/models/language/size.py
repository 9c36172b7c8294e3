"""The size of a language model, by arithmetic: see `size.py`.

>>> from harken.models.language.config import TransformerLanguageConfig
>>> language_size(TransformerLanguageConfig(layers=1, width=4, heads=2, feedforward=8), 10).parameters
{'embeddings': 40, 'layers': 180, 'output': 10}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.models.recurrent.size import cell, highway_gates, input_sizes
from harken.models.size import Size
from harken.models.size_side import Side
from harken.models.transformer.size import stack

if TYPE_CHECKING:
    from harken.models.language.config import AnyLanguageConfig, RecurrentLanguageConfig


def language_size(config: AnyLanguageConfig, vocabulary: int) -> Size:
    """Count what `build_language(config, vocabulary)` would build."""
    side = stack(config, config.layers) if config.architecture == "transformer" else _recurrent(config)
    narrow = side.width * side.embedding if config.tied and side.width != side.embedding else 0
    matrix = vocabulary * (side.embedding if config.tied else side.width)
    output = (0 if config.tied else matrix) + narrow + (side.embedding if narrow else 0) + vocabulary
    return Size(
        parameters={"embeddings": vocabulary * side.embedding, "layers": side.parameters, "output": output},
        source_matrices=0,
        target_matrices=side.matrices + narrow + matrix,
        activations=side.activations + 2 * vocabulary,
    )


def _recurrent(config: RecurrentLanguageConfig) -> Side:
    options, matrices, vectors = config.cell_options, 0, 0
    top = config.embedding if config.top == "embedding" else config.width
    for depth, inputs in enumerate(input_sizes(config)):
        products, rest = cell(options, inputs, top if depth == config.layers - 1 else config.width)
        matrices, vectors = matrices + products, vectors + rest
    joints = highway_gates(config) * config.width**2
    return Side(
        parameters=matrices + vectors + joints + highway_gates(config) * config.width,
        matrices=matrices + joints,
        activations=config.layers * (options.gates + 3) * config.width + config.embedding,
        embedding=config.embedding,
        width=top,
    )
