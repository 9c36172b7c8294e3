"""An image encoder and any decoder (S22): what is written of a picture, one word after the other.

P(y | image) = product over t of P(y_t | y_<t, regions)

It is an `EncoderDecoder` whose sources are pictures (B, 3, Y, X) in place of ids, so that losses, search and attention
are those of a translator. In training a picture is read once for all of its captions.

>>> from harken.models.image_encoder import RegionEncoder
>>> from harken.models.recurrent_decoder import RecurrentDecoder
>>> encoder = RegionEncoder(size=16, channels=[8, 8], depth=[1, 0], width=8)
>>> model = CaptionModel(20, encoder, RecurrentDecoder(embedding=8, width=6))
>>> images, target = torch.zeros(2, 3, 16, 16), torch.randint(4, 20, (2, 5))
>>> model.attention(images, None, target).shape  # one layer, one head, 5 words, 4 x 4 regions
torch.Size([2, 1, 1, 5, 16])
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from harken.models.decoder import Decoder
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.image_encoder import ImageEncoder


class CaptionModel(EncoderDecoder):
    """See the module's text."""

    def __init__(self, target_size: int, encoder: ImageEncoder, decoder: Decoder, tied: str = "output") -> None:
        super().__init__(1, target_size, encoder, decoder, tied)
        self.source_embedding = nn.Identity()  # type: ignore[assignment]  # pixels need no table
        self.grid = encoder.grid

    def loss_of_captions(
        self, images: Tensor, owner: Tensor, target: Tensor, wanted: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed loss over the real tokens of captions (R, T); `owner` (R,) is the picture of each."""
        memory = self.encode(images, None)
        memory = replace(memory, values=memory.values[owner])
        return self._loss_of_hidden(self.narrow(self.decoder(self.target_embedding(target), memory)), wanted, smoothing)


def to_images(pixels: Tensor) -> Tensor:
    """Pixels (B, Y, X, 3) of any type -> what the model reads: (B, 3, Y, X), float."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32)
