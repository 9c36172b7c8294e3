"""Transformers as CTranslate2 models, through CTranslate2's own specification (`ctranslate2.specs`).

    translator = ctranslate2.Translator("runs/ct2")
    translator.translate_batch([["the", "black", "cat"]], beam_size=5)

Tokens are the pieces of the tokenizers, which are saved beside the model; CTranslate2 adds the end of the source.
Sinusoidal and learned positions become a table, rotary positions CTranslate2's own. What it has no form for (ALiBi,
relative and dependency positions, experts, other scores, encoders and decoders that are no Transformers) is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harken.data.tokenizers.base import Tokenizer, save_tokenizers
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError, require_extra
from harken.export.onnx_transformer import LENGTH, positions_table, refuse_stack
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.activations import ACTIVATIONS
from harken.nn.attention.head_scores import DotHeads
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.rotary import RotaryPositions

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

NEVER = -1e9  # the bias of tokens that are never written


def export_ctranslate2(translator: Translator, folder: Path) -> None:
    """Write a translator into an empty folder.

    Raises:
        UserError: the model is no Transformer, has an option that CTranslate2 lacks, or ctranslate2 is not installed.
    """
    require_extra("ctranslate2", "ctranslate2", "export to CTranslate2")
    from ctranslate2.specs import transformer_spec

    model: Any = translator.model
    refuse_unsupported(model)
    encoder = transformer_spec.TransformerEncoderSpec(**options_of(model.encoder.stack))
    decoder = transformer_spec.TransformerDecoderSpec(**options_of(model.decoder.stack))
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    set_stack(encoder, model.encoder.stack, [model.source_embedding])
    set_stack(decoder, model.decoder.stack, model.target_embedding)
    bias = torch.zeros(len(model.output_weight)) if model.output_bias is None else model.output_bias.detach().clone()
    bias[[PAD, BOS]] = NEVER
    set_linear(decoder.projection, model.output_weight, bias)
    spec.register_source_vocabulary(vocabulary(translator.source, "source"))
    spec.register_target_vocabulary(vocabulary(translator.target, "target"))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[BOS], SPECIALS[EOS]
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIALS[BOS], True
    spec.config.layer_norm_epsilon = model.decoder.stack.blocks[0].attention_norm.eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    save_tokenizers(folder, translator.source, translator.target)


def refuse_unsupported(model: Any) -> None:
    """Check a model before anything is written.

    Raises:
        UserError: CTranslate2 has no form for it.
    """
    sides = (getattr(model, "encoder", None), TransformerEncoder), (getattr(model, "decoder", None), TransformerDecoder)
    for side, kind in sides:
        if type(side) is not kind:
            found = type(model if side is None else side).__name__
            raise UserError(f"CTranslate2 has no form for {found}; it takes Transformers with encoder and decoder")
        refuse_stack(side.stack, "CTranslate2", (AttentionPositions, RotaryPositions))
    if model.join is not None or not isinstance(model.narrow, nn.Identity):
        raise UserError("CTranslate2 has no form for an encoder and a decoder of unequal width; train with equal ones")


def options_of(stack: Any) -> dict[str, Any]:
    """The arguments of CTranslate2's specification of a stack."""
    from ctranslate2.specs.common_spec import Activation

    first = stack.blocks[0]
    activation = next(name for name, one in ACTIVATIONS.items() if one is first.feedforward.activation)
    options = {
        "num_layers": len(stack.blocks),
        "num_heads": first.attention.heads,
        "pre_norm": first.pre,
        "activation": {"relu": Activation.RELU, "gelu": Activation.GELU, "swiglu": Activation.SWISH}[activation],
        "ffn_glu": activation == "swiglu",
    }
    if isinstance(first.attention.positions, RotaryPositions):
        options |= {"rotary_dim": stack.width // first.attention.heads, "rotary_interleave": True}
    return options


def set_stack(spec: Any, stack: Any, embedding: Any) -> None:
    """Fill in the weights of one side; the encoder's specification has a list of embeddings."""
    for one, table in (
        zip(spec.embeddings, embedding, strict=True) if isinstance(embedding, list) else [(spec.embeddings, embedding)]
    ):
        one.weight = array(table.weight)
    if hasattr(spec, "position_encodings"):
        if isinstance(stack.blocks[0].attention.positions, RotaryPositions):
            del spec.position_encodings
        else:
            table = positions_table(stack)
            spec.position_encodings.encodings = array(torch.zeros(LENGTH, stack.width) if table is None else table)
    if hasattr(spec, "layer_norm"):
        set_norm(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        set_attention(layer.self_attention, block.attention, block.attention_norm, ["query_key_value", "output"])
        if hasattr(block, "cross"):
            set_attention(layer.attention, block.cross, block.cross_norm, ["query", "key_value", "output"])
        set_norm(layer.ffn.layer_norm, block.feedforward_norm)
        expand, contract = block.feedforward.expand, block.feedforward.contract
        if hasattr(layer.ffn, "linear_0_noact"):  # the first half of SwiGLU's first map is the gate
            set_linear(
                layer.ffn.linear_0_noact, expand.weight[contract.in_features :], expand.bias[contract.in_features :]
            )
        set_linear(layer.ffn.linear_0, expand.weight[: contract.in_features], expand.bias[: contract.in_features])
        set_linear(layer.ffn.linear_1, contract.weight, contract.bias)


def set_attention(spec: Any, layer: Any, norm: nn.Module, names: list[str]) -> None:
    """Fill in the maps of an attention layer and the norm around it."""
    set_norm(spec.layer_norm, norm)
    for linear, name in zip(spec.linear, names, strict=True):
        set_linear(linear, getattr(layer, name).weight, getattr(layer, name).bias)
    if isinstance(layer.score, DotHeads):
        spec.queries_scale = array(torch.tensor(1.0))


def set_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    """y = W x + b."""
    spec.weight, spec.bias = array(weight), array(bias)


def set_norm(spec: Any, norm: Any) -> None:
    """Layer normalisation."""
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


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
        double = next(piece for place, piece in enumerate(pieces) if piece in pieces[:place])
        raise UserError(
            f"the {side} vocabulary has the token {double!r} twice, which CTranslate2 cannot tell apart; train with "
            "another tokenizer"
        )
    return pieces
