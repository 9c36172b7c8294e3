"""Text to ids and back: one contract, a few kinds.

    bpe, unigram   subwords (sentencepiece), NAME.model       `harken.data.tokenizers.subword`
    word           words and punctuation, NAME.json           `harken.data.tokenizers.word`
    character      characters, NAME.json                      `harken.data.tokenizers.character`
    plain word, plain character   just as the text has them   `harken.data.tokenizers.plain`

Ids 0 to 3 are padding, unknown, beginning and end in all of them (`harken.data.tokenizers.tokens`).

>>> tokenizer = train_tokenizer("character", ["abba"], size=100)
>>> tokenizer.size, tokenizer.encode("ab")
(6, [4, 5])
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harken.data.tokenizers.character import CharacterTokenizer
from harken.data.tokenizers.plain import PlainCharacterTokenizer, PlainWordTokenizer
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.vocabulary import VocabularyTokenizer, read_vocabulary
from harken.data.tokenizers.word import WordTokenizer
from harken.errors import UserError

VOCABULARIES: dict[str, type[VocabularyTokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (WordTokenizer, CharacterTokenizer, PlainWordTokenizer, PlainCharacterTokenizer)
}
JOINT, SOURCE, TARGET = "tokenizer", "source", "target"  # file names in a model folder


class Tokenizer(Protocol):
    """The interface of a tokenizer to models, search and pictures."""

    size: int  # special ids included; what was reached, not what was asked for
    fallback_ids: frozenset[int]  # of what the training text did not have: unknown, and bytes of characters

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end of sentence."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text behind the ids, special ids dropped, unknown pieces shown as ⁇."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece behind every id."""

    def word_of(self, ids: Sequence[int], text: str) -> list[int]:
        """For every id the index of the whitespace word of `text` it belongs to."""

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the tokenizer's file into a model folder."""


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    size: int,
    seed: int = 1,
    *,
    min_count: int = 1,
    character_coverage: float = 1.0,
    byte_fallback: bool = False,
    normalization: str = "identity",
    max_lines: int = 1_000_000,
) -> Tokenizer:
    """Learn a tokenizer from text: the same for the same text, settings and seed.

    The seed chooses the lines that subwords are learned from where there are more than `max_lines`.

    Raises:
        UserError: the kind is unknown, or `size` is too small for the text.
    """
    if kind in VOCABULARIES:
        return VOCABULARIES[kind].train(texts, size, min_count)
    if kind not in ("bpe", "unigram"):
        raise UserError(f'tokenizer.kind is "{kind}": use bpe, unigram, word or character.')
    every = texts if isinstance(texts, Sequence) else list(texts)
    lines: list[str]
    if len(every) > max_lines:
        indices = sorted(random.Random(seed).sample(range(len(every)), max_lines))
        lines = every.choose(np.array(indices)) if hasattr(every, "choose") else [every[index] for index in indices]
    else:
        lines = list(every)
    return SubwordTokenizer.train(kind, lines, size, character_coverage, byte_fallback, normalization)


def train_tokenizers(
    config: Any, sources: Sequence[str], targets: Sequence[str], seed: int = 1
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target that a `TokenizerConfig` asks for: one object twice where it is joint."""

    def train(texts: Iterable[str]) -> Tokenizer:
        return train_tokenizer(
            config.kind,
            texts,
            config.size,
            seed,
            min_count=config.min_count,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization=config.normalization,
            max_lines=config.max_lines,
        )

    if config.joint:
        if not len(targets):
            joint = train(sources)
        elif hasattr(sources, "token_counts"):  # rows, which may be on disk
            joint = train(sources + targets)  # type: ignore[operator]
        else:
            joint = train([*sources, *targets])
        return joint, joint
    return train(sources), train(targets)


def load_tokenizer(folder: str | Path, name: str) -> Tokenizer:
    """The tokenizer that `save` wrote under a name.

    Raises:
        UserError: there is none, or its file is damaged.
    """
    folder = Path(folder)
    subword, vocabulary = folder / f"{name}.model", folder / f"{name}.json"
    if subword.is_file():
        return SubwordTokenizer(subword.read_bytes(), str(subword))
    if not vocabulary.is_file():
        raise UserError(
            f"{folder} holds neither {subword.name} nor {vocabulary.name}: check that it is a model folder."
        )
    kind, tokens = read_vocabulary(vocabulary)
    if kind not in VOCABULARIES:
        raise UserError(f'{vocabulary} is of kind "{kind}", which this version cannot read: use word or character.')
    return VOCABULARIES[kind](tokens)


def save_tokenizers(folder: str | Path, source: Tokenizer, target: Tokenizer) -> list[Path]:
    """Write both tokenizers of a model; a joint one is written once."""
    folder = Path(folder)
    if source is target:
        return source.save(folder, JOINT)
    return source.save(folder, SOURCE) + target.save(folder, TARGET)


def load_tokenizers(folder: str | Path) -> tuple[Tokenizer, Tokenizer]:
    """Load the tokenizers that `save_tokenizers` wrote."""
    folder = Path(folder)
    if any((folder / f"{JOINT}{ending}").is_file() for ending in (".model", ".json")):
        joint = load_tokenizer(folder, JOINT)
        return joint, joint
    return load_tokenizer(folder, SOURCE), load_tokenizer(folder, TARGET)
