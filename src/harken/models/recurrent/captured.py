"""Training a recurrent encoder-decoder in updates that are captured as CUDA graphs.

An update launches a few thousand small kernels, for which Python takes longer than the GPU. A graph holds all of them,
for batches of one shape: sizes are rounded up, so that there are few shapes, and lengths are read by kernels alone
(`harken.kernels.settings.device_only`). Added rows have no target, so they add nothing to the loss and its gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.settings import device_only, why_no_triton
from harken.kernels.weights import has_hooks
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.recurrent.replay import SOURCE_MULTIPLE, TARGET_MULTIPLE, rounded_rows, rounded_steps

if TYPE_CHECKING:
    from harken.models.encoder_decoder import TranslationModel


def why_not_captured(model: TranslationModel, device: torch.device, dtype: torch.dtype) -> str | None:
    """The reason for which `captured_loss` cannot replace the model's loss. It needs a recurrent encoder and decoder on
    a GPU whose kernels for recurrent layers read the lengths themselves.

    Args:
        dtype: that the layers compute in.
    """
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


CAPTURED_LOSS = Backend("captured", why_not_captured, captured_loss)
