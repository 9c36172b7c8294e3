"""The size of recurrent encoders and decoders, by arithmetic: see `size.py`.

cell                gates (I H + H^2) and two biases (E3 has one); E4 adds gates - 1 vectors, or matrices
layer norm          two gains for every gate, and gain and shift of an LSTM's cell state
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.models.size_side import Side, linear

if TYPE_CHECKING:
    from harken.models.config import RecurrentConfig
    from harken.models.config_encoder import RecurrentEncoderConfig
    from harken.models.recurrent.cell_options import CellOptions
    from harken.models.recurrent.config import RecurrentCellsConfig, RecurrentStackConfig

TYPICAL_SOURCE = 24  # pieces of a source sentence, where the cost of attention depends on it


def recurrent_encoder(config: RecurrentConfig | RecurrentEncoderConfig) -> Side:
    """What `RecurrentEncoder` has."""
    width, options = config.width, config.cell_options
    matrices = vectors = 0
    for depth, size in enumerate(input_sizes(config)):
        both = bool(config.bidirectional) if depth == 0 else config.bidirectional is True
        directions = 2 if both else 1
        products, rest = cell(options, size, width // directions)
        matrices, vectors = matrices + directions * products, vectors + directions * rest
    joints = highway_gates(config) * width**2
    return Side(
        parameters=matrices + vectors + joints + highway_gates(config) * width,
        matrices=matrices + joints,
        activations=config.layers * (options.gates + 3) * width + config.embedding,
        embedding=config.embedding,
        width=width,
    )


def recurrent_decoder(config: RecurrentStackConfig) -> Side:
    """What `RecurrentDecoder` has."""
    width, options, attends = config.width, config.cell_options, config.attention != "none"
    fed = (config.input_feeding or config.attend == "before") if attends else config.context == "constant"
    matrices = vectors = 0
    for depth, size in enumerate(input_sizes(config)):
        extra = width if fed and (depth == 0 or config.context_to == "all") else 0
        products, rest = cell(options, size + extra, width)
        matrices, vectors = matrices + products, vectors + rest
    matrices += highway_gates(config) * width**2
    vectors += highway_gates(config) * width
    vectors += {"additive": (3 if config.coverage else 2) * width, "cosine": 1}.get(config.attention, 0)
    matrices += (2 * width**2 if attends else 0) + (width**2 if config.attention == "additive" else 0)
    keys = width**2 if config.attention in ("multiplicative", "additive") else 0
    bridge = config.layers * options.parts * linear(width, width)  # once a sentence: no matter for a token
    compared = TYPICAL_SOURCE * width * (2 if config.attention == "additive" else 0)
    return Side(
        parameters=matrices + vectors + keys + bridge,
        matrices=matrices,
        activations=config.layers * (options.gates + 3) * width + 4 * width + compared + config.embedding,
        embedding=config.embedding,
        width=width,
        memory=width,
        source_matrices=keys,
        output_bias=True,
    )


def cell(options: CellOptions, inputs: int, width: int) -> tuple[int, int]:
    """Entries of matrices, and of vectors."""
    gates = options.gates
    matrices, vectors = gates * (inputs * width + width**2), 2 * gates * width
    if options.peephole == "full":
        matrices += (gates - 1) * width**2
    if options.peephole == "diagonal":
        vectors += (gates - 1) * width
    if options.layer_norm:
        vectors += 2 * gates * width + (2 * width if options.cell == "lstm" else 0)
    return matrices, vectors


def input_sizes(config: RecurrentCellsConfig) -> list[int]:
    """What each layer reads from below."""
    dense = [config.connections == "dense" and depth + 1 >= config.connections_from for depth in range(config.layers)]
    above = [
        config.embedding + depth * config.width if dense[depth] else config.width for depth in range(config.layers)
    ]
    return [config.embedding, *above[1:]]


def highway_gates(config: RecurrentCellsConfig) -> int:
    """Layers with a gate between what they read and what they made."""
    return max(0, config.layers - config.connections_from + 1) if config.connections == "highway" else 0
