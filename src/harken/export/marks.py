"""Tokens around every text (`harken.data.tokenizers.marks`) in exported models."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harken.data.tokenizers.marks import MarkedTokenizer, forced_tokens
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


class Marks(NamedTuple):
    """The ids before and after the ids of every source, and before those of every target."""

    source_prefix: list[int]
    source_suffix: list[int]
    target_prefix: list[int]


def marks_of(translator: Translator) -> Marks:
    """The marks of a translator; empty lists without."""
    source = translator.source
    before, after = (source.before, source.after) if isinstance(source, MarkedTokenizer) else ([], [])
    return Marks(before, after, forced_tokens(translator.target))


def refuse_marks(translator: Translator, form: str) -> None:
    """Refuse a translator with marks.

    Raises:
        UserError: it has some.
    """
    if any(marks_of(translator)):
        raise UserError(
            f"{form} has no form for tokens around every text in this model (tokenizer.languages, source_prefix, "
            "source_suffix or target_prefix of the recipe); use the model with harken"
        )
