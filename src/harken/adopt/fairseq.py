"""BART, mBART, mBART-50, M2M-100 and NLLB in Hugging Face's format: models that were trained with fairseq.

                norms    positions                       a source                     a target starts with
    BART        last     learned, from row 2 on          <s> X </s>                   </s> <s>
    mBART       first    learned, from row 2 on          X </s> en_XX                 fr_XX
    mBART-50    first    learned, from row 2 on          en_XX X </s>                 </s> fr_XX
    M2M-100     first    sinusoids, from 2 on            __en__ X </s>                </s> __fr__
    NLLB        first    sinusoids, from 2 on            eng_Latn X </s>              </s> fra_Latn

The sinusoids have other rates than harken's and become a table of learned positions. What a target starts with in
place of its first `</s>` is the embedding of BOS. mBART writes the language behind the end, so its source embeddings
are a table of their own, in which the end is the language, and the suffix of a source is the end.

Ids are those of the SentencePiece model plus one, or of vocab.json; languages follow. Rows without a token keep an id,
so that probabilities are those of the model.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.adopt.bart import block_tensors
from harken.adopt.files import Adopted, read_byte_level, read_json, read_weights
from harken.adopt.pieces import is_byte_pairs, read_pieces, with_vocabulary
from harken.data.tokenizers.base import JOINT, Tokenizer
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.marks import language_token
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError
from harken.tasks.translate.recipe import TranslateRecipe

PIECES = "sentencepiece.bpe.model"
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "swish": "silu", "silu": "silu"}
LANGUAGE = re.compile(r"__(\w+)__|([a-z]{2,3})_[A-Z]{2}|([a-z]{3}_[A-Z][a-z]{3})")  # M2M-100, mBART, NLLB
OFFSET = 2  # the row of the first position
FIRST = ("<s>", "<pad>", "</s>", "<unk>")  # rows 0 to 3; a SentencePiece model has three such pieces
START, END = "<start>", "<end>"  # BART's <s> before every text; the end of mBART's sources
NEVER = -100.0  # the bias of ids that are never written
M2M_LANGUAGES = (  # of M2M-100, whose files may not list them, in the order of their rows
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
MODEL_KEYS = {  # of harken by those of Hugging Face
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "d_model": "width",
    "encoder_attention_heads": "heads",
    "encoder_ffn_dim": "feedforward",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "feedforward_dropout",
    "max_position_embeddings": "max_length",
    "scale_embedding": "scale_embeddings",
}
SEARCH_KEYS = {"num_beams": "beam", "length_penalty": "length_penalty", "no_repeat_ngram_size": "no_repeat_ngram"}


def read_fairseq(folder: Path, config: dict[str, Any], pair: str | None = None) -> Adopted:
    """The contents of a model folder for one of these models.

    Args:
        pair: the languages of a multilingual model, source first, such as en-fr.

    Raises:
        UserError: a file is missing or damaged, an option cannot be expressed, or the languages are not known.
    """
    _check(folder, config)
    settings = _settings(folder)
    vocabulary = _vocabulary(folder, settings)
    texts = _texts(vocabulary, config)
    languages = languages_of(texts.values())
    chosen = _pair(folder, settings, languages, pair)
    is_bart = config["model_type"] == "bart"
    has_suffix = bool(languages) and _is_suffixed(config, settings, languages)
    rows = [*(row for row in texts), *([config["eos_token_id"]] if has_suffix else [])]
    names = [*texts.values(), *([END] if has_suffix else [])]
    tokenizer = _byte_tokenizer(folder, names) if is_bart else _piece_tokenizer(folder, names, languages)
    start = config.get("decoder_start_token_id")
    start = config["eos_token_id"] if start is None else start
    special = {PAD: config["pad_token_id"], UNK: vocabulary["<unk>"], BOS: start, EOS: config["eos_token_id"]}
    marks: dict[str, Any] = {}
    source_end = None
    if is_bart:
        marks = {"source_prefix": START, "target_prefix": START}
    elif has_suffix:
        special[BOS], source_end = (vocabulary[language_token(languages, code, "")] for code in chosen[::-1])
        marks = {"source_suffix": END}
    elif languages:
        marks = {"languages": languages}
    recipe = _recipe(folder, config, chosen, marks, tokenizer.size, tied="output" if has_suffix else "all")
    table = torch.tensor([special[number] for number in range(len(SPECIALS))] + rows)
    tensors = _tensors(read_weights(folder), config, table, source_end)
    if has_suffix:
        tensors["output_bias"][-1] = NEVER
    return Adopted(recipe, tensors, [(tokenizer, JOINT)])


def _check(folder: Path, config: dict[str, Any]) -> None:
    for name in ("attention_heads", "ffn_dim"):
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            raise UserError(f"{folder} has another {name} in its decoder than in its encoder, which cannot be adopted")
    if config.get("activation_function") not in ACTIVATIONS:
        raise UserError(f"{folder} has the activation {config.get('activation_function')!r}, which cannot be adopted")
    if not config.get("tie_word_embeddings", True):
        raise UserError(f"{folder} has tie_word_embeddings = False, which cannot be adopted; only True can")


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json with what special_tokens_map.json adds."""
    files = [folder / name for name in ("special_tokens_map.json", "tokenizer_config.json")]
    return {key: value for path in files if path.is_file() for key, value in read_json(path).items()}


