"""GPT-2 in Hugging Face's format, as a language model.

Norms before each sub-layer, learned positions, the tanh approximation of gelu, tied embeddings that are not scaled. The
scaling of harken is undone in the embeddings and in the last norm, so that they stay tied:

    GPT-2:   x = E[w] + P             logits = E norm(h)
    harken:  x = E'[w] sqrt(D) + P    logits = E' norm'(h)      E' = E / sqrt(D), norm' = sqrt(D) norm

A text is read after the token that ends texts, <|endoftext|>, which is EOS. Padding, unknown and BOS have its row and a
bias of the output layer that keeps them out of the probabilities.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.adopt.files import Adopted, read_byte_level, read_weights
from harken.data.tokenizers.base import JOINT
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.tokens import EOS, SPECIALS
from harken.errors import UserError
from harken.tasks.language.recipe import LanguageRecipe

ACTIVATIONS = {
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"
}  # fmt: skip
REQUIRED = {  # options, and the value that they have in GPT-2
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
NEVER = -100.0  # the bias of ids that the model does not write
BATCH_TOKENS = 4096  # of a batch in training, where the context is not longer
BLOCK = {  # parts of a block by harken's names; linear maps of GPT-2 are transposed
    "attention.query_key_value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "attention_norm": "ln_1",
    "feedforward.expand": "mlp.c_fc",
    "feedforward.contract": "mlp.c_proj",
    "feedforward_norm": "ln_2",
}


def read_gpt2(folder: Path, config: dict[str, Any]) -> Adopted:
    """The contents of a model folder for a GPT-2.

    Raises:
        UserError: a file is missing or damaged, or an option cannot be adopted.
    """
    for name, value in REQUIRED.items():
        if config.get(name, value) != value:
            raise UserError(f"{folder} has {name} = {config[name]!r}, which cannot be adopted; only {value!r} can")
    if config.get("activation_function", "gelu_new") not in ACTIVATIONS:
        raise UserError(f"{folder} has the activation {config['activation_function']!r}, which cannot be adopted")
    weights = {name.removeprefix("transformer."): value for name, value in read_weights(folder).items()}
    if "wte.weight" not in weights or "ln_f.weight" not in weights:
        raise UserError(f"{folder} has no weights of a GPT-2; copy the folder of the model again")
    vocabulary, merges, prefix_space = read_byte_level(folder)
    size, end = len(weights["wte.weight"]), config.get("eos_token_id", vocabulary.get("<|endoftext|>"))
    if end is None or max(vocabulary.values()) >= size:
        raise UserError(f"{folder} has {size} embeddings, which do not fit its vocabulary; copy the folder again")
    names = {row: text for text, row in vocabulary.items()}
    others = [row for row in range(size) if row != end]
    tokenizer = ByteLevelTokenizer([names.get(row, f"<row_{row}>") for row in others], merges, prefix_space)
    tensors = _tensors(weights, config, torch.tensor([end] * len(SPECIALS) + others))
    return Adopted(_recipe(config, tokenizer.size, "embedding.weight" not in tensors), tensors, [(tokenizer, JOINT)])


def _recipe(config: dict[str, Any], size: int, tied: bool) -> LanguageRecipe:
    width, length = config["n_embd"], config["n_positions"]
    return LanguageRecipe.model_validate(
        {
            "data": {"lines": False, "chunk": length, "ngram": 0},
            "tokenizer": {"kind": "bpe", "size": size},
            "model": {
                "architecture": "transformer",
                "layers": config["n_layer"],
                "width": width,
                "heads": config["n_head"],
                "feedforward": config.get("n_inner") or 4 * width,
                "dropout": config.get("resid_pdrop", 0.1),
                "attention_dropout": config.get("attn_pdrop", 0.1),
                "norm_epsilon": config.get("layer_norm_epsilon", 1e-5),
                "activation": ACTIVATIONS[config.get("activation_function", "gelu_new")],
                "positions": "learned",
                "max_length": length,
                "tied": tied,
            },
            "train": {"batch_tokens": max(length, BATCH_TOKENS)},
        }
    )


def _tensors(weights: dict[str, Tensor], config: dict[str, Any], rows: Tensor) -> dict[str, Tensor]:
    """The weights by harken's names."""
    scale = math.sqrt(config["n_embd"])
    output, embedding = weights.get("lm_head.weight", weights["wte.weight"]), weights["wte.weight"]
    is_tied = torch.equal(output, embedding)
    tensors = {"output_weight": embedding.float()[rows] / scale, "output_bias": torch.zeros(len(rows))}
    tensors["output_bias"][:EOS] = NEVER
    if not is_tied:
        tensors |= {"embedding.weight": tensors["output_weight"], "output_weight": output.float()[rows]}
    tensors["stack.positions.embedding.weight"] = weights["wpe.weight"].float()
    for kind in ("weight", "bias"):
        tensors[f"stack.norm.{kind}"] = weights[f"ln_f.{kind}"].float() * (scale if is_tied else 1.0)
        for layer in range(config["n_layer"]):
            for name, part in BLOCK.items():
                value = weights[f"h.{layer}.{part}.{kind}"].float()
                tensors[f"stack.blocks.{layer}.{name}.{kind}"] = value.t().contiguous() if value.dim() == 2 else value
    return tensors
