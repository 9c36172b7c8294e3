"""A Transformer encoder-decoder on packed sentence pairs (`harken.data.packing`).

The tokens of all sentences lie one after another, so every linear map and norm works on (S, D) or (T, D) without
padding; attention keeps sentences apart (`harken.nn.attention.packed`), and positions start anew in each. Loss and
gradients are those of the padded batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import LayerNorm

from harken.kernels.backend import Backend
from harken.kernels.packed_attention.operator import PACKED_ATTENTION
from harken.kernels.weights import has_hooks
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.attention.packed import PackedMask
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.ssru import SSRU
from harken.nn.transformer.block import DecoderBlock, EncoderBlock, FeedForward
from harken.nn.transformer.fused import DropoutSeed

DECODER = 10_000  # the offset of the decoder's dropout, after that of the encoder

if TYPE_CHECKING:
    from harken.models.encoder_decoder import TranslationModel


def why_not_packed(model: TranslationModel, device: torch.device) -> str | None:
    """The reason for which `packed_loss` does not replace the model's loss on a device."""
    return why_not_blocks(model) or why_no_kernels(model, device)


def why_not_blocks(model: TranslationModel) -> str | None:
    """Blocks with dot products on both sides compute the same of packed pairs.

    Relative, ALiBi, bucket and dependency positions, RMS norms, linear maps without bias, heads of another width,
    dropout on attention weights and mixtures of experts need padded batches.
    """
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder or model.join is not None:
        return "the encoder or the decoder is not a Transformer, or their widths differ"
    kinds = (type(None), SinusoidalPositions, LearnedPositions)
    if not all(type(stack.positions) in kinds for stack in (encoder.stack, decoder.stack)):
        return "the positions are not added to the embeddings"
    if not all(_is_packable(block) for block in (*encoder.stack.blocks, *decoder.stack.blocks)):
        return "the blocks have layers that need padded batches, or hooks"
    return None


def _is_packable(block: nn.Module) -> bool:
    """Whether the packed form of a block computes the same."""
    return (
        isinstance(block, EncoderBlock | DecoderBlock)  # not its type, which FSDP changes
        and (type(block.recurrence) is SSRU if block.mixer == "ssru" else _attends(block.attention, SelfAttention))
        and (not isinstance(block, DecoderBlock) or _attends(block.cross, CrossAttention))
        and type(block.feedforward) is FeedForward
        and not has_hooks(block)
        and type(block.attention_norm) is LayerNorm
    )


def _attends(layer: SelfAttention | CrossAttention, kind: type[nn.Module]) -> bool:
    """Whether the packed form of an attention layer computes the same."""
    return (
        type(layer) is kind
        and type(getattr(layer, "positions", None)) in (type(None), AttentionPositions, RotaryPositions)
        and layer.score.is_dot_product
        and not layer.dropout
        and layer.output.bias is not None
        and layer.output.in_features == layer.output.out_features
    )


def _stacks(model: TranslationModel) -> tuple[TransformerEncoder, TransformerDecoder]:
    return cast("TransformerEncoder", model.encoder), cast("TransformerDecoder", model.decoder)


def why_no_kernels(model: TranslationModel, device: torch.device) -> str | None:
    """The reason for which the kernels for packed attention do not run on a device; their reference is for tests."""
    encoder, _ = _stacks(model)
    block = cast("EncoderBlock", encoder.stack.blocks[0])
    return PACKED_ATTENTION.why_not(device, model.output_weight.dtype, encoder.width // block.attention.heads)


def grow_positions(model: TranslationModel, length: int) -> None:
    """Make every table of positions at least this long; packed forward passes only read them."""
    for module in model.modules():
        if isinstance(module, SinusoidalPositions):
            module(length)


def packed_arguments(pairs: Any) -> tuple[Tensor, Tensor, Tensor, PackedMask, PackedMask, PackedMask]:
    """The arguments of `packed_loss` after the model, of a window from `harken.data.packing.pack`."""
    source_span, target_span = (pairs.source_first, pairs.source_end), (pairs.target_first, pairs.target_end)
    to_sources = pairs.target_first_source, pairs.target_end_source
    to_targets = pairs.source_first_target, pairs.source_end_target
    return (
        *(pairs.source, pairs.target_input, pairs.target_output),
        PackedMask(pairs.source_positions, *source_span, *source_span),
        PackedMask(pairs.target_positions, *target_span, *target_span),
        PackedMask(pairs.target_positions, *to_sources, *to_targets),
    )


def packed_hidden(
    model: TranslationModel,
    source: Tensor,
    target: Tensor,
    sources: PackedMask,
    targets: PackedMask,
    cross: PackedMask,
) -> Tensor:
    """Source ids (S,), target ids so far (T,) -> hidden states (T, D) before the output layer.

    Args:
        sources, targets: self-attention within every source and target; made causal here for the targets.
        cross: from targets to sources.
    """
    encoder, decoder = _stacks(model)
    read = model.source_embedding(source) * encoder.stack.embedding_scale
    write = model.target_embedding(target) * decoder.stack.embedding_scale
    seed = DropoutSeed(torch.randint(2**62, (1,), device=source.device))
    memory = encoder.stack.packed(read, seed, sources)
    return model.narrow(decoder.stack.packed(write, seed.at(DECODER), targets.causal(), memory, cross))


def packed_loss(
    model: TranslationModel,
    source: Tensor,
    target: Tensor,
    labels: Tensor,
    sources: PackedMask,
    targets: PackedMask,
    cross: PackedMask,
    smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Tensor:
    """The summed loss of packed pairs; `labels` (T,) is `target` one step ahead with EOS, 0 where there is padding."""
    hidden = packed_hidden(model, source, target, sources, targets, cross)
    return model.loss_of_hidden(hidden, labels, smoothing, z_loss)


PACKED_LOSS = Backend("packed", why_not_packed, packed_loss)
