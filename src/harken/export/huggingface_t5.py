"""Transformers with RMS norms and buckets of distances as T5: the reverse of `harken.adopt.t5`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harken.adopt.pieces import CONTROL, UNKNOWN, Piece, read_pieces, with_pieces
from harken.adopt.t5 import ACTIVATIONS, EMBEDDING, ROW, SENTINEL, block_names
from harken.data.tokenizers.subword import SPACE
from harken.data.tokenizers.tokens import BOS, EOS, SPECIALS, UNK
from harken.export.huggingface_files import check_count, generation_of, refuse, subwords, write_json
from harken.files import atomic_write
from harken.kernels.decoding.description import Stack
from harken.nn.activations import GATED
from harken.training.weights import save_tensors

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

LENGTH = 512  # of generated outputs


def export_t5(translator: Translator, encoder: Stack, decoder: Stack, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model has a part that T5 does not have, or its tokenizer is not SentencePiece.
    """
    model: Any = translator.model
    _check(model, encoder, decoder)
    tokenizer = subwords(translator)[0]
    rows = torch.tensor([BOS, EOS, UNK, *range(len(SPECIALS), tokenizer.size)])  # the decoder starts with <pad>
    save_tensors(folder / "model.safetensors", _weights(model, encoder, decoder, rows), {"format": "pt"})
    numbers = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    is_tied = model.source_embedding.weight is model.output_weight
    write_json(folder / "config.json", _config(translator, encoder, decoder, len(rows), is_tied) | numbers)
    write_json(folder / "generation_config.json", generation_of(translator, 0, LENGTH) | numbers)
    pieces = read_pieces(tokenizer.model, "the tokenizer")[len(SPECIALS) :]
    added = [bool(SENTINEL.fullmatch(piece.text.removeprefix(SPACE)) or ROW.fullmatch(piece.text)) for piece in pieces]
    count = added.index(True) if True in added else len(pieces)
    sentinels = sum(bool(SENTINEL.fullmatch(piece.text.removeprefix(SPACE))) for piece in pieces[count:])
    first = [Piece("<pad>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL), Piece("<unk>", 0.0, UNKNOWN)]
    atomic_write(folder / "spiece.model", with_pieces(tokenizer.model, [*first, *pieces[:count]]))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": sentinels})


def _check(model: Any, encoder: Stack, decoder: Stack) -> None:
    for stack in (encoder, decoder):
        refuse(
            {
                "model.norm = 'post' with RMS norms": not stack.pre,
                "RMS norms without positions = 'buckets'": stack.buckets is None or stack.positions is not None,
                f"model.activation = {stack.activation!r}": stack.activation not in ACTIVATIONS.values(),
                "RMS norms without attention = 'dot'": stack.scaled,
                "RMS norms with model.bias": stack.layers[0].feed_forward.expand.bias is not None,
                "model.embedding_norm with RMS norms": stack.embedding_norm is not None,
                "model.scale_embeddings = false with RMS norms": stack.embedding_scale == 1,
                "another shape of the decoder": _shape(stack) != _shape(encoder),
            }
        )
    refuse(
        {"model.tied = 'none' or 'output' in T5": model.source_embedding.weight is not model.target_embedding.weight}
    )
    bias = model.output_bias
    if bias is not None:
        free = bias.detach().clone()
        free[BOS] = 0
        refuse({"a trained model.output_bias in T5 (model.frozen keeps it)": bool(free.any())})


def _shape(stack: Stack) -> tuple[Any, ...]:
    return stack.heads, stack.head_width, stack.feedforward, stack.activation, stack.epsilon


def _weights(model: Any, encoder: Stack, decoder: Stack, rows: Tensor) -> dict[str, Tensor]:
    """The weights by T5's names.

    Raises:
        UserError: a parameter has no place there.
    """
    own = {name: value.detach().float().cpu() for name, value in model.named_parameters()}
    output = own.pop("output_weight", None)  # a name of the embeddings where they are tied
    own.pop("output_bias", None)
    source = model.source_embedding.weight.detach().float().cpu()
    own.pop(EMBEDDING, None)
    own.pop("target_embedding.weight", None)
    weights = {"shared.weight": source[rows] * math.sqrt(encoder.width)}
    if model.output_weight is not model.source_embedding.weight:
        assert output is not None
        weights["lm_head.weight"] = output[rows]
    for side, stack in {"encoder": encoder, "decoder": decoder}.items():
        weights[f"{side}.final_layer_norm.weight"] = own[f"{side}.stack.norm.weight"]
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[table] = own[f"{side}.stack.blocks.0.attention.positions.bias"]
        for layer in range(len(stack.layers)):
            names = block_names(side == "decoder", stack.activation in GATED)
            for name, parts in names.items():
                value = own[f"{side}.stack.blocks.{layer}.{name}.weight"]
                for part, chunk in zip(parts, value.chunk(len(parts)), strict=True):
                    weights[f"{side}.block.{layer}.layer.{part}.weight"] = chunk.clone()
    check_count(own, [value for name, value in weights.items() if name not in ("shared.weight", "lm_head.weight")])
    return weights


def _config(translator: Translator, encoder: Stack, decoder: Stack, size: int, is_tied: bool) -> dict[str, Any]:
    """config.json without the special tokens."""
    assert encoder.buckets is not None
    model: Any = translator.recipe.model
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": size,
        "d_model": encoder.width,
        "d_kv": encoder.head_width,
        "d_ff": encoder.feedforward,
        "num_heads": encoder.heads,
        "num_layers": len(encoder.layers),
        "num_decoder_layers": len(decoder.layers),
        "dropout_rate": model.dropout,
        "layer_norm_epsilon": encoder.epsilon,
        "feed_forward_proj": next(theirs for theirs, own in ACTIVATIONS.items() if own == encoder.activation),
        "relative_attention_num_buckets": len(encoder.buckets.bias),
        "relative_attention_max_distance": encoder.buckets.max_distance,
        "tie_word_embeddings": is_tied,
        "scale_decoder_outputs": is_tied,
    }
