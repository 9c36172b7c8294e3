"""T5, T5 v1.1, mT5 and Flan-T5 in Hugging Face's format.

RMS norms before each sub-layer, linear maps without bias, plain dot products, and one table of bucket biases for all
layers of a side. Their scalings of embeddings and of the output layer are those of harken for smaller embeddings:

    T5:      x = E[w]             logits = E (h / sqrt(D))      with E tied
    harken:  x = E'[w] sqrt(D)    logits = E' h                 E' = E / sqrt(D)

In v1.1, mT5 and Flan the output layer has a matrix of its own, and its inputs are not scaled. The decoder starts with
the padding token, whose embedding becomes that of BOS; a bias of the output layer keeps BOS out of the probabilities.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.adopt.files import Adopted, read_json, read_weights
from harken.adopt.pieces import CONTROL, UNKNOWN, read_pieces, with_vocabulary
from harken.data.tokenizers.base import JOINT
from harken.data.tokenizers.subword import SPACE, SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError
from harken.tasks.translate.recipe import TranslateRecipe

ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu", "gated-silu": "swiglu", "gelu": "gelu", "silu": "silu"}
SENTINEL = re.compile(r"<extra_id_\d+>")
ROW = re.compile(r"<row_\d+>")  # to which no text leads
EXTRA_IDS = 100  # sentinels of the tokenizer where its settings do not say
EMBEDDING = "source_embedding.weight"  # of both sides, where the output layer has weights of its own
NEVER = -100.0  # the bias of BOS, which the model does not write


def read_t5(folder: Path, config: dict[str, Any]) -> Adopted:
    """The contents of a model folder for a T5.

    Raises:
        UserError: a file is missing or damaged, or an option cannot be adopted.
    """
    path = folder / "spiece.model"
    if not path.is_file():
        raise UserError(f"{path} is missing; copy the SentencePiece model of the original T5 into the folder")
    if config.get("feed_forward_proj", "relu") not in ACTIVATIONS:
        raise UserError(f"{folder} has feed_forward_proj {config['feed_forward_proj']!r}, which cannot be adopted")
    weights = read_weights(folder)
    if "shared.weight" not in weights or "decoder.final_layer_norm.weight" not in weights:
        raise UserError(f"{folder} has no weights of a decoder; give a T5 that writes text (ForConditionalGeneration)")
    texts, rows = _vocabulary(folder, config, path.read_bytes(), len(weights["shared.weight"]))
    sentinels = {text: f"{SPACE}{text}" for text in texts if SENTINEL.fullmatch(text)}
    tokenizer = SubwordTokenizer(with_vocabulary(path.read_bytes(), texts, sentinels))
    tensors = _tensors(weights, config, rows)
    tied = "embeddings" if EMBEDDING in tensors else "all"
    return Adopted(_recipe(folder, config, len(rows), tied), tensors, [(tokenizer, JOINT)])


def _vocabulary(folder: Path, config: dict[str, Any], model: bytes, size: int) -> tuple[list[str], Tensor]:
    """The pieces behind the special tokens, and for every id of harken the row of the model.

    The sentinels follow the pieces, the last one first; further rows, to which no text leads, are called <row_N>.
    """
    pieces = read_pieces(model, str(folder / "spiece.model"))
    stored = folder / "tokenizer_config.json"
    count = (read_json(stored) if stored.is_file() else {}).get("extra_ids", EXTRA_IDS)
    known = {piece.text for piece in pieces}
    extra = [text for number in reversed(range(count)) if (text := f"<extra_id_{number}>") not in known]
    names = [*(piece.text for piece in pieces), *extra]
    if len(pieces) > size:
        raise UserError(f"{folder} has {size} embeddings but {len(pieces)} pieces; copy the folder of the model again")
    names = [*names, *(f"<row_{row}>" for row in range(len(names), size))][:size]
    unknown = next((row for row, piece in enumerate(pieces) if piece.kind == UNKNOWN), 2)
    pad, start = config.get("pad_token_id", 0), config.get("decoder_start_token_id")
    first = {PAD: pad, UNK: unknown, BOS: pad if start is None else start, EOS: config.get("eos_token_id", 1)}
    special = {*first.values(), *(row for row, piece in enumerate(pieces) if piece.kind == CONTROL)}
    others = [row for row in range(size) if row not in special and names[row] not in SPECIALS]
    return [names[row] for row in others], torch.tensor([*(first[number] for number in range(len(SPECIALS))), *others])


def _recipe(folder: Path, config: dict[str, Any], size: int, tied: str) -> TranslateRecipe:
    options = folder / "generation_config.json"
    generation = read_json(options) if options.is_file() else config
    layers, dropout = config["num_layers"], config.get("dropout_rate", 0.1)
    return TranslateRecipe.model_validate(
        {
            "data": {},
            "tokenizer": {"kind": "unigram", "size": size, "joint": True},
            "model": {
                "architecture": "transformer",
                "layers": layers,
                "encoder_layers": layers,
                "decoder_layers": config.get("num_decoder_layers") or layers,
                "width": config["d_model"],
                "heads": config["num_heads"],
                "head_width": config["d_kv"],
                "feedforward": config["d_ff"],
                "dropout": dropout,
                "attention_dropout": dropout,
                "feedforward_dropout": dropout,
                "norm_kind": "rms",
                "norm_epsilon": config.get("layer_norm_epsilon", 1e-6),
                "activation": ACTIVATIONS[config.get("feed_forward_proj", "relu")],
                "attention": "dot",
                "positions": "buckets",
                "buckets": config.get("relative_attention_num_buckets", 32),
                "max_distance": config.get("relative_attention_max_distance", 128),
                "bias": False,
                "output_bias": True,
                "frozen": ["output_bias"],
                "tied": tied,
            },
            "search": {
                "beam": generation.get("num_beams") or 1,
                "length_penalty": generation.get("length_penalty") or 1.0,
            },
        }
    )


def _tensors(weights: dict[str, Tensor], config: dict[str, Any], rows: Tensor) -> dict[str, Tensor]:
    """The weights by harken's names."""
    gated = config.get("feed_forward_proj", "relu").startswith("gated-")
    shared, scale = weights["shared.weight"], 1 / math.sqrt(config["d_model"])
    output, embedding = weights.get("lm_head.weight", shared), shared.float()[rows] * scale
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))  # also its inputs
    tensors = {"output_weight": embedding, "output_bias": torch.zeros(len(rows))}
    tensors["output_bias"][BOS] = NEVER
    if not scaled or not torch.equal(output, shared):
        tensors |= {EMBEDDING: embedding, "output_weight": output.float()[rows] * (scale if scaled else 1.0)}
    depths = config["num_layers"], config.get("num_decoder_layers") or config["num_layers"]
    for side, depth in zip(("encoder", "decoder"), depths, strict=True):
        stack = f"{side}.stack."
        tensors[f"{stack}norm.weight"] = weights[f"{side}.final_layer_norm.weight"].float()
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors[f"{stack}blocks.0.attention.positions.bias"] = weights[table].float()
        for layer in range(depth):
            names = block_names(side == "decoder", gated)
            for name, parts in names.items():
                values = [weights[f"{side}.block.{layer}.layer.{part}.weight"].float() for part in parts]
                tensors[f"{stack}blocks.{layer}.{name}.weight"] = torch.cat(values)
    return tensors


def block_names(has_cross: bool, gated: bool) -> dict[str, list[str]]:
    """The parts of one layer by harken's names; several maps become one."""
    last = 2 if has_cross else 1
    names = {
        "attention.query_key_value": [f"0.SelfAttention.{name}" for name in "qkv"],
        "attention.output": ["0.SelfAttention.o"],
        "attention_norm": ["0.layer_norm"],
        "feedforward.expand": [f"{last}.DenseReluDense.{name}" for name in (("wi_0", "wi_1") if gated else ("wi",))],
        "feedforward.contract": [f"{last}.DenseReluDense.wo"],
        "feedforward_norm": [f"{last}.layer_norm"],
    }
    if has_cross:
        names |= {
            "cross.query": ["1.EncDecAttention.q"],
            "cross.key_value": ["1.EncDecAttention.k", "1.EncDecAttention.v"],
            "cross.output": ["1.EncDecAttention.o"],
            "cross_norm": ["1.layer_norm"],
        }
    return names
