"""Text to ids and back: one contract, a few kinds.

    bpe, unigram   subwords (sentencepiece), NAME.model       `harken.data.tokenizers.subword`
    word           words and punctuation, NAME.json           `harken.data.tokenizers.word`
    character      characters, NAME.json                      `harken.data.tokenizers.plain`
    byte-level bpe, wordpiece     of adopted models, NAME.json `harken.data.tokenizers.byte_level`, `.wordpiece`
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
from typing import Any, Literal, Protocol

import numpy as np

from harken.data.text.scripts import UNSPACED, is_unspaced, script_of, script_shares
from harken.data.tokenizers.byte_level import ByteLevelTokenizer
from harken.data.tokenizers.marks import MarkedTokenizer, token_ids
from harken.data.tokenizers.plain import CharacterTokenizer, PlainCharacterTokenizer, PlainWordTokenizer
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.vocabulary import VocabularyTokenizer, read_vocabulary
from harken.data.tokenizers.word import WordTokenizer
from harken.data.tokenizers.wordpiece import WordPieceTokenizer
from harken.errors import UserError

VOCABULARIES: dict[str, type[VocabularyTokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (WordTokenizer, CharacterTokenizer, PlainWordTokenizer, PlainCharacterTokenizer)
}
ADOPTED: dict[str, type[VocabularyTokenizer]] = {  # read, and not learned here
    tokenizer.kind: tokenizer for tokenizer in (ByteLevelTokenizer, WordPieceTokenizer)
}
JOINT, SOURCE, TARGET = "tokenizer", "source", "target"  # file names in a model folder
MANY_CHARACTERS = {"Han", "Japanese", "Kana", "Hangul"}  # scripts of thousands
BYTES = UNSPACED | MANY_CHARACTERS  # scripts whose rare characters are bytes
SMALLEST_WITH_BYTES = 2000  # a vocabulary of which 256 bytes are a small part
COVERAGE = 0.9995  # of the characters of such scripts, as sentencepiece's authors advise; the others are bytes
FEW = 0.02  # a script with a lower share of the letters does not count
SAMPLE = 2000  # texts whose scripts are looked at
SETTINGS = ("min_count", "character_coverage", "byte_fallback", "normalization", "max_lines")  # of a `TokenizerConfig`
ENOUGH, LONGEST_WORD = 10, 7.0  # parts between spaces that are looked at, and the mean length of words in letters


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
        """The index of the whitespace word of `text` that each id belongs to."""

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the tokenizer's file into a model folder."""


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    size: int,
    seed: int = 1,
    *,
    min_count: int = 1,
    character_coverage: float | Literal["auto"] = "auto",
    byte_fallback: bool | Literal["auto"] = "auto",
    normalization: str = "identity",
    max_lines: int = 1_000_000,
    symbols: Sequence[str] = (),
) -> Tokenizer:
    """Learn a tokenizer from text: the same for the same text, settings and seed.

    The seed chooses the lines that subwords are learned from where there are more than `max_lines`. Subwords
    have a piece for each of the `symbols`, which are characters.

    Raises:
        UserError: the kind is unknown, `size` is too small for the text, or words of a text without spaces.
    """
    if kind in VOCABULARIES:
        if "word" in kind:
            refuse_unspaced(texts)
        return VOCABULARIES[kind].train(texts, size, min_count)
    if kind not in ("bpe", "unigram"):
        raise UserError(f'tokenizer.kind is "{kind}": use bpe, unigram, word or character.')
    every = texts if isinstance(texts, Sequence) else list(texts)
    lines: list[str]
    if len(every) > max_lines:
        lines = _chosen(every, sorted(random.Random(seed).sample(range(len(every)), max_lines)))
    else:
        lines = list(every)
    shares = script_shares(lines[:: max(1, len(lines) // SAMPLE)])
    if byte_fallback == "auto":
        byte_fallback = size >= SMALLEST_WITH_BYTES and any(shares.get(script, 0) > FEW for script in BYTES)
    if character_coverage == "auto":
        many = any(shares.get(script, 0) > FEW for script in MANY_CHARACTERS)
        character_coverage = COVERAGE if many and byte_fallback else 1.0
    return SubwordTokenizer.train(kind, lines, size, character_coverage, byte_fallback, normalization, symbols)


def _chosen(texts: Sequence[str], indices: Sequence[int]) -> list[str]:
    """Some of the texts; those on disk (`harken.data.prepared`) are read in one pass."""
    if hasattr(texts, "choose"):
        chosen: list[str] = texts.choose(np.array(indices))
        return chosen
    return [texts[index] for index in indices]


def refuse_unspaced(texts: Iterable[str]) -> None:
    """Refuse to learn words where nothing divides them; text whose words were divided by spaces before is fine.

    Raises:
        UserError: most of the text is in a script without spaces, and has none.
    """
    if not isinstance(texts, Sequence):
        return
    sample = _chosen(texts, range(0, len(texts), max(1, len(texts) // SAMPLE)))
    chunks = [sum(map(is_unspaced, chunk)) for text in sample for chunk in text.split()]
    unspaced = [count for count in chunks if count]
    if len(unspaced) >= ENOUGH and sum(unspaced) > LONGEST_WORD * len(unspaced):
        raise UserError(
            f'tokenizer.kind is "word", but the text is in a script without spaces between words '
            f"({script_of(sample)}): set tokenizer.kind to bpe, unigram or character, or divide its words by spaces."
        )


def learn_tokenizer(config: Any, texts: Iterable[str], seed: int = 1, symbols: Sequence[str] = ()) -> Tokenizer:
    """The tokenizer of one side that a `TokenizerConfig` asks for."""
    settings = {name: getattr(config, name) for name in SETTINGS}
    return train_tokenizer(config.kind, texts, config.size, seed, symbols=symbols, **settings)


def train_tokenizers(
    config: Any, sources: Sequence[str], targets: Sequence[str], seed: int = 1, symbols: Sequence[str] = ()
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target that a `TokenizerConfig` asks for: one object twice where it is joint."""

    def train(texts: Iterable[str]) -> Tokenizer:
        return learn_tokenizer(config, texts, seed, symbols)

    if config.joint:
        if hasattr(sources, "token_counts"):  # rows, which may be on disk
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
    kind, tokens, settings = read_vocabulary(vocabulary)
    known = VOCABULARIES | ADOPTED
    if kind not in known:
        raise UserError(f'{vocabulary} is of kind "{kind}", which this version cannot read: use word or character.')
    try:
        tokenizer = known[kind](tokens, **settings)
    except (TypeError, ValueError) as problem:
        raise UserError(f"{vocabulary} is not a saved tokenizer ({problem}): copy it again.") from problem
    return MarkedTokenizer(tokenizer, token_ids(tokenizer, tokenizer.start)) if tokenizer.start else tokenizer


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
