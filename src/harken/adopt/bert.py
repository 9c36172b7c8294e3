"""BERT, RoBERTa and DistilBERT in Hugging Face's format, as masked language models.

Norms after each sub-layer, learned positions, a norm of the embeddings, which are tied to the output layer and not
scaled. A text is one segment, so the embedding of its type is part of every position:

    BERT:    x = norm(E[w] + P + S[0])
    harken:  x = norm(E[w] + P')           P' = P + S[0]; RoBERTa counts positions from the row after the padding's

A text begins with [CLS] or <s>, the first token behind the special ids, and ends with [SEP] or </s>, which is EOS. The
mask is BOS, which an encoder does not read otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harken.adopt.files import Adopted, read_byte_level, read_json, read_weights
from harken.data.tokenizers.base import JOINT
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.tokens import SPECIALS
from harken.data.tokenizers.wordpiece import WordPieceTokenizer
from harken.errors import UserError
from harken.tasks.masked.recipe import MaskedRecipe

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
START = "<start>"  # the token that begins every text
WORDPIECE = {"pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]", "sep": "[SEP]", "cls": "[CLS]"}
BYTE_LEVEL = {"pad": "<pad>", "unk": "<unk>", "mask": "<mask>", "sep": "</s>", "cls": "<s>"}
TOKENIZERS = ("BertTokenizer", "DistilBertTokenizer", "PreTrainedTokenizer", "TokenizersBackend")  # of word pieces
MODEL_KEYS = {  # of harken by those of Hugging Face; DistilBERT has names of its own
    "width": ("hidden_size", "dim"),
    "layers": ("num_hidden_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_heads"),
    "feedforward": ("intermediate_size", "hidden_dim"),
    "dropout": ("hidden_dropout_prob", "dropout"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout"),
}


class Names(NamedTuple):
    """The names of the weights by harken's; several maps become one."""

    layer: str
    block: dict[str, tuple[str, ...]]
    head: dict[str, str]


