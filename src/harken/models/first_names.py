"""Weights of folders that were trained before encoders and decoders had files of their own, under today's names.

>>> sorted(current_names({"decoder_norm.bias": 1, "encoder.0.cells.1.bias_hh": 2, "source_embedding.weight": 3}))
['decoder.stack.norm.bias', 'encoder.layers.0.cells.1.bias_hh', 'source_embedding.weight']
>>> list(current_names({"encoder.0.inner.bias_hh_l0_reverse": 1}))  # of the very first
['encoder.layers.0.cells.1.bias_hh']
"""

from __future__ import annotations

import re
from typing import TypeVar

Value = TypeVar("Value")

RULES = [
    (r"encoder\.(\d+)\.inner\.(\w+)_l0_reverse$", r"encoder.layers.\1.cells.1.\2"),
    (r"encoder\.(\d+)\.inner\.(\w+)_l0$", r"encoder.layers.\1.cells.0.\2"),
    (r"encoder\.(\d+)\.(?=cells\.)", r"encoder.layers.\1."),
    (r"decoder\.(\d+)\.(?=weight_|bias_)", r"decoder.layers.\1."),
    (r"(encoder|decoder)\.(\d+)\.", r"\1.stack.blocks.\2."),
    (r"(encoder|decoder)_norm\.", r"\1.stack.norm."),
    (r"(bridge|attend|combine)\.", r"decoder.\1."),
]
LEARNED = "positions.embedding.weight"  # one table for both sides at first, one each today


def current_names(tensors: dict[str, Value]) -> dict[str, Value]:
    """The same tensors; names that are today's stay as they are."""
    renamed: dict[str, Value] = {}
    for name, value in tensors.items():
        if name == LEARNED:
            renamed |= {f"{side}.stack.{LEARNED}": value for side in ("encoder", "decoder")}
            continue
        matching = (re.sub(f"^{old}", new, name) for old, new in RULES if re.match(old, name))
        renamed[next(matching, name)] = value
    return renamed
