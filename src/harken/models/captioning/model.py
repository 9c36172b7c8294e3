"""An image encoder and any decoder: what is written of a picture, one word after the other.

P(y | image) = product over t of P(y_t | y_<t, regions)

It is an `EncoderDecoder` whose sources are pictures (B, 3, Y, X) in place of ids, so that losses, search and attention
are those of a translator. In training a picture is read once for all of its captions.

With focus > 0 the loss of every word also has

    focus * exp(-5 L) * H(a_t),    H(a) = - sum_i a_i log a_i,    L the mean loss of a word, no gradient through it

so that words are made to look at few regions as far as they are known already: a map made narrow before anything
is known stays where it happens to be. It is measured on an eighth of the captions, which costs less, and not at all
while it would weigh next to nothing.

>>> from harken.models.captioning.image_encoder import RegionEncoder
>>> from harken.models.recurrent.decoder import RecurrentDecoder
>>> encoder = RegionEncoder(size=16, channels=[8, 8], depth=[1, 0], width=8)
>>> model = CaptionModel(20, encoder, RecurrentDecoder(embedding=8, width=6))
>>> images, target = torch.zeros(2, 3, 16, 16), torch.randint(4, 20, (2, 5))
>>> model.attention(images, None, target).shape  # one layer, one head, 5 words, 4 x 4 regions
torch.Size([2, 1, 1, 5, 16])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.captioning.image_encoder import ImageEncoder
from harken.models.decoder import Decoder
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.memory import Memory
from harken.models.translation_model import PAD

MEASURED = 8  # one in so many captions is asked how widely its words look
PATIENT = 5.0  # how fast the weight of the focus falls with the loss
TOO_LITTLE = 0.03  # a share of the weight that is not worth measuring for
TINY = 1e-9


class CaptionModel(EncoderDecoder):
    """See the module's text."""

    def __init__(
        self, target_size: int, encoder: ImageEncoder, decoder: Decoder, tied: str = "output", focus: float = 0.0
    ) -> None:
        super().__init__(1, target_size, encoder, decoder, tied)
        self.source_embedding = nn.Identity()  # type: ignore[assignment]  # pixels need no table
        self.grid, self.focus = encoder.grid, focus

    def loss_of_captions(
        self, images: Tensor, owner: Tensor, target: Tensor, wanted: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed loss over the real tokens of captions (R, T); `owner` (R,) is the picture of each."""
        memory = self.encode(images, None)
        memory = memory.through(lambda values: values[owner])
        embedded = self.target_embedding(target)
        loss = self._loss_of_hidden(self.narrow(self.decoder(embedded, memory)), wanted, smoothing)
        if not (self.focus and self.training):
            return loss
        terms = (wanted != PAD).sum()
        known = torch.exp(-PATIENT * loss.detach() / terms)
        if float(known) < TOO_LITTLE:
            return loss
        some = slice(0, -(-len(target) // MEASURED))
        spread = self.spread(embedded[some], memory.through(lambda values: values[some]), wanted[some] != PAD)
        return loss + self.focus * known * terms * spread

    def spread(self, embedded: Tensor, memory: Memory, real: Tensor) -> Tensor:
        """The mean entropy, in nats, of the maps of real words (R, T); 0 where nothing is attended to."""
        weights = self.decoder.attention(embedded, memory)
        if weights is None:
            return embedded.new_zeros(())
        maps = self.alignment(weights).float()  # (R, T, S)
        return -(maps * torch.log(maps + TINY)).sum(-1)[real].mean()


def to_images(pixels: Tensor) -> Tensor:
    """Pixels (B, Y, X, 3) of any type -> what the model reads: (B, 3, Y, X), float."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32)
