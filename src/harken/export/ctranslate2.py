"""Transformers as CTranslate2 models, through CTranslate2's own specification (`ctranslate2.specs`).

    translator = ctranslate2.Translator("runs/ct2")
    translator.translate_batch([["the", "black", "cat"]], beam_size=5)

Tokens are the pieces of the tokenizers, which are saved beside the model; CTranslate2 adds the end of the source.
Sinusoidal and learned positions become a table, rotary positions and buckets CTranslate2's own. What it has no form for
(ALiBi, relative and dependency positions, experts, other scores, encoders and decoders that are no Transformers) is
refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.data.tokenizers.base import Tokenizer, save_tokenizers
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError, require_extra
from harken.export.onnx_transformer import LENGTH, check, positions_table
from harken.kernels.decoding.description import Linear, Norm, SelfAttention, Stack, Undescribed
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.description import describe_stack
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.activations import GATED

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

NEVER = -1e9  # the bias of tokens that are never written


def export_ctranslate2(translator: Translator, folder: Path, start: str = "") -> None:
    """Write a translator into an empty folder.

    Args:
        start: a piece that CTranslate2 adds before every source; otherwise the caller's tokens have it.

    Raises:
        UserError: the model is no Transformer, has an option that CTranslate2 lacks, or ctranslate2 is not installed.
    """
    require_extra("ctranslate2", "ctranslate2", "export to CTranslate2")
    from ctranslate2.specs import transformer_spec

    model: Any = translator.model
    source, target = describe_sides(model)
    encoder = transformer_spec.TransformerEncoderSpec(**options_of(source))
    decoder = transformer_spec.TransformerDecoderSpec(**options_of(target))
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    encoder.embeddings[0].weight = array(model.source_embedding.weight)
    decoder.embeddings.weight = array(model.target_embedding.weight)
    set_stack(encoder, source)
    set_stack(decoder, target)
    bias = torch.zeros(len(model.output_weight)) if model.output_bias is None else model.output_bias.detach().clone()
    bias[[PAD, BOS]] = NEVER
    set_linear(decoder.projection, Linear(model.output_weight, bias))
    spec.register_source_vocabulary(vocabulary(translator.source, "source"))
    spec.register_target_vocabulary(vocabulary(translator.target, "target"))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[BOS], SPECIALS[EOS]
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIALS[BOS], True
    if start:
        spec.config.bos_token, spec.config.add_source_bos = start, True
    spec.config.layer_norm_epsilon = target.epsilon
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    save_tokenizers(folder, translator.source, translator.target)


def describe_sides(model: Any, form: str = "CTranslate2") -> tuple[Stack, Stack]:
    """The descriptions of encoder and decoder.

    Raises:
        UserError: the form has no place for a part of the model.
    """
    sides = (getattr(model, "encoder", None), TransformerEncoder), (getattr(model, "decoder", None), TransformerDecoder)
    stacks = []
    for side, kind in sides:
        if type(side) is not kind:
            name = type(model if side is None else side).__name__
            raise UserError(f"{form} has no form for {name}; it takes Transformers with encoder and decoder")
        try:
            stacks.append(describe_stack(side.stack))
            check(stacks[-1])
            if stacks[-1].slopes is not None:
                raise Undescribed("model.positions = 'alibi'")
        except Undescribed as option:
            raise UserError(f"{form} has no form for {option}; train without it to export the model") from option
    if model.join is not None or not isinstance(model.narrow, nn.Identity):
        raise UserError(f"{form} has no form for an encoder and a decoder of unequal width; train with equal ones")
    return stacks[0], stacks[1]


def options_of(stack: Stack) -> dict[str, Any]:
    """The arguments of CTranslate2's specification of a stack."""
    from ctranslate2.specs.common_spec import Activation

    swish = Activation.SWISH
    gelus = {"gelu": Activation.GELU, "gelu_tanh": Activation.GELUTanh}
    activations = {"relu": Activation.RELU, **gelus, "silu": swish, "swiglu": swish, "geglu": Activation.GELUTanh}
    options = {
        "num_layers": len(stack.layers),
        "num_heads": stack.heads,
        "pre_norm": stack.pre,
        "layernorm_embedding": stack.embedding_norm is not None,
        "activation": activations[stack.activation],
        "ffn_glu": stack.activation in GATED,
        "rms_norm": stack.is_rms,
        "relative_attention_bias": stack.buckets is not None,
        "head_dim": stack.head_width,
    }
    if stack.angles is not None:
        options |= {"rotary_dim": stack.head_width, "rotary_interleave": True}
    return options


