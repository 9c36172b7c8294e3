"""Transformers with learned positions as BART, mBART, mBART-50, M2M-100 or NLLB: the reverse of `harken.adopt.fairseq`.

Rows 0 to 3 are <s>, <pad>, </s> and <unk>, then the vocabulary in its order. The decoder starts with </s>, or with a
further row at the end where fine-tuning gave BOS another embedding than EOS.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.adopt.bart import block_weights
from harken.adopt.fairseq import ACTIVATIONS, END, FIRST, MODEL_KEYS, NEVER, OFFSET, PIECES, START, sinusoids
from harken.adopt.fairseq import languages_of as languages_in
from harken.adopt.pieces import CONTROL, UNKNOWN, Piece, read_pieces, with_pieces
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.marks import inner_tokenizer, language_token
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.export.huggingface_files import check_count, generation_of, refuse, write_json
from harken.files import atomic_write
from harken.kernels.decoding.description import Stack
from harken.training.weights import save_tensors

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

KINDS = {  # model_type and class of the model, by the class of its tokenizer
    "BartTokenizer": ("bart", "BartForConditionalGeneration"),
    "MBartTokenizer": ("mbart", "MBartForConditionalGeneration"),
    "MBart50Tokenizer": ("mbart", "MBartForConditionalGeneration"),
    "M2M100Tokenizer": ("m2m_100", "M2M100ForConditionalGeneration"),
    "NllbTokenizer": ("m2m_100", "M2M100ForConditionalGeneration"),
}
CLOSE = 1e-5  # sinusoids of different versions of torch differ by less


def export_bart(translator: Translator, encoder: Stack, decoder: Stack, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model or its tokenizer has a part that none of these models has.
    """
    model: Any = translator.model
    tokenizer = inner_tokenizer(translator.source)
    texts = tokenizer.pieces(range(len(SPECIALS), tokenizer.size))
    languages = languages_in(texts)
    kind = _kind(translator, encoder, texts, languages)
    _check(model, kind, encoder, decoder)
    has_suffix = texts[-1] == END
    vocabulary = range(len(SPECIALS) + 1, tokenizer.size - has_suffix)
    rows = [len(SPECIALS), PAD, EOS, UNK, *vocabulary]
    codes = [
        language_token(languages, _code(translator, side), side) if languages else "" for side in ("source", "target")
    ]
    source, target = (rows.index(len(SPECIALS) + texts.index(token)) if token else None for token in codes)
    table = model.output_weight.detach()
    start = rows.index(EOS)
    if has_suffix:
        assert target is not None
        start = target
    elif not torch.equal(table[BOS], table[EOS]):
        start, rows = len(rows), [*rows, BOS]
    numbers = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": start}
    weights = _weights(model, kind, torch.tensor(rows), (source, target) if has_suffix else None)
    save_tensors(folder / "model.safetensors", weights, {"format": "pt"})
    write_json(folder / "config.json", _config(translator, encoder, decoder, kind, len(rows)) | numbers)
    forced = {"BartTokenizer": 0, "MBartTokenizer": None}.get(kind, target)
    generation = generation_of(translator, 1, _positions(encoder)) | numbers
    never = [[1], [start]] if rows[-1] == BOS else [[1]]
    write_json(folder / "generation_config.json", generation | {"forced_bos_token_id": forced, "bad_words_ids": never})
    _write_tokenizer(tokenizer, kind, texts, codes, folder)


def _code(translator: Translator, side: str) -> str | None:
    code: str | None = getattr(translator.recipe.data, f"{side}_language")
    return code


def _kind(translator: Translator, encoder: Stack, texts: list[str], languages: dict[str, str]) -> str:
    """The class of the tokenizer.

    Raises:
        UserError: the texts and their marks are those of none of these models.
    """
    config, tokenizer = translator.recipe.tokenizer, inner_tokenizer(translator.source)
    refuse({f"a vocabulary without {START} as its first token": not texts or texts[0] != START})
    if isinstance(tokenizer, ByteLevelTokenizer):
        refuse(
            {
                "byte-level pieces without the marks of BART": (config.source_prefix, config.target_prefix)
                != (START,) * 2
            }
        )
        return "BartTokenizer"
    refuse({"another tokenizer than SentencePiece": not isinstance(tokenizer, SubwordTokenizer)})
    refuse({"learned positions without tokens of languages": not languages})
    if encoder.embedding_norm is not None:
        return "MBartTokenizer" if config.source_suffix else "MBart50Tokenizer"
    return "M2M100Tokenizer" if next(iter(languages.values())).startswith("__") else "NllbTokenizer"


def _check(model: Any, kind: str, encoder: Stack, decoder: Stack) -> None:
    """Refuse what the model has no option for.

    Raises:
        UserError: with the name of the option.
    """
    is_m2m, is_bart = KINDS[kind][0] == "m2m_100", kind == "BartTokenizer"
    for stack in (encoder, decoder):
        refuse(
            {
                f"model.activation = {stack.activation!r}": stack.activation not in ACTIVATIONS.values(),
                "model.attention = 'dot'": not stack.scaled,
                "model.norm_kind = 'rms'": stack.is_rms,
                "model.head_width": stack.head_width * stack.heads != stack.width,
                "model.bias = false": stack.layers[0].feed_forward.expand.bias is None,
                f"model.norm other than {KINDS[kind][0]}'s": stack.pre == is_bart,
                f"model.embedding_norm other than {KINDS[kind][0]}'s": (stack.embedding_norm is None) != is_m2m,
                "another norm or activation in the decoder": (stack.pre, stack.activation)
                != (encoder.pre, encoder.activation),
                "norms with another epsilon": stack.epsilon != 1e-5,
                "positions that M2M-100 does not have (model.frozen keeps them)": is_m2m and not _is_sinusoidal(stack),
            }
        )
    refuse({"model.tied other than 'all'": model.target_embedding.weight is not model.output_weight})
    bias = model.output_bias
    others = [BOS, len(bias) - 1] if bias is not None else []
    if is_m2m and bias is not None:
        free = bias.detach().clone()
        free[others] = 0
        refuse({"a trained model.output_bias in M2M-100 (model.frozen keeps it)": bool(free.any())})


