"""From a config to a network.

>>> from harken.models.config import RecurrentConfig
>>> model = build_model(RecurrentConfig(cell="gru", attention="dot", embedding=8, width=8), 20, 20)
>>> type(model.encoder).__name__, type(model.decoder).__name__
('RecurrentEncoder', 'RecurrentDecoder')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.models.base import Decoder, Encoder
from harken.models.convolutional.decoder import ConvolutionalDecoder
from harken.models.convolutional.encoder import ConvolutionalEncoder, FiltersEncoder
from harken.models.encoder_decoder import EncoderDecoder, TranslationModel
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.models.recurrent.language import RecurrentLanguage
from harken.models.transformer.decoder import TransformerDecoder
from harken.models.transformer.decoder_only import DecoderOnly
from harken.models.transformer.encoder import TransformerEncoder
from harken.models.transformer.language import TransformerLanguage
from harken.registry import ENCODERS as OWN_ENCODERS

if TYPE_CHECKING:
    from harken.models.config import AnyEncoderConfig, Architecture
    from harken.models.language.base import LanguageNetwork
    from harken.models.language.config import AnyLanguageConfig


def build_model(config: Architecture, source_size: int, target_size: int) -> TranslationModel:
    """A new encoder-decoder or decoder-only network over two vocabularies, with initialised weights.

    Raises:
        UserError: incompatible options.
    """
    try:
        if config.architecture == "decoder-only":
            return DecoderOnly(config, source_size, target_size)
        encoder = ENCODERS[config.architecture](config)
        table = config.decoder or config
        decoder = DECODERS[table.architecture](table)
        model = EncoderDecoder(source_size, target_size, encoder, decoder, config.tied)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem
    for part in getattr(config, "frozen", ()):
        names = ("output_bias",) if part == "output_bias" else ("stack.positions.embedding.weight",)
        for name, parameter in model.named_parameters():
            if name.endswith(names):
                parameter.requires_grad_(False)
    return model


def build_encoder(config: AnyEncoderConfig, may_start: bool = False) -> Encoder:
    """A new encoder alone, for jobs that write no sequence.

    Args:
        may_start: the caller applies `model.start` (`harken.models.pretrained`); else the key is refused.

    Raises:
        UserError: incompatible options.
    """
    start = getattr(config, "start", None)
    if start is not None and not may_start:
        raise UserError(f"model.start is {start}, but this job cannot start from another model; remove the key")
    try:
        return ENCODERS[config.architecture](config)
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


def build_own(config: Any) -> Encoder:
    """An encoder of another package, `Name(embedding, **options)`.

    Raises:
        ValueError: options that it does not take.
    """
    try:
        encoder: Encoder = OWN_ENCODERS.find(config.encoder)(config.embedding, **config.options)
    except TypeError as problem:
        raise ValueError(f"model.options do not fit {config.encoder}: {problem}") from problem
    encoder.embedding = config.embedding
    if not isinstance(getattr(encoder, "width", None), int):
        raise ValueError(f"{config.encoder} has no width; set self.width to the width of its memory")
    return encoder


def build_decoder(config: Any) -> Decoder:
    """A new decoder alone, from a `[model.decoder]` table."""
    return DECODERS[config.architecture](config)


def build_language(config: AnyLanguageConfig, size: int) -> LanguageNetwork:
    """A new language model over `size` tokens.

    Raises:
        UserError: incompatible options.
    """
    try:
        return (
            TransformerLanguage(config, size)
            if config.architecture == "transformer"
            else RecurrentLanguage(config, size)
        )
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem


ENCODERS: dict[str, Callable[[Any], Encoder]] = {
    "recurrent": RecurrentEncoder,
    "transformer": TransformerEncoder,
    "convolutional": ConvolutionalEncoder,
    "filters": FiltersEncoder,
    "own": build_own,
}
DECODERS: dict[str, Callable[[Any], Decoder]] = {
    "recurrent": RecurrentDecoder,
    "transformer": TransformerDecoder,
    "convolutional": ConvolutionalDecoder,
}
