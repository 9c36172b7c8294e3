"""The names of BART's weights in Hugging Face's format, which Marian, mBART, M2M-100 and NLLB share, and harken's.

`BLOCK` and `CROSS` map a linear map or norm of a block to its parts; several parts become one map. A reading map takes
the features of the model as its input, a writing map or norm gives them:

    encoder.stack.blocks.0.attention.query_key_value    model.encoder.layers.0.self_attn.q_proj, k_proj, v_proj
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

READING = {"attention.query_key_value", "cross.query", "cross.key_value", "feedforward.expand"}
BLOCK = {
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "attention_norm": ("self_attn_layer_norm",),
    "feedforward.expand": ("fc1",),
    "feedforward.contract": ("fc2",),
    "feedforward_norm": ("final_layer_norm",),
}
CROSS = {
    "cross.query": ("encoder_attn.q_proj",),
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
}
BLOCKS = {"encoder": BLOCK, "decoder": BLOCK | CROSS}


def block_tensors(
    weights: Mapping[str, Tensor], config: Mapping[str, Any], order: Tensor | None = None
) -> dict[str, Tensor]:
    """The weights of all blocks by harken's names.

    Args:
        order: (D,) for every feature of harken the feature of the model; None: the same.
    """
    tensors = {}
    for side, block in BLOCKS.items():
        for layer in range(config[f"{side}_layers"]):
            old, new = f"model.{side}.layers.{layer}.", f"{side}.stack.blocks.{layer}."
            for name, parts in block.items():
                for kind in ("weight", "bias"):
                    value = torch.cat([weights[f"{old}{part}.{kind}"].float() for part in parts])
                    if order is not None and name not in READING:
                        value = value[order]
                    elif order is not None and kind == "weight":
                        value = value[:, order]
                    tensors[f"{new}{name}.{kind}"] = value
    return tensors


def block_weights(tensors: Mapping[str, Tensor], order: Tensor | None = None) -> dict[str, Tensor]:
    """The weights of all blocks by BART's names: the reverse of `block_tensors`.

    Args:
        order: (D,) for every feature of the model the feature of harken; None: the same.
    """
    weights = {}
    for side, block in BLOCKS.items():
        layer = 0
        while f"{(own := f'{side}.stack.blocks.{layer}.')}attention_norm.weight" in tensors:
            for name, parts in block.items():
                for kind in ("weight", "bias"):
                    value = tensors[f"{own}{name}.{kind}"]
                    if order is not None and name not in READING:
                        value = value[order]
                    elif order is not None and kind == "weight":
                        value = value[:, order]
                    for part, chunk in zip(parts, value.chunk(len(parts)), strict=True):
                        weights[f"model.{side}.layers.{layer}.{part}.{kind}"] = chunk.clone()
            layer += 1
    return weights
