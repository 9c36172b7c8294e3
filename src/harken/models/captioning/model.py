"""Captioning: an image encoder and any decoder (Xu et al., 2015).

P(y | image) = product over t of P(y_t | y_<t, regions)

It is an `EncoderDecoder` whose sources are images (B, 3, Y, X) in place of ids, so that losses, search and attention
are those of a translator. In training an image is encoded once for all of its captions.

With focus > 0 the entropy of the attention weights is added to the loss of every word:

    focus * exp(-5 L) * H(a_t),    H(a) = - sum_i a_i log a_i,    L the mean loss of a word, without a gradient

The factor exp(-5 L) is small until words are predicted well: attention that is made narrow before stays where it
happens to be. The entropy is measured on an eighth of the captions, and not at all while the factor is negligible.

>>> from harken.models.captioning.config import RegionsConfig
>>> decoder = {"architecture": "recurrent", "embedding": 8, "width": 6}
>>> model = CaptionModel(RegionsConfig(channels=[8, 8], depth=[1, 0], width=8, decoder=decoder), 16, 20)
>>> images, target = torch.zeros(2, 3, 16, 16), torch.randint(4, 20, (2, 5))
>>> model.attention(images, None, target).shape  # one layer, one head, 5 words, 4 x 4 regions
torch.Size([2, 1, 1, 5, 16])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.errors import UserError
from harken.models.base import Decoder, Memory
from harken.models.build import build_decoder
from harken.models.captioning.config import AnyImageConfig, PatchesConfig
from harken.models.captioning.image_encoder import ImageEncoder, PatchEncoder, RegionEncoder
from harken.models.encoder_decoder import EncoderDecoder

SAMPLE = 8  # the entropy is measured on one in so many captions
DECAY = 5.0  # how fast the weight of the focus falls with the loss
MIN_WEIGHT = 0.03  # below this share of the weight the entropy is not measured
TINY = 1e-9


class CaptionModel(EncoderDecoder):
    """See the module's docstring; images have `image_size` x `image_size` pixels."""

    def __init__(self, config: AnyImageConfig, image_size: int, target_size: int) -> None:
        encoder: ImageEncoder
        if isinstance(config, PatchesConfig):
            encoder = PatchEncoder(config, image_size)
        else:
            encoder = RegionEncoder(config, image_size)
        decoder: Decoder = build_decoder(config.decoder)
        super().__init__(1, target_size, encoder, decoder, config.tied)
        self.source_embedding = nn.Identity()  # type: ignore[assignment]  # pixels have no embedding
        self.grid, self.focus, self.image_size = encoder.grid, config.focus, image_size

    def loss_of_captions(
        self, images: Tensor, owner: Tensor, target: Tensor, labels: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed loss over the real tokens of captions (R, T); `owner` (R,) is the image of each."""
        memory = self.encode(images, None)
        memory = memory.map(lambda values: values[owner])
        embedded = self.target_embedding(target)
        loss = self.loss_of_hidden(self.narrow(self.decoder(embedded, memory)), labels, smoothing)
        if not (self.focus and self.training):
            return loss
        num_tokens = (labels != PAD).sum()
        known = torch.exp(-DECAY * loss.detach() / num_tokens)
        if float(known) < MIN_WEIGHT:
            return loss
        some = slice(0, -(-len(target) // SAMPLE))
        entropy = self.entropy(embedded[some], memory.map(lambda values: values[some]), labels[some] != PAD)
        return loss + self.focus * known * num_tokens * entropy

    def entropy(self, embedded: Tensor, memory: Memory, real: Tensor) -> Tensor:
        """The mean entropy, in nats, of the attention of real words (R, T); 0 without attention."""
        weights = self.decoder.attention(embedded, memory)
        if weights is None:
            return embedded.new_zeros(())
        maps = self.alignment(weights).float()  # (R, T, S)
        return -(maps * torch.log(maps + TINY)).sum(-1)[real].mean()

    def dry_run(self, length: int) -> Tensor:
        """Logits (1, T, V) of an image and a caption of `length` tokens (`harken.models.sizing`)."""
        weight = self.output_weight
        images = weight.new_zeros(1, 3, self.image_size, self.image_size)
        return self.logits(self(images, None, torch.full((1, length), PAD, device=weight.device)))


def build_caption_model(config: AnyImageConfig, image_size: int, target_size: int) -> CaptionModel:
    """A new network for images of `image_size` x `image_size` pixels and so many tokens.

    Raises:
        UserError: incompatible options.
    """
    try:
        return CaptionModel(config, image_size, target_size)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


def to_images(pixels: Tensor) -> Tensor:
    """Pixels (B, Y, X, 3) of any type -> (B, 3, Y, X), float."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32)
