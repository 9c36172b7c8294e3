"""From the `[model]` section of a recipe to a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.models.convolutional import Convolutional
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.seq2seq import Seq2Seq
from harken.models.transformer import Transformer

if TYPE_CHECKING:
    from harken.models.config import ModelConfig

ARCHITECTURES: dict[str, type[EncoderDecoder]] = {
    "transformer": Transformer,
    "recurrent": Seq2Seq,
    "convolutional": Convolutional,
}


def build_model(config: ModelConfig, source_size: int, target_size: int) -> EncoderDecoder:
    """A new network, with weights drawn from torch's current random state."""
    options = config.model_dump(exclude={"architecture"})
    try:
        return ARCHITECTURES[config.architecture](source_size, target_size, **options)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem
