"""Marian's Transformers in Hugging Face's format, as the OPUS-MT models are.

Norms after each sub-layer, embeddings times sqrt(D) and tied three ways, a bias of the output layer. Positions are
sinusoids with all sines first and all cosines after; harken's alternate. Both are the same up to the order of features,
so the features of every layer are put into the other order here:

    feature 2k of harken is feature k of Marian, feature 2k + 1 is feature D/2 + k

The decoder starts with the padding token, whose embedding becomes that of BOS. Pegasus models with Marian's tokenizer,
as `harken export` writes them, differ in the place of the norms alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.adopt.bart import block_tensors
from harken.adopt.files import Adopted, read_json, read_weights
from harken.adopt.pieces import read_pieces, with_vocabulary
from harken.data.tokenizers.base import SOURCE, TARGET
from harken.data.tokenizers.subword import SPACE, SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError
from harken.tasks.translate.recipe import TranslateRecipe

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
LANGUAGE_TOKEN = re.compile(r">>.+<<")
NEVER = -100.0  # the bias of pieces that the vocabulary of the model does not have
REQUIRED = {  # options, and the value that they have in OPUS-MT
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}


def read_marian(folder: Path, config: dict[str, Any]) -> Adopted:
    """The contents of a model folder for a Marian model.

    Raises:
        UserError: a file is missing or damaged, or an option has another value than in OPUS-MT.
    """
    for name, value in REQUIRED.items():
        if config.get(name, value) != value:
            raise UserError(f"{folder} has {name} = {config[name]!r}, which cannot be adopted; only {value!r} can")
    for name in ("attention_heads", "ffn_dim"):
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            raise UserError(f"{folder} has another {name} in its decoder than in its encoder, which cannot be adopted")
    vocabulary = read_json(folder / "vocab.json")
    models = [_read_model(folder / name) for name in ("source.spm", "target.spm")]
    texts, rows = _vocabulary(vocabulary, models, config)
    languages = {text: f"{SPACE}{text}" for text in texts if LANGUAGE_TOKEN.fullmatch(text)}
    tokenizers = [SubwordTokenizer(with_vocabulary(model, texts, languages)) for model in models]
    recipe = _recipe(folder, config, len(texts) + len(SPECIALS))
    return Adopted(
        recipe, _tensors(read_weights(folder), config, rows), list(zip(tokenizers, (SOURCE, TARGET), strict=True))
    )


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        reason = problem.strerror
        raise UserError(f"{path} cannot be read ({reason}); copy the whole folder of the model") from None


def _vocabulary(vocabulary: dict[str, int], models: list[bytes], config: dict[str, Any]) -> tuple[list[str], Tensor]:
    """The pieces behind the special tokens, and for every id of harken the row of the model; -1: of none."""
    special = {config["pad_token_id"], config["eos_token_id"], vocabulary["<unk>"]}
    known = sorted((row, text) for text, row in vocabulary.items() if row not in special)
    names = {text for _, text in known} | {*SPECIALS}
    more = dict.fromkeys(piece.text for model in models for piece in read_pieces(model, "the SentencePiece model"))
    extra = [text for text in more if text not in names and text not in vocabulary]
    first = {PAD: config["pad_token_id"], UNK: vocabulary["<unk>"], EOS: config["eos_token_id"]}
    first[BOS] = config.get("decoder_start_token_id", config["pad_token_id"])
    rows = [*(first[number] for number in range(len(SPECIALS))), *(row for row, _ in known), *([-1] * len(extra))]
    return [*(text for _, text in known), *extra], torch.tensor(rows)


def _recipe(folder: Path, config: dict[str, Any], size: int) -> TranslateRecipe:
    options = folder / "generation_config.json"
    generation = read_json(options) if options.is_file() else config
    stored = folder / "tokenizer_config.json"
    languages = read_json(stored) if stored.is_file() else {}
    activation = ACTIVATIONS.get(config["activation_function"])
    if activation is None:
        raise UserError(f"{folder} has the activation {config['activation_function']!r}, which cannot be adopted")
    data = {f"{side}_language": languages.get(f"{side}_lang") for side in ("source", "target")}
    return TranslateRecipe.model_validate(
        {
            "data": {name: code.split("_")[0] for name, code in data.items() if code},
            "tokenizer": {"kind": "unigram", "size": size, "joint": True},
            "model": {
                "architecture": "transformer",
                "layers": config["encoder_layers"],
                "encoder_layers": config["encoder_layers"],
                "decoder_layers": config["decoder_layers"],
                "width": config["d_model"],
                "heads": config["encoder_attention_heads"],
                "feedforward": config["encoder_ffn_dim"],
                "dropout": config.get("dropout", 0.1),
                "attention_dropout": config.get("attention_dropout", 0.0),
                "feedforward_dropout": config.get("activation_dropout", 0.0),
                "norm": "pre" if config["model_type"] == "pegasus" else "post",
                "activation": activation,
                "output_bias": True,
                "tied": "all",
            },
            "search": {
                "beam": generation.get("num_beams") or 1,
                "length_penalty": generation.get("length_penalty") or 1.0,
            },
        }
    )


def features(width: int) -> Tensor:
    """(D,) for every feature of harken the feature of Marian: 0, D/2, 1, D/2 + 1, ..."""
    return torch.arange(width).view(2, -1).t().reshape(-1)


def _tensors(weights: dict[str, Tensor], config: dict[str, Any], rows: Tensor) -> dict[str, Tensor]:
    """The weights by harken's names, with features and rows in harken's order."""
    width = config["d_model"]
    order = features(width)
    unknown = rows[UNK]
    embedding = weights["model.shared.weight"].float()[torch.where(rows < 0, unknown, rows)][:, order]
    bias = weights["final_logits_bias"].float().reshape(-1)[torch.where(rows < 0, unknown, rows)]
    bias = torch.where((rows < 0) | ~bias.isfinite(), torch.tensor(NEVER), bias)
    # The output weight is tied with both embeddings.
    tensors = {"output_weight": embedding, "output_bias": bias} | block_tensors(weights, config, order)
    return tensors | {
        f"{side}.stack.norm.{kind}": weights[name].float()[order]
        for side in ("encoder", "decoder")
        for kind in ("weight", "bias")
        if (name := f"model.{side}.layer_norm.{kind}") in weights
    }
