"""Transformers on packed sentence pairs (`harken.data.packing`).

The tokens of all sentences lie one after another, so every linear map and norm works on (S, D) or (T, D) without
padding; attention keeps sentences apart (`harken.nn.attention.packed`), and positions start anew in each. Loss and
gradients are those of the padded batch.

encoder-decoder    sources in one row, targets in another
decoder-only       both in one row, every target after its source: x1 x2 BOS y1 | x1 BOS y1 y2 | ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import LayerNorm

from harken.kernels.backend import Backend
from harken.kernels.packed_attention.operator import PACKED_ATTENTION
from harken.kernels.settings import why_no_triton
from harken.kernels.weights import has_hooks
from harken.models.encoder_decoder import TranslationModel
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.decoder_only import DecoderOnly
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.attention.packed import EqualRows, PackedMask
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.ssru import SSRU
from harken.nn.transformer.block import DecoderBlock, EncoderBlock, FeedForward
from harken.nn.transformer.fused import DropoutSeed
from harken.nn.transformer.stack import DecoderStack, EncoderStack

DECODER = 10_000  # the offset of the decoder's dropout, after that of the encoder


def why_not_packed(model: TranslationModel, device: torch.device) -> str | None:
    """The reason for which `packed_loss` does not replace the model's loss on a device."""
    return why_not_blocks(model) or why_no_kernels(model, device)


def why_not_blocks(model: TranslationModel) -> str | None:
    """Blocks with dot products on both sides compute the same of packed pairs.

    Relative, ALiBi, bucket and dependency positions, RMS norms, linear maps without bias, heads of another width,
    dropout on attention weights and mixtures of experts need padded batches.
    """
    if not (stacks := _stacks(model)):
        return "the encoder or the decoder is not a Transformer, or their widths differ"
    return why_not_stacks(stacks)


def why_not_stacks(stacks: Sequence[EncoderStack | DecoderStack]) -> str | None:
    """The reason for which `packed` of these stacks does not compute what they do with padding."""
    kinds = (type(None), SinusoidalPositions, LearnedPositions)
    if not all(type(stack.positions) in kinds for stack in stacks):
        return "the positions are not added to the embeddings"
    if not all(_is_packable(block) for stack in stacks for block in stack.blocks):
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


def _stacks(model: TranslationModel) -> list[EncoderStack | DecoderStack]:
    """The stacks of a Transformer; none of other networks, or where a map joins the encoder to the decoder."""
    if isinstance(model, DecoderOnly):
        return [model.stack]
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    if type(encoder) is not TransformerEncoder or type(decoder) is not TransformerDecoder or model.join is not None:
        return []
    return [encoder.stack, decoder.stack]


def why_no_kernels(model: TranslationModel, device: torch.device) -> str | None:
    """The reason for which the kernels for packed attention do not run on a device; their reference is for tests."""
    stack = _stacks(model)[0]
    block = cast("EncoderBlock", stack.blocks[0])
    return PACKED_ATTENTION.why_not(device, model.output_weight.dtype, stack.width // block.attention.heads)


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
    reader, writer = (stacks := _stacks(model))[0], stacks[-1]
    read = model.source_embedding(source) * reader.embedding_scale
    write = model.target_embedding(target) * writer.embedding_scale
    seed = DropoutSeed(torch.randint(2**62, (1,), device=source.device))
    if isinstance(model, DecoderOnly):
        order, places, mask = prefix_rows(sources, targets, cross)
        return model.stack.packed(torch.cat((read, write))[order], seed, mask)[places]
    memory = reader.packed(read, seed, sources)
    return cast("Tensor", model.narrow(writer.packed(write, seed.at(DECODER), targets.causal(), memory, cross)))


def prefix_rows(sources: PackedMask, targets: PackedMask, cross: PackedMask) -> tuple[Tensor, Tensor, PackedMask]:
    """Sources (S,) and targets (T,) as one row (S + T,) in which every target follows its source.

    A source token sees its whole source; a target token its source, itself and earlier ones. Padding comes last.

    Returns:
        The place in source and target, one after the other, of each token of the row; the places in the row of the
        target's tokens; and what is seen in the row.
    """
    device = sources.positions.device
    source, target = (torch.arange(len(mask.positions), device=device) for mask in (sources, targets))
    is_source, is_target = sources.end_key > 0, targets.end_key > 0
    places = torch.cat(
        (
            source + torch.where(is_source, cross.first_query, targets.end_key.max()),
            target + torch.where(is_target, cross.end_key, len(source)),
        )
    )
    order = torch.empty_like(places).scatter_(0, places, torch.arange(len(places), device=device))
    first = torch.cat((sources.first_key + cross.first_query, cross.first_key + targets.first_key))
    is_real, number = torch.cat((is_source, is_target)), places + 1
    seen = (
        torch.cat((sources.positions, cross.end_key - cross.first_key + targets.positions)),
        first,
        torch.cat((sources.end_key + cross.first_query, number[len(source) :])),
        torch.cat((first[: len(source)], places[len(source) :])),
        torch.cat((sources.end_key + cross.end_query, cross.end_key + targets.end_key)),
    )
    return order, places[len(source) :], PackedMask(*(torch.where(is_real, part, 0).int()[order] for part in seen))


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


def why_not_rows(stack: EncoderStack, device: torch.device) -> str | None:
    """The reason for which `read_rows` does not replace a causal stack."""
    return why_no_triton(device.type == "cuda") or why_not_stacks([stack])


def read_rows(stack: EncoderStack, values: Tensor) -> Tensor:
    """What a causal stack makes of rows without padding, (B, T, D) -> (B, T, D)."""
    rows, time = values.shape[:2]
    stack.reserve_positions(time)
    seed = DropoutSeed(torch.randint(2**62, (1,), device=values.device))
    mask = EqualRows(torch.arange(time, device=values.device).repeat(rows), rows)
    return stack.packed(values.flatten(0, 1), seed, mask).unflatten(0, (rows, time))


PACKED_LOSS = Backend("packed", why_not_packed, packed_loss)
PACKED_ROWS = Backend("packed rows", why_not_rows, read_rows)
