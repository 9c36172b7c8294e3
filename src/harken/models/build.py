"""From the `[model]` section of a recipe to a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.models.convolutional.decoder import ConvolutionalDecoder
from harken.models.convolutional.encoder import ConvolutionalEncoder, FiltersEncoder
from harken.models.decoder import Decoder
from harken.models.encoder import Encoder
from harken.models.encoder_decoder import EncoderDecoder
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.recurrent.seq2seq import Seq2Seq
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.decoder_only import DecoderOnly
from harken.models.transformer.encoder import TransformerEncoder
from harken.models.translation_model import TranslationModel

if TYPE_CHECKING:
    from harken.models.config import Architecture
    from harken.models.config_encoder import AnyEncoderConfig


def build_model(config: Architecture, source_size: int, target_size: int) -> TranslationModel:
    """A new network, with weights drawn from torch's current random state.

    Raises:
        UserError: words that do not go together.
    """
    try:
        if config.architecture == "decoder-only":
            return DecoderOnly(config, source_size, target_size)
        if config.architecture == "recurrent" and config.decoder is None:
            options = config.model_dump(exclude={"architecture", "decoder"})
            return Seq2Seq(source_size, target_size, **options)
        table = config.decoder or config
        encoder, decoder = ENCODERS[config.architecture](config), DECODERS[table.architecture](table)
        return EncoderDecoder(source_size, target_size, encoder, decoder, config.tied)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


def build_encoder(config: AnyEncoderConfig, may_start: bool = False) -> Encoder:
    """A new encoder alone, for jobs that read and write no sequence.

    Args:
        may_start: the caller sees to `model.start` (`harken.models.pretrained`); else it is refused, not passed over.

    Raises:
        UserError: words that do not go together.
    """
    start = getattr(config, "start", None)
    if start is not None and not may_start:
        raise UserError(f"model.start is {start}, but this job begins with no other model; leave it out")
    try:
        return ENCODERS[config.architecture](config)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


def _recurrent_encoder(config: Any) -> Encoder:
    return RecurrentEncoder(**_picked(config, "bidirectional", *RECURRENT), cell=config.cell_options)


def _recurrent_decoder(config: Any) -> Decoder:
    looking = ("attention", "attend", "look_from", "context", "context_to", "coverage", "hard_attention")
    return RecurrentDecoder(**_picked(config, "input_feeding", *looking, *RECURRENT), cell=config.cell_options)


def _picked(config: Any, *keys: str) -> dict[str, Any]:
    return {key: getattr(config, key) for key in keys}


RECURRENT = ("embedding", "width", "layers", "connections", "connections_from", "dropout", "variational")

ENCODERS: dict[str, Callable[[Any], Encoder]] = {
    "recurrent": _recurrent_encoder,
    "transformer": TransformerEncoder,
    "convolutional": ConvolutionalEncoder,
    "filters": FiltersEncoder,
}
DECODERS: dict[str, Callable[[Any], Decoder]] = {
    "recurrent": _recurrent_decoder,
    "transformer": TransformerDecoder,
    "convolutional": ConvolutionalDecoder,
}
