"""Files and refusals that all models in Hugging Face's format share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from harken.data.tokenizers.marks import inner_tokenizer
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.errors import UserError
from harken.files import atomic_write

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

FORM = "Hugging Face's format"
EMBEDDINGS = {"source_embedding.weight", "target_embedding.weight", "output_weight", "output_bias"}


def refuse(options: Mapping[str, bool]) -> None:
    """Refuse the first option that is set.

    Raises:
        UserError: with the name of the option.
    """
    for option, is_set in options.items():
        if is_set:
            raise UserError(f"{FORM} has no form for {option}; train without it to export the model")


def check_count(own: Mapping[str, Tensor], stored: Iterable[Tensor]) -> None:
    """Compare the numbers of all parameters but the embeddings with those that are stored.

    Raises:
        UserError: some have no place.
    """
    count = sum(value.numel() for value in stored)
    if count != sum(value.numel() for name, value in own.items() if name not in EMBEDDINGS):
        raise UserError(f"{FORM} has no form for a part of this model beside its blocks; train without it")


def subwords(translator: Translator, form: str = FORM, joint: bool = True) -> tuple[SubwordTokenizer, SubwordTokenizer]:
    """Both tokenizers, which have the same pieces where `joint`.

    Raises:
        UserError: they are no subwords, or have other pieces.
    """
    source, target = inner_tokenizer(translator.source), inner_tokenizer(translator.target)
    if not isinstance(source, SubwordTokenizer) or not isinstance(target, SubwordTokenizer):
        raise UserError(f"{form} needs SentencePiece; train with tokenizer.kind = bpe or unigram to export the model")
    if joint and source.pieces(range(source.size)) != target.pieces(range(target.size)):
        raise UserError(f"{form} needs one vocabulary for both sides; train with tokenizer.joint = true to export it")
    return source, target


def generation_of(translator: Translator, pad: int, length: int) -> dict[str, Any]:
    """generation_config.json: the search of the recipe, as far as `generate` has it.

    Args:
        pad: the row that is never written.
        length: most tokens of an output.
    """
    search = translator.recipe.search
    beam = {
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": "never" if search.stopping == "exact" else True,
    }
    return (beam if search.beam > 1 else {"num_beams": 1}) | {"max_length": length, "bad_words_ids": [[pad]]}


def write_json(path: Path, value: Any) -> None:
    """A JSON file as `transformers` writes them."""
    atomic_write(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")
