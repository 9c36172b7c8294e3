"""From the `[model]` section of a captioner's recipe to a network."""

from __future__ import annotations

from harken.errors import UserError
from harken.models.build import DECODERS
from harken.models.captioning.config import AnyImageConfig, PatchesConfig
from harken.models.captioning.image_encoder import ImageEncoder, PatchEncoder, RegionEncoder
from harken.models.captioning.model import CaptionModel


def build_caption_model(config: AnyImageConfig, image_size: int, target_size: int) -> CaptionModel:
    """A new network for pictures of `image_size` x `image_size` pixels and so many words.

    Raises:
        UserError: words that do not go together.
    """
    try:
        decoder = DECODERS[config.decoder.architecture](config.decoder)
        return CaptionModel(target_size, _encoder(config, image_size), decoder, config.tied, config.focus)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


def _encoder(config: AnyImageConfig, size: int) -> ImageEncoder:
    options = config.model_dump(exclude={"architecture", "decoder", "tied", "focus"})
    return (
        PatchEncoder(size=size, **options) if isinstance(config, PatchesConfig) else RegionEncoder(size=size, **options)
    )
