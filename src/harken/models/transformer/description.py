"""The description of a Transformer for the compiled decoders and the exporters (`harken.kernels.decoding.description`).

Described are all sizes, norms and activations, tied or separate output layers, scaled and plain dot-product scores,
positions that are sinusoidal, learned, rotary, ALiBi, buckets or none, and decoders with an SSRU.

>>> from harken.nn.transformer.stack import EncoderStack
>>> stack = describe_stack(EncoderStack(layers=2, width=8, heads=2, feedforward=16))
>>> stack.layers[1].self_attention.query_key_value.weight.shape
torch.Size([24, 8])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from harken.kernels.decoding.description import (
    SSRU,
    Buckets,
    CrossAttention,
    FeedForward,
    Linear,
    Norm,
    SelfAttention,
    Stack,
    StackLayer,
    Table,
    Transformer,
    Undescribed,
)
from harken.kernels.weights import has_hooks
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.activations import ACTIVATIONS
from harken.nn.attention import multihead
from harken.nn.attention.head_scores import DotHeads, ScaledHeads
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.buckets import BucketPositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent import ssru
from harken.nn.transformer import block as blocks
from harken.nn.transformer.experts import Experts
from harken.nn.transformer.stack import DecoderStack, EncoderStack

if TYPE_CHECKING:
    from harken.models.encoder_decoder import EncoderDecoder


def describe_transformer(model: EncoderDecoder) -> Transformer:
    """A model with a Transformer decoder.

    Raises:
        Undescribed: the decoder is of another kind, or has a part without a description.
    """
    if type(model.decoder) is not TransformerDecoder:
        raise Undescribed(type(model.decoder).__name__)
    if not isinstance(model.narrow, nn.Identity):
        raise Undescribed("an output layer of another width")
    encoder = None
    if type(model.encoder) is TransformerEncoder and model.join is None:
        try:
            encoder = describe_stack(model.encoder.stack)
        except Undescribed:  # the model itself computes the memory
            encoder = None
    return Transformer(
        encoder=encoder,
        source_embedding=model.source_embedding.weight,
        decoder=describe_stack(model.decoder.stack),
        target_embedding=model.target_embedding.weight,
        output=Linear(model.output_weight, model.output_bias, is_output=True),
        alignment_layer=model.decoder.alignment_layer,
        alignment_heads=tuple(model.decoder.alignment_heads or ()),
    )


def describe_stack(stack: EncoderStack | DecoderStack) -> Stack:
    """All blocks of one side.

    Raises:
        Undescribed: a block has a part without a description.
    """
    if type(stack) not in (EncoderStack, DecoderStack) or has_hooks(stack):
        raise Undescribed("Transformer blocks of your own, or with hooks")
    if type(stack.positions) not in (type(None), SinusoidalPositions, LearnedPositions):
        raise Undescribed("model.positions of your own")
    layers = tuple(_describe_block(block) for block in stack.blocks)
    first: Any = stack.blocks[0]
    attention = first.cross if first.mixer == "ssru" else first.attention
    positions = None if first.mixer == "ssru" else attention.positions
    return Stack(
        layers=layers,
        norm=_norm(stack.norm) if first.pre else None,
        embedding_norm=None if isinstance(stack.embedding_norm, nn.Identity) else _norm(stack.embedding_norm),
        width=stack.width,
        embedding_scale=stack.embedding_scale,
        heads=attention.heads,
        feedforward=first.feedforward.contract.in_features,
        pre=first.pre,
        activation=next(name for name, function in ACTIVATIONS.items() if function is first.feedforward.activation),
        scaled=type(attention.score) is ScaledHeads,
        positions=stack.positions,
        angles=positions.angles if isinstance(positions, RotaryPositions) else None,
        slopes=positions.slopes if isinstance(positions, AlibiPositions) else None,
        buckets=Buckets(positions.bias, positions.max_distance) if isinstance(positions, BucketPositions) else None,
        biases=_distance_biases(positions),
        max_length=stack.positions.embedding.num_embeddings if isinstance(stack.positions, LearnedPositions) else None,
    )


def _distance_biases(positions: Any) -> Table | None:
    """The biases of the scores at the distances from 1 - length on, if there are any."""
    if isinstance(positions, AlibiPositions):
        return lambda length: -positions.slopes[:, None] * torch.arange(1 - length, length).abs()
    if isinstance(positions, BucketPositions):
        return lambda length: positions.bias[positions.buckets_of(torch.arange(1 - length, length))].T
    return None


def _describe_block(block: Any) -> StackLayer:
    if type(block) not in (blocks.EncoderBlock, blocks.DecoderBlock):
        raise Undescribed(type(block).__name__)
    if type(block.feedforward) is not blocks.FeedForward:
        is_mixture = isinstance(block.feedforward, Experts)
        raise Undescribed("model.experts" if is_mixture else type(block.feedforward).__name__)
    cross = None
    if isinstance(block, blocks.DecoderBlock):
        _check_attention(block.cross, multihead.CrossAttention)
        query, key_value, output = map(_linear, (block.cross.query, block.cross.key_value, block.cross.output))
        cross = CrossAttention(query, key_value, output, _norm(block.cross_norm))
    expand, contract = _linear(block.feedforward.expand), _linear(block.feedforward.contract)
    return StackLayer(_describe_mixer(block), cross, FeedForward(expand, contract, _norm(block.feedforward_norm)))


def _describe_mixer(block: Any) -> SelfAttention | SSRU:
    norm = _norm(block.attention_norm)
    if block.mixer == "ssru":
        unit = block.recurrence
        if type(unit) is not ssru.SSRU:
            raise Undescribed(type(unit).__name__)
        bias = torch.cat((unit.forget_bias, torch.zeros_like(unit.forget_bias))).detach()
        return SSRU(Linear(unit.forget_candidate.weight, bias), norm)
    _check_attention(block.attention, multihead.SelfAttention)
    kind = type(block.attention.positions)
    if kind not in (AttentionPositions, RotaryPositions, AlibiPositions, BucketPositions):
        raise Undescribed(f"model.positions = {kind.__name__.removesuffix('Positions').lower()!r}")
    return SelfAttention(_linear(block.attention.query_key_value), _linear(block.attention.output), norm)


def _check_attention(layer: Any, kind: type[multihead.SelfAttention] | type[multihead.CrossAttention]) -> None:
    if type(layer) is not kind:
        raise Undescribed(type(layer).__name__)
    if type(layer.score) not in (ScaledHeads, DotHeads):
        raise Undescribed(f"model.attention = {type(layer.score).__name__.removesuffix('Heads').lower()!r}")


def _linear(layer: nn.Linear) -> Linear:
    if type(layer) is not nn.Linear:
        raise Undescribed(type(layer).__name__)
    return Linear(layer.weight, layer.bias)


def _norm(layer: Any) -> Norm:
    return Norm(layer.weight, getattr(layer, "bias", None), layer.eps)
