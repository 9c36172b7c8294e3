"""Recurrent decoders in captured CUDA graphs (`harken.kernels.cuda_graphs`), in sizes rounded up so that few suffice.

A step launches a few small kernels, for which Python takes longer than the GPU. Of an encoder-decoder whose encoder
does not wait for the lengths, a whole update is one graph (`CAPTURED_LOSS`); lengths are then read by kernels alone
(`harken.kernels.settings.device_only`). Anywhere else, as in validation or behind an image encoder, it is the decoder's
loop (`REPLAY`). Added rows have no target, so they add nothing to the loss and its gradient.

>>> [rounded_rows(rows) for rows in (1, 32, 33, 100, 300, 1000)]
[16, 32, 48, 112, 320, 1024]
>>> [rounded_steps(steps, 4) for steps in (1, 13, 63, 65, 130)]
[4, 16, 64, 72, 144]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels import cuda_graphs
from harken.kernels.backend import Backend
from harken.kernels.settings import device_only, why_no_triton
from harken.kernels.weights import has_hooks
from harken.models.base import Memory
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.recurrent.unrolling import unroll

if TYPE_CHECKING:
    from harken.models.encoder_decoder import TranslationModel
    from harken.models.recurrent.decoder import RecurrentDecoder

# Steps are computed one after another, so padding them costs most; rows cost least.
TARGET_MULTIPLE, SOURCE_MULTIPLE, ROW_MULTIPLE = 4, 8, 16


def replay(decoder: RecurrentDecoder, embedded: Tensor, memory: Memory) -> Tensor:
    """`unroll` as a captured CUDA graph: (B, T, E) -> (B, T, H)."""
    batch, time = embedded.shape[:2]
    embedded, memory = pad_sizes(embedded, memory)
    states = memory.states or []

    def function(embedded: Tensor, values: Tensor, mask: Tensor | None, *parts: Tensor) -> Tensor:
        rest = iter(parts)
        last = [tuple(next(rest) for _ in layer) for layer in states] if memory.states is not None else None
        return unroll(decoder, embedded, decoder.start(Memory(values, mask, last)))[0]

    flat = [part for layer in states for part in layer]
    inputs: tuple[Any, ...] = (embedded, memory.values, memory.mask, *flat)
    return cuda_graphs.replay(decoder, function, inputs)[:batch, :time]


def rounded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def rounded_steps(steps: int, multiple: int) -> int:
    """The next multiple; of long sequences at most eight sizes between a power of two and the next."""
    return rounded(steps, max(multiple, 1 << max(0, (steps - 1).bit_length() - 4)))


def rounded_rows(rows: int) -> int:
    """Multiples of 16, at most four sizes between a power of two and the next: batches of a token budget have almost
    any number of rows."""
    return rounded(rows, max(ROW_MULTIPLE, 1 << max(0, (rows - 1).bit_length() - 3)))


def pad_sizes(embedded: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    """Embedded (B, T, E) and a memory (B, S, W) with B, T and S rounded up.

    Targets and sources get padding, which is masked or cut off; the batch repeats its last row.
    """
    batch, time = embedded.shape[:2]
    sources = memory.values.shape[1]
    rows, columns = rounded_rows(batch) - batch, rounded_steps(sources, SOURCE_MULTIPLE) - sources

    def repeat_last(values: Tensor) -> Tensor:
        return values if not rows else torch.cat((values, values[-1:].expand(rows, *values.shape[1:])))

    mask = memory.mask
    if columns and mask is None:
        mask = torch.ones(batch, sources, dtype=torch.bool, device=embedded.device)
    mask = None if mask is None else repeat_last(F.pad(mask, (0, columns)))
    states = None if memory.states is None else [tuple(map(repeat_last, parts)) for parts in memory.states]
    values = repeat_last(F.pad(memory.values, (0, 0, 0, columns)))
    wider = replace(memory, values=values, mask=mask, states=states)
    return repeat_last(F.pad(embedded, (0, 0, 0, rounded_steps(time, TARGET_MULTIPLE) - time))), wider


def why_not_replayed(embedded: Tensor) -> str | None:
    """The reason for which the loop is not captured; None: it is."""
    return None if cuda_graphs.can_capture(embedded.device) else "no graph can be captured now"


def why_not_captured(model: TranslationModel, device: torch.device, dtype: torch.dtype) -> str | None:
    """The reason for which `captured_loss` cannot replace the model's loss. It needs a recurrent encoder and decoder on
    a GPU whose kernels for recurrent layers read the lengths themselves.

    Args:
        dtype: that the layers compute in.
    """
    from harken.models.recurrent.decoder import RecurrentDecoder  # imports this module

    if reason := why_no_triton(device.type == "cuda"):
        return reason
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    if type(encoder) is not RecurrentEncoder or type(decoder) is not RecurrentDecoder or has_hooks(model):
        return "the encoder or the decoder is not recurrent, or has hooks"
    if decoder.config.zoneout or decoder.config.recurrent_dropout:
        return "the encoder's kernel takes the masks of zoneout and recurrent dropout for few rows alone"
    source = torch.empty(rounded_rows(1), SOURCE_MULTIPLE, dtype=torch.long, device=device)
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        return None if encoder.stays_on_device(source) else "the encoder's layers wait for the lengths"


def rounded_sizes(rows: int, sources: int, targets: int) -> tuple[int, int, int]:
    """The sizes of the batch whose graph serves a batch of these sizes.

    >>> rounded_sizes(300, 13, 17)
    (320, 16, 20)
    """
    return rounded_rows(rows), rounded_steps(sources, SOURCE_MULTIPLE), rounded_steps(targets, TARGET_MULTIPLE)


def captured_loss(
    model: TranslationModel,
    source: Tensor,
    lengths: Tensor | None,
    target: Tensor,
    labels: Tensor,
    smoothing: float,
    z_loss: float,
) -> Tensor:
    """`TranslationModel.loss`, without reading anything back from the GPU."""
    with device_only():
        return model.loss(source, lengths, target, labels, smoothing, z_loss=z_loss)


REPLAY = Backend("replay", why_not_replayed, replay)
CAPTURED_LOSS = Backend("captured", why_not_captured, captured_loss)
