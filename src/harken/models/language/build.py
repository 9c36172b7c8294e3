"""From the `[model]` section of a language model's recipe to a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.errors import UserError
from harken.models.language.base import LanguageNetwork
from harken.models.recurrent.language import RecurrentLanguage
from harken.models.transformer.language import TransformerLanguage

if TYPE_CHECKING:
    from harken.models.language.config import AnyLanguageConfig


def build_language(config: AnyLanguageConfig, size: int) -> LanguageNetwork:
    """A new network over `size` tokens, with weights drawn from torch's current random state.

    Raises:
        UserError: words that do not go together.
    """
    try:
        if config.architecture == "transformer":
            return TransformerLanguage(config, size)
        words = config.model_dump(exclude={"architecture"})
        cell = config.cell_options
        return RecurrentLanguage(
            size, cell=cell, **{key: value for key, value in words.items() if not hasattr(cell, key)}
        )
    except ValueError as problem:
        raise UserError(f"model: {problem}") from problem
