"""A Transformer encoder-decoder as the compiled decoder of `harken.kernels.decoding` takes it.

Supported are all sizes, norms, activations, tied or separate output layers, scaled and plain dot-product scores,
positions that are sinusoidal, learned, rotary, ALiBi or none, and decoders with an SSRU. For other models `describe`
returns None, and search runs on the model itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from harken.kernels.decoding.description import Linear, Norm, Stack, Transformer
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.activations import ACTIVATIONS
from harken.nn.attention.head_scores import DotHeads, ScaledHeads
from harken.nn.positions.absolute import LearnedPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.transformer.block import FeedForward

if TYPE_CHECKING:
    from harken.models.encoder_decoder import EncoderDecoder


def describe(model: EncoderDecoder) -> Transformer | None:
    """The tensors of a model, without an encoder of another kind; None where the decoder is not supported."""
    if not isinstance(model.decoder, TransformerDecoder) or not isinstance(model.narrow, nn.Identity):
        return None
    decoder = _stack(model.decoder.stack)
    if decoder is None:
        return None
    encoder = _stack(model.encoder.stack) if isinstance(model.encoder, TransformerEncoder) else None
    return Transformer(
        encoder=encoder if model.join is None else None,
        source_embedding=model.source_embedding.weight,
        decoder=decoder,
        target_embedding=model.target_embedding.weight,
        output=Linear(model.output_weight, model.output_bias, is_output=True),
    )


def _stack(stack: Any) -> Stack | None:
    blocks = list(stack.blocks)
    first = blocks[0]
    ssru = hasattr(first, "recurrence")
    attention = first.cross if ssru else first.attention
    kind, score = AttentionPositions if ssru else type(attention.positions), type(attention.score)
    if score not in (ScaledHeads, DotHeads) or not all(isinstance(block.feedforward, FeedForward) for block in blocks):
        return None
    if kind not in (AttentionPositions, RotaryPositions, AlibiPositions):
        return None
    linears: list[Linear] = []
    norms: list[Norm] = []
    for block in blocks:
        layers = [block.feedforward.expand, block.feedforward.contract]
        if ssru:
            unit = block.recurrence
            bias = torch.cat((unit.forget_bias, torch.zeros_like(unit.forget_bias))).detach()
            linears.append(Linear(unit.forget_candidate.weight, bias))
        else:
            layers = [block.attention.query_key_value, block.attention.output, *layers]
        between = [block.attention_norm, block.feedforward_norm]
        if hasattr(block, "cross"):
            layers += [block.cross.query, block.cross.key_value, block.cross.output]
            between.append(block.cross_norm)
        linears += [Linear(layer.weight, layer.bias) for layer in layers]
        norms += [Norm(norm.weight, norm.bias, norm.eps) for norm in between]
    if first.pre:
        norms.append(Norm(stack.norm.weight, stack.norm.bias, stack.norm.eps))
    return Stack(
        linears=linears,
        norms=norms,
        layers=len(blocks),
        width=stack.width,
        heads=attention.heads,
        feedforward=first.feedforward.contract.in_features,
        pre=first.pre,
        activation=next(name for name, one in ACTIVATIONS.items() if one is first.feedforward.activation),
        scaled=score is ScaledHeads,
        positions=stack.positions,
        angles=attention.positions.angles if kind is RotaryPositions else None,
        slopes=attention.positions.slopes if kind is AlibiPositions else None,
        max_length=learned.embedding.num_embeddings
        if isinstance(learned := stack.positions, LearnedPositions)
        else None,
        ssru=ssru,
    )