def _vocabulary(folder: Path, settings: dict[str, Any]) -> dict[str, int]:
    """The row of every token."""
    if (folder / "vocab.json").is_file():
        vocabulary = dict(read_json(folder / "vocab.json"))
    elif (folder / PIECES).is_file():
        pieces = read_pieces((folder / PIECES).read_bytes(), str(folder / PIECES))
        vocabulary = {text: row for row, text in enumerate(FIRST)}
        vocabulary |= {piece.text: row + 1 for row, piece in enumerate(pieces) if row >= len(FIRST) - 1}
    elif (folder / "tokenizer.json").is_file() and isinstance(_stored(folder).get("vocab"), dict):
        vocabulary = dict(_stored(folder)["vocab"])
    else:
        raise UserError(f"{folder} has neither vocab.json nor {PIECES}; copy the whole folder of the model")
    added = {entry["content"]: int(row) for row, entry in settings.get("added_tokens_decoder", {}).items()}
    if (folder / "tokenizer.json").is_file():
        added |= {entry["content"]: entry["id"] for entry in read_json(folder / "tokenizer.json")["added_tokens"]}
    listed = settings.get("additional_special_tokens") or settings.get("extra_special_tokens") or []
    if not listed and settings.get("language_codes") == "m2m100":
        listed = [f"__{code}__" for code in M2M_LANGUAGES.split()]
    for token in [*listed, *([] if (folder / "vocab.json").is_file() else ["<mask>"])]:
        text = token["content"] if isinstance(token, dict) else token
        if text not in vocabulary | added:
            added[text] = max((vocabulary | added).values()) + 1
    return vocabulary | added


def _stored(folder: Path) -> dict[str, Any]:
    """The model of tokenizer.json."""
    return dict(read_json(folder / "tokenizer.json").get("model", {}))


def _texts(vocabulary: dict[str, int], config: dict[str, Any]) -> dict[int, str]:
    """The token of every row but those of padding, unknown and end, by row."""
    special = {config["pad_token_id"], config["eos_token_id"], vocabulary["<unk>"]}
    names = {row: text for text, row in vocabulary.items()}
    texts = {row: names.get(row, f"<row {row}>") for row in range(config["vocab_size"]) if row not in special}
    return {row: START if text == FIRST[0] else text for row, text in texts.items()}


def languages_of(texts: Any) -> dict[str, str]:
    """The tokens of languages by their codes: en, or eng_Latn."""
    matches = {text: LANGUAGE.fullmatch(text) for text in texts}
    return {next(filter(None, match.groups())): text for text, match in matches.items() if match}


def _pair(folder: Path, settings: dict[str, Any], languages: dict[str, str], pair: str | None) -> tuple[str, str]:
    """The codes of both languages; empty for models without."""
    if not languages:
        if pair:
            raise UserError(f"{folder} has no tokens of languages; leave --pair {pair} out")
        return "", ""
    codes = pair.split("-") if pair else [settings.get("src_lang"), settings.get("tgt_lang")]
    if len(codes) != 2 or not all(codes):
        raise UserError(f"{folder} has {len(languages)} languages; choose two, such as --pair en-fr")
    known = {token: code for code, token in languages.items()}
    source, target = (
        known.get(str(code)) or known[language_token(languages, code, side)]
        for code, side in zip(codes, ("source", "target"), strict=True)
    )
    return source, target