BLOCK = {
    "attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feedforward.expand": ("intermediate.dense",),
    "feedforward.contract": ("output.dense",),
    "feedforward_norm": ("output.LayerNorm",),
}
DISTIL_BLOCK = {
    "attention.query_key_value": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    "attention.output": ("attention.out_lin",),
    "attention_norm": ("sa_layer_norm",),
    "feedforward.expand": ("ffn.lin1",),
    "feedforward.contract": ("ffn.lin2",),
    "feedforward_norm": ("output_layer_norm",),
}
NAMES = {
    "bert": Names(
        "encoder.layer",
        BLOCK,
        {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "output": "cls.predictions.decoder",
            "bias": "cls.predictions.bias",
        },
    ),
    "roberta": Names(
        "encoder.layer",
        BLOCK,
        {
            "transform": "lm_head.dense",
            "norm": "lm_head.layer_norm",
            "output": "lm_head.decoder",
            "bias": "lm_head.bias",
        },
    ),
    "distilbert": Names(
        "transformer.layer",
        DISTIL_BLOCK,
        {
            "transform": "vocab_transform",
            "norm": "vocab_layer_norm",
            "output": "vocab_projector",
            "bias": "vocab_projector.bias",
        },
    ),
}
REQUIRED = {  # options, and the value that they have in these models
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def read_bert(folder: Path, config: dict[str, Any]) -> Adopted:
    """The contents of a model folder for one of these models.

    Raises:
        UserError: a file is missing or damaged, or an option cannot be adopted.
    """
    kind = config["model_type"]
    for name, value in REQUIRED.items():
        if config.get(name, value) != value:
            raise UserError(f"{folder} has {name} = {config[name]!r}, which cannot be adopted; only {value!r} can")
    activation = config.get("hidden_act", config.get("activation", "gelu"))
    if activation not in ACTIVATIONS or (kind == "bert" and activation != "gelu"):  # BERT's output layer has it, too
        raise UserError(f"{folder} has the activation {activation!r}, which cannot be adopted")
    weights = _weights(folder, kind)
    texts, special, settings = _vocabulary(folder)
    size, first = len(weights["embeddings.word_embeddings.weight"]), special[-1]
    if max(texts) >= size:
        raise UserError(f"{folder} has {size} embeddings, which do not fit its vocabulary; copy the folder again")
    rows = [*special, *(row for row in range(size) if row not in special)]
    names = [START if row == first else texts.get(row, f"<row_{row}>") for row in rows[len(SPECIALS) :]]
    merges = settings.pop("merges", None)
    tokenizer = (
        WordPieceTokenizer(names, **settings, start=START)
        if merges is None
        else ByteLevelTokenizer(names, merges, **settings, start=START)
    )
    tensors = _tensors(weights, config, torch.tensor(rows))
    return Adopted(_recipe(config, activation, tensors, merges is None), tensors, [(tokenizer, JOINT)])


def _weights(folder: Path, kind: str) -> dict[str, Tensor]:
    """The weights, without the name of the model before them; files of earlier times call those of a norm otherwise."""
    older = {"gamma": "weight", "beta": "bias"}
    weights = {}
    for name, value in read_weights(folder).items():
        place, _, last = name.removeprefix(f"{kind}.").rpartition(".")
        weights[f"{place}.{older.get(last, last)}"] = value
    head = NAMES[kind].head
    needed = ["embeddings.word_embeddings.weight", f"{head['transform']}.weight", f"{head['norm']}.weight"]
    if not weights.keys() >= {*needed}:
        raise UserError(
            f"{folder} has no weights of a masked language model (such as {kind}.{needed[0]} and {needed[1]}); give "
            "a model that fills gaps (ForMaskedLM)"
        )
    output = weights.get(f"{head['output']}.weight")
    if output is not None and not torch.equal(output, weights[needed[0]]):
        raise UserError(f"{folder} has an output layer that is not tied to its embeddings, which cannot be adopted")
    return weights


def _vocabulary(folder: Path) -> tuple[dict[int, str], list[int], dict[str, Any]]:
    """The text of every row, the rows of the special tokens and the start, and the arguments of the tokenizer."""
    path = folder / "tokenizer_config.json"
    stored = read_json(path) if path.is_file() else {}
    path = folder / "tokenizer.json"
    parts = read_json(path) if path.is_file() else {}
    is_wordpiece = parts["model"].get("type") == "WordPiece" if parts else (folder / "vocab.txt").is_file()
    if is_wordpiece:
        vocabulary, settings = _word_pieces(folder, parts, stored)
    else:
        vocabulary, merges, prefix_space = read_byte_level(folder)
        settings = {"merges": merges, "prefix_space": prefix_space}
    special = []
    for short, default in (WORDPIECE if is_wordpiece else BYTE_LEVEL).items():
        token = stored.get(f"{short}_token", default)
        text = token["content"] if isinstance(token, dict) else token
        if text not in vocabulary:
            raise UserError(f"the vocabulary of {folder} has no {text!r}, its {short}_token; copy the folder again")
        special.append(vocabulary[text])
    return {row: text for text, row in vocabulary.items()}, special, settings


def _word_pieces(folder: Path, parts: dict[str, Any], stored: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The row of every piece, and how a text is split; of tokenizer.json or the older files."""
    if not parts:
        kind = str(stored.get("tokenizer_class") or TOKENIZERS[0]).removesuffix("Fast")
        if kind not in TOKENIZERS:
            raise UserError(
                f"{folder} has a {kind}, which cannot be adopted; only tokenizers of BERT's word pieces can"
            )
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        vocabulary = {text.rstrip("\r"): row for row, text in enumerate(lines) if text}
        options = {
            "lowercase": stored.get("do_lower_case", True),
            "strip_accents": stored.get("strip_accents"),
            "handle_chinese_chars": stored.get("tokenize_chinese_chars", True),
        }
    else:
        model, options = parts["model"], parts.get("normalizer") or {}
        kinds = [options.get("type"), (parts.get("pre_tokenizer") or {}).get("type")]
        if kinds != ["BertNormalizer", "BertPreTokenizer"] or model.get("continuing_subword_prefix") != "##":
            raise UserError(
                f"{folder / 'tokenizer.json'} holds no word pieces as BERT has them, which cannot be adopted"
            )
        vocabulary = model["vocab"] | {token["content"]: token["id"] for token in parts.get("added_tokens", [])}
    lowercase = bool(options["lowercase"])
    accents = options.get("strip_accents")
    return vocabulary, {
        "lowercase": lowercase,
        "strip_accents": lowercase if accents is None else accents,
        "split_chinese": bool(options.get("handle_chinese_chars", True)),
    }


def _recipe(config: dict[str, Any], activation: str, tensors: dict[str, Tensor], is_wordpiece: bool) -> MaskedRecipe:
    size, length = len(tensors["bias"]), len(tensors["reader.encoder.stack.positions.embedding.weight"])
    model = {own: config[name] for own, names in MODEL_KEYS.items() for name in names if name in config}
    return MaskedRecipe.model_validate(
        {
            "data": {"max_tokens": length},
            "tokenizer": {"kind": "unigram" if is_wordpiece else "bpe", "size": size},
            "model": {
                **model,
                "architecture": "transformer",
                "norm": "post",
                "norm_epsilon": config.get("layer_norm_eps", 1e-12),
                "embedding_norm": True,
                "scale_embeddings": False,
                "activation": ACTIVATIONS[activation],
                "positions": "learned",
                "max_length": length,
            },
        }
    )


def _tensors(weights: dict[str, Tensor], config: dict[str, Any], rows: Tensor) -> dict[str, Tensor]:
    """The weights by harken's names, with rows in harken's order."""
    names = NAMES[config["model_type"]]
    positions = weights["embeddings.position_embeddings.weight"].float()
    if config["model_type"] == "roberta":
        positions = positions[config.get("pad_token_id", 1) + 1 :]
    types = weights.get("embeddings.token_type_embeddings.weight")
    stack = "reader.encoder.stack."
    tensors = {
        "reader.inputs.table.weight": weights["embeddings.word_embeddings.weight"].float()[rows],
        f"{stack}positions.embedding.weight": positions if types is None else positions + types[0].float(),
        "bias": weights[names.head["bias"]].float()[rows],
    }
    for kind in ("weight", "bias"):
        tensors[f"{stack}embedding_norm.{kind}"] = weights[f"embeddings.LayerNorm.{kind}"].float()
        for name in ("transform", "norm"):
            tensors[f"{name}.{kind}"] = weights[f"{names.head[name]}.{kind}"].float()
        for layer in range(config.get("num_hidden_layers") or config["n_layers"]):
            for name, parts in names.block.items():
                values = [weights[f"{names.layer}.{layer}.{part}.{kind}"].float() for part in parts]
                tensors[f"{stack}blocks.{layer}.{name}.{kind}"] = torch.cat(values)
    return tensors