def set_stack(spec: Any, stack: Stack) -> None:
    """Fill in the weights of one side."""
    if hasattr(spec, "position_encodings"):
        if stack.angles is not None:
            del spec.position_encodings
        else:
            table = positions_table(stack)
            spec.position_encodings.encodings = array(torch.zeros(LENGTH, stack.width) if table is None else table)
    spec.scale_embeddings = stack.embedding_scale != 1
    if stack.embedding_norm is not None:
        set_norm(spec.layernorm_embedding, stack.embedding_norm)
    if hasattr(spec, "layer_norm"):
        set_norm(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, stack.layers, strict=True):
        own, cross, feed_forward = block.self_attention, block.cross_attention, block.feed_forward
        assert isinstance(own, SelfAttention)
        set_attention(layer.self_attention, stack, own.norm, own.query_key_value, own.output)
        if stack.buckets is not None:
            layer.self_attention.relative_attention_bias = array(stack.buckets.bias)
            layer.self_attention.relative_attention_max_distance = np.int32(stack.buckets.max_distance)
        if cross is not None:
            set_attention(layer.attention, stack, cross.norm, cross.query, cross.key_value, cross.output)
        set_norm(layer.ffn.layer_norm, feed_forward.norm)
        (weight, bias, _), inner = feed_forward.expand, stack.feedforward
        gate, candidate = slice(0, inner), slice(inner, 2 * inner)
        if hasattr(layer.ffn, "linear_0_noact"):  # the first half of a gated layer's first map is the gate
            set_linear(layer.ffn.linear_0_noact, Linear(weight[candidate], None if bias is None else bias[candidate]))
        set_linear(layer.ffn.linear_0, Linear(weight[gate], None if bias is None else bias[gate]))
        set_linear(layer.ffn.linear_1, feed_forward.contract)


def set_attention(spec: Any, stack: Stack, norm: Norm, *linears: Linear) -> None:
    """Fill in the maps of an attention layer and the norm around it."""
    set_norm(spec.layer_norm, norm)
    for linear, layer in zip(spec.linear, linears, strict=True):
        set_linear(linear, layer)
    if not stack.scaled:
        spec.queries_scale = array(torch.tensor(1.0))


def set_linear(spec: Any, layer: Linear) -> None:
    """y = W x + b."""
    spec.weight = array(layer.weight)
    if layer.bias is not None:
        spec.bias = array(layer.bias)


def set_norm(spec: Any, norm: Norm | None) -> None:
    """Layer normalisation or RMS norm."""
    assert norm is not None
    spec.gamma = array(norm.weight)
    if norm.bias is not None:
        spec.beta = array(norm.bias)


def array(values: Tensor) -> Any:
    """A tensor as CTranslate2 takes it."""
    return values.detach().float().cpu().contiguous().numpy()


def vocabulary(tokenizer: Tokenizer, side: str) -> list[str]:
    """The pieces of a tokenizer by id.

    Raises:
        UserError: two of them are equal, so that a token would not say which is meant.
    """
    pieces = [*SPECIALS, *tokenizer.pieces(range(len(SPECIALS), tokenizer.size))]
    if len(set(pieces)) < len(pieces):
        double = next(piece for index, piece in enumerate(pieces) if piece in pieces[:index])
        raise UserError(
            f"the {side} vocabulary has the token {double!r} twice, which CTranslate2 cannot tell apart; train with "
            "another tokenizer"
        )
    return pieces