def _is_suffixed(config: dict[str, Any], settings: dict[str, Any], languages: dict[str, str]) -> bool:
    """Whether the language stands behind the end of a source, as in mBART and older models of NLLB."""
    if config["model_type"] != "mbart":
        return bool(settings.get("legacy_behaviour"))
    kind = settings.get("tokenizer_class") or config.get("tokenizer_class") or ""
    return not kind.startswith("MBart50") and (bool(kind) or len(languages) <= 25)


def _piece_tokenizer(folder: Path, names: list[str], languages: dict[str, str]) -> Tokenizer:
    path = folder / PIECES
    if not path.is_file():
        raise UserError(f"{path} is missing; copy the whole folder of the model")
    model = path.read_bytes()
    known = {piece.text for piece in read_pieces(model, str(path))}
    is_single = {text for text in names if len(text) == 1} if not is_byte_pairs(model) else set()
    return SubwordTokenizer(with_vocabulary(model, names, control={*names} - known - is_single | {*languages.values()}))


def _byte_tokenizer(folder: Path, names: list[str]) -> Tokenizer:
    _, merges, prefix_space = read_byte_level(folder)
    return ByteLevelTokenizer(names, merges, prefix_space=prefix_space)


def _recipe(
    folder: Path, config: dict[str, Any], pair: tuple[str, str], marks: dict[str, Any], size: int, tied: str
) -> TranslateRecipe:
    path = folder / "generation_config.json"
    generation = config | (read_json(path) if path.is_file() else {})
    search = {own: generation[name] for name, own in SEARCH_KEYS.items() if generation.get(name)}
    if generation.get("min_length"):
        search["min_length"] = generation["min_length"] - 1  # there the first token of the decoder counts
    model = {own: config[name] for name, own in MODEL_KEYS.items() if name in config}
    model |= {"architecture": "transformer", "layers": config["encoder_layers"], "positions": "learned"}
    model |= {"norm": "post" if config["model_type"] == "bart" else "pre", "tied": tied, "output_bias": True}
    model |= {"embedding_norm": config["model_type"] != "m2m_100"}
    model |= {"activation": ACTIVATIONS[config["activation_function"]]}
    if config["model_type"] == "m2m_100":  # sinusoids, and no bias of the output layer
        model["frozen"] = ["positions", "output_bias"]
    languages = dict(zip(("source_language", "target_language"), pair, strict=True)) if all(pair) else {}
    tokenizer = {"kind": "bpe", "size": size, "joint": True, **marks}
    return TranslateRecipe.model_validate({"data": languages, "tokenizer": tokenizer, "model": model, "search": search})


def _tensors(
    weights: dict[str, Tensor], config: dict[str, Any], rows: Tensor, source_end: int | None
) -> dict[str, Tensor]:
    """The weights by harken's names; `source_end` is the row that ends a source, where it is another than EOS."""
    shared = weights["model.shared.weight"].float()
    bias = weights.get("final_logits_bias", torch.zeros(1, len(shared))).float().reshape(-1)[rows]
    bias[BOS] = NEVER
    tensors = {"output_weight": shared[rows], "output_bias": bias} | block_tensors(weights, config)
    if source_end is not None:
        source = shared[rows]
        source[EOS] = shared[source_end]
        tensors["source_embedding.weight"] = source
    for side in ("encoder", "decoder"):
        stored = weights.get(f"model.{side}.embed_positions.weight")
        tensors[f"{side}.stack.positions.embedding.weight"] = (
            sinusoids(config["max_position_embeddings"], config["d_model"]) if stored is None else stored[OFFSET:]
        ).float()
        for name, own in {"layernorm_embedding": "embedding_norm", "layer_norm": "norm"}.items():
            for kind in ("weight", "bias"):
                if (stored := weights.get(f"model.{side}.{name}.{kind}")) is not None:
                    tensors[f"{side}.stack.{own}.{kind}"] = stored.float()
    return tensors


def sinusoids(length: int, width: int) -> Tensor:
    """(length, D): fairseq's positions from 2 on, all sines before all cosines.

    p_i[k] = sin(i / 10000^(k / (D/2 - 1)))      p_i[D/2 + k] = cos(i / 10000^(k / (D/2 - 1)))
    """
    half = width // 2
    rate = torch.exp(torch.arange(half).float() * -(math.log(10000) / (half - 1)))
    angle = torch.arange(OFFSET, OFFSET + length).float()[:, None] * rate
    return torch.cat((angle.sin(), angle.cos()), 1)