def _is_sinusoidal(stack: Stack) -> bool:
    length = _positions(stack)
    assert stack.positions is not None
    return torch.allclose(stack.positions(length).detach().float().cpu(), sinusoids(length, stack.width), atol=CLOSE)


def _positions(stack: Stack) -> int:
    assert stack.max_length is not None
    return stack.max_length


def _weights(model: Any, kind: str, rows: Tensor, ends: tuple[Any, Any] | None) -> dict[str, Tensor]:
    """The weights by BART's names.

    Args:
        ends: mBART's rows of the language that ends a source, and of that which starts a target.

    Raises:
        UserError: a parameter has no place there.
    """
    own = {name: value.detach().float().cpu() for name, value in model.named_parameters()}
    table = model.output_weight.detach().float().cpu()
    shared = table[rows]
    bias = own.pop("output_bias", torch.zeros(len(table)))[rows]
    if rows[-1] == BOS:
        bias[-1] = NEVER
    source = model.source_embedding.weight.detach().float().cpu()
    if ends is None:
        refuse({"source embeddings of their own": model.source_embedding.weight is not model.output_weight})
    else:
        source_end, shared[ends[1]] = ends[0], table[BOS]
        expected = table.clone()
        expected[EOS], expected[-1] = shared[source_end], table[EOS]
        expected[BOS] = source[BOS]
        refuse(
            {
                "source embeddings that training made different from those of the target": not torch.equal(
                    source, expected
                )
            }
        )
    weights = {"model.shared.weight": shared}
    if KINDS[kind][0] != "m2m_100":
        weights["final_logits_bias"] = bias[None]
    for side in ("encoder", "decoder"):
        stack = f"{side}.stack."
        positions = own[f"{stack}positions.embedding.weight"]
        if KINDS[kind][0] != "m2m_100":
            weights[f"model.{side}.embed_positions.weight"] = torch.cat(
                (positions.new_zeros(OFFSET, len(positions[0])), positions)
            )
        for name, theirs in {"embedding_norm": "layernorm_embedding", "norm": "layer_norm"}.items():
            for part in ("weight", "bias"):
                if f"{stack}{name}.{part}" in own:
                    weights[f"model.{side}.{theirs}.{part}"] = own[f"{stack}{name}.{part}"]
    blocks = block_weights(own)
    stored = [value for name, value in weights.items() if "norm" in name]
    positions = [value for name, value in own.items() if name.endswith("positions.embedding.weight")]
    check_count(own, [*blocks.values(), *stored, *positions])
    return weights | blocks


def _config(translator: Translator, encoder: Stack, decoder: Stack, kind: str, size: int) -> dict[str, Any]:
    """config.json without the special tokens."""
    model: Any = translator.recipe.model
    sides = {"encoder": encoder, "decoder": decoder}
    name, class_name = KINDS[kind]
    activation = next(theirs for theirs, own in ACTIVATIONS.items() if own == encoder.activation)
    options = {theirs: getattr(model, own) for theirs, own in MODEL_KEYS.items()}
    return options | {
        "architectures": [class_name],
        "model_type": name,
        "is_encoder_decoder": True,
        "vocab_size": size,
        **{f"{side}_layers": len(stack.layers) for side, stack in sides.items()},
        **{f"{side}_attention_heads": stack.heads for side, stack in sides.items()},
        **{f"{side}_ffn_dim": stack.feedforward for side, stack in sides.items()},
        "activation_function": activation,
        "tie_word_embeddings": True,
        "forced_eos_token_id": None,
    }


def _write_tokenizer(tokenizer: Any, kind: str, texts: list[str], codes: list[str], folder: Path) -> None:
    """The files of the tokenizer; pieces of SentencePiece end before the tokens of languages."""
    options: dict[str, Any] = {"tokenizer_class": kind}
    options |= {f"{side}_lang": code for side, code in zip(("src", "tgt"), codes, strict=True) if code}
    if isinstance(tokenizer, ByteLevelTokenizer):
        tokens = [*FIRST, *tokenizer.tokens[1:]]
        write_json(folder / "vocab.json", {token: row for row, token in enumerate(tokens)})
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in tokenizer.merges)]
        atomic_write(folder / "merges.txt", "\n".join(lines) + "\n")
        write_json(folder / "tokenizer_config.json", options | {"add_prefix_space": tokenizer.prefix_space})
        return
    pieces = read_pieces(tokenizer.model, "the tokenizer")[len(SPECIALS) + 1 :]
    count = next((at for at, piece in enumerate(pieces) if piece.kind == CONTROL), len(pieces))
    first = [Piece("<unk>", 0.0, UNKNOWN), Piece("<s>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL)]
    atomic_write(folder / PIECES, with_pieces(tokenizer.model, [*first, *pieces[:count]]))
    if kind == "M2M100Tokenizer":
        tokens = [*FIRST, *(piece.text for piece in pieces[:count])]
        write_json(folder / "vocab.json", {token: row for row, token in enumerate(tokens)})
        options |= {"language_codes": "m2m100"}
        options |= {f"{side}_lang": code.strip("_") for side, code in zip(("src", "tgt"), codes, strict=True)}
    else:
        options["extra_special_tokens"] = [*languages_in(texts).values()]
    write_json(folder / "tokenizer_config.json", options)
