"""Transformers in Hugging Face's format, for the package `transformers`: the reverse of `harken.adopt`.

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained("runs/hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained("runs/hf")

A model with learned positions is one of BART's family (`huggingface_bart.py`), one with RMS norms and buckets a T5
(`huggingface_t5.py`). Of the others, those with the norms after each sub-layer are Marian models, and those with the
norms before them Pegasus models, which have Marian's positions and biases. Both get Marian's tokenizer, which runs the
SentencePiece models as they are, and its vocabulary: </s>, <unk>, the pieces, <pad>. The decoder starts with <pad>,
which has the embedding of harken's BOS.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.adopt.bart import block_weights
from harken.adopt.marian import LANGUAGE_TOKEN, features
from harken.adopt.pieces import USER_DEFINED, read_pieces, with_pieces, with_spaces
from harken.data.text.languages import languages_of
from harken.data.tokenizers.subword import SPACE, SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, SPECIALS, UNK
from harken.errors import UserError
from harken.export.ctranslate2 import describe_sides
from harken.export.huggingface_bart import export_bart
from harken.export.huggingface_files import FORM, check_count, generation_of, refuse, subwords, write_json
from harken.export.huggingface_t5 import export_t5
from harken.export.marks import refuse_marks
from harken.files import atomic_write
from harken.kernels.decoding.description import Stack
from harken.nn.positions.absolute import SinusoidalPositions, sinusoids
from harken.training.weights import save_tensors

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
EPSILON = 1e-5  # of the norms, which no option of Marian and Pegasus changes
POSITIONS = 1024  # rows of the table of sinusoids
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}


def export_huggingface(translator: Translator, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model has a part that neither Marian nor Pegasus has, or its tokenizers are no subwords.
    """
    model: Any = translator.model
    encoder, decoder = describe_sides(model, FORM)
    if encoder.is_rms and encoder.buckets is not None:
        export_t5(translator, encoder, decoder, folder)
        return
    if encoder.max_length is not None and decoder.max_length is not None:
        export_bart(translator, encoder, decoder, folder)
        return
    check(model, encoder, decoder)
    refuse_marks(translator, FORM)
    sides = subwords(translator)
    rows = torch.tensor([EOS, UNK, *range(len(SPECIALS), sides[0].size), BOS])
    kind = "pegasus" if encoder.pre else "marian"
    save_tensors(folder / "model.safetensors", weights_of(model, rows, kind), {"format": "pt"})
    numbers = {"pad_token_id": len(rows) - 1, "eos_token_id": 0, "decoder_start_token_id": len(rows) - 1}
    write_json(folder / "config.json", config_of(translator, encoder, decoder, kind, len(rows)) | numbers)
    write_json(folder / "generation_config.json", generation_of(translator, len(rows) - 1, POSITIONS // 2) | numbers)
    write_tokenizer(translator, sides, folder)


def check(model: Any, *stacks: Stack) -> None:
    """Refuse what Marian and Pegasus have no option for.

    Raises:
        UserError: with the name of the option.
    """
    for stack in stacks:
        options = {
            "model.norm_kind = 'rms'": stack.is_rms,
            "model.bias = false": stack.layers[0].feed_forward.expand.bias is None,
            "model.head_width": stack.head_width * stack.heads != stack.width,
            "model.positions other than 'sinusoidal'": type(stack.positions) is not SinusoidalPositions,
            f"model.activation = {stack.activation!r}": stack.activation not in ACTIVATIONS,
            "model.attention = 'dot'": not stack.scaled,
            "model.scale_embeddings = false": stack.embedding_scale == 1,
            "model.embedding_norm": stack.embedding_norm is not None,
            "another norm or activation in the decoder": (stack.pre, stack.activation)
            != (stacks[0].pre, stacks[0].activation),
            "norms with another epsilon": stack.epsilon != EPSILON,
        }
        refuse(options)
    embedding = model.output_weight
    if model.source_embedding.weight is not embedding or model.target_embedding.weight is not embedding:
        raise UserError(f'{FORM} needs one matrix for all words; train with tokenizer.joint = true, model.tied = "all"')


def weights_of(model: Any, rows: Tensor, kind: str) -> dict[str, Tensor]:
    """The weights by Marian's names, with features and rows in its order.

    Raises:
        UserError: a parameter has no place there.
    """
    own = {name: value.detach().float().cpu() for name, value in model.named_parameters()}
    width = model.output_weight.shape[1]
    order = features(width).argsort()
    bias = torch.zeros(len(model.output_weight)) if model.output_bias is None else own["output_bias"]
    weights = {
        "model.shared.weight": model.output_weight.detach().float().cpu()[rows][:, order],
        "final_logits_bias": bias[rows][None],
    }
    norms = {f"{side}.stack.norm.{part}": side for side in ("encoder", "decoder") for part in ("weight", "bias")}
    for name, side in norms.items():
        if name in own:
            weights[f"model.{side}.layer_norm.{name.rpartition('.')[2]}"] = own[name][order]
    if kind == "pegasus":  # transformers computes Marian's itself
        table = sinusoids(POSITIONS, width)[:, order]
        weights |= {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}
    blocks = block_weights(own, order)
    check_count(own, [*blocks.values(), *(own[name] for name in norms if name in own)])
    return weights | blocks


def config_of(translator: Translator, encoder: Stack, decoder: Stack, kind: str, size: int) -> dict[str, Any]:
    """config.json without the special tokens."""
    sides = {"encoder": encoder, "decoder": decoder}
    model: Any = translator.recipe.model
    return {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": size,
        "d_model": encoder.width,
        **{f"{side}_layers": len(stack.layers) for side, stack in sides.items()},
        **{f"{side}_attention_heads": stack.heads for side, stack in sides.items()},
        **{f"{side}_ffn_dim": stack.feedforward for side, stack in sides.items()},
        "activation_function": ACTIVATIONS[encoder.activation],
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.feedforward_dropout,
        "max_position_embeddings": POSITIONS,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        **({"decoder_vocab_size": size, "share_encoder_decoder_embeddings": True} if kind == "marian" else {}),
    }


def write_tokenizer(translator: Translator, sides: tuple[SubwordTokenizer, SubwordTokenizer], folder: Path) -> None:
    """Write the files of Marian's tokenizer; tokens of target languages lose their ▁, as Marian has them."""
    names = {}
    for tokenizer, file in zip(sides, ("source.spm", "target.spm"), strict=True):
        pieces = read_pieces(tokenizer.model, file)
        names = {
            piece.text: piece.text.removeprefix(SPACE)
            for piece in pieces
            if piece.kind == USER_DEFINED and LANGUAGE_TOKEN.fullmatch(piece.text.removeprefix(SPACE))
        }
        others = [piece for piece in pieces if piece.text not in names]
        atomic_write(folder / file, with_spaces(with_pieces(tokenizer.model, others)))
    texts = [names.get(text, text) for text in sides[0].pieces(range(len(SPECIALS), sides[0].size))]
    vocabulary = [SPECIALS[EOS], SPECIALS[UNK], *texts, "<pad>"]
    write_json(folder / "vocab.json", {text: row for row, text in enumerate(vocabulary)})
    options = {"tokenizer_class": "MarianTokenizer", "model_max_length": POSITIONS // 2, "separate_vocabs": False}
    special = {"eos_token": SPECIALS[EOS], "unk_token": SPECIALS[UNK], "pad_token": "<pad>"}
    languages = dict(zip(("source_lang", "target_lang"), languages_of(translator.recipe.data), strict=True))
    write_json(folder / "tokenizer_config.json", options | special | languages)
