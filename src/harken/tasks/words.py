"""Words and their characters as ids, for the jobs that read both: the vocabulary, and padded batches of sentences.

>>> from harken.data.text.tagged import Tagged
>>> sentences = [Tagged(("a", "cat", "a"), ("DET", "NOUN", "DET")), Tagged(("cat",), ("NOUN",))]
>>> known = Vocabulary.learn(sentences, lowercase=True, min_count=1)
>>> known.word_ids(["A", "dog"]), known.spelling("cat!"), known.tags
([4, 1], [5, 4, 6, 1], ['DET', 'NOUN'])
>>> batch, lengths = WordRows.of([sentence.words for sentence in sentences], known).gather([0, 1])
>>> batch.words.tolist(), batch.spelled.tolist(), batch.spellings.tolist(), lengths.tolist()
([[4, 5, 4], [5, 0, 0]], [[0, 1, 0], [1, 0, 0]], [[4, 0, 0], [5, 4, 6]], [3, 1])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import (
    NUMBER,
    Columns,
    Distinct,
    Encoded,
    References,
    Rows,
    different,
    id_type,
    rows_of,
)
from harken.data.tokenizers.tokens import BOS, EOS, SPECIALS, UNK
from harken.errors import UserError
from harken.models.heads.character_features import WordBatch
from harken.tasks.artifacts import JsonArtifact

MOST_CHANNELS = 1 << 20
LONGEST_WORD = 32  # characters that are read of a word: half from its start, half from its end


@dataclass
class Vocabulary:
    """Ids 0 to 3 of words and characters are the special ones (`harken.data.tokenizers.tokens`); tags begin at 0."""

    tags: list[str]
    words: list[str] = field(default_factory=list)
    characters: list[str] = field(default_factory=list)
    lowercase: bool = False
    channels: Annotated[int, Field(ge=0, le=MOST_CHANNELS)] = 0  # of frames, where a tagger reads signals

    def __post_init__(self) -> None:
        first = len(SPECIALS)
        self._words = {word: number for number, word in enumerate(self.words, first)}
        self._characters = {character: number for number, character in enumerate(self.characters, first)}
        self._tags = {tag: number for number, tag in enumerate(self.tags)}

    @classmethod
    def learn(
        cls,
        sentences: Sequence[Any],
        *,
        lowercase: bool,
        min_count: int,
        more_words: Iterable[str] = (),
        more_tags: Iterable[str] = (),
    ) -> Vocabulary:
        """Learn from the training sentences; `more_words` and `more_tags` are known though these lack them."""
        counts = WordCounts.of_rows(rows_of(sentences), lowercase, min_count)
        words = [word for word, count in _by_count(counts.words) if count >= min_count]
        counted = set(words)
        words += [word for word in dict.fromkeys(more_words) if word not in counted]
        characters = [character for character, _ in _by_count(counts.characters)]
        return cls(sorted({*counts.tags, *more_tags}), words, characters, lowercase)

    @property
    def names(self) -> list[str | None]:
        """The word of every row of the words' matrix; special ones have none."""
        return [*([None] * len(SPECIALS)), *self.words]

    @property
    def word_count(self) -> int:
        """Rows of the words' matrix."""
        return len(SPECIALS) + len(self.words)

    @property
    def character_count(self) -> int:
        """Rows of the characters' matrix."""
        return len(SPECIALS) + len(self.characters)

    def word_ids(self, words: Sequence[str]) -> list[int]:
        """Known words by their ids, others as unknown."""
        return [self._words.get(word.lower() if self.lowercase else word, UNK) for word in words]

    def spelling(self, word: str) -> list[int]:
        """The characters of a word; of a very long one the beginning and the end."""
        if len(word) > LONGEST_WORD:
            word = word[: LONGEST_WORD // 2] + word[-LONGEST_WORD // 2 :]
        return [self._characters.get(character, UNK) for character in word]

    def tag_ids(self, tags: Sequence[str]) -> list[int]:
        """Ids of tags.

        Raises:
            UserError: a tag that was not in the training data.
        """
        try:
            return [self._tags[tag] for tag in tags]
        except KeyError as missing:
            raise UserError(
                f"the tag {missing.args[0]!r} is not one of the {len(self.tags)} tags of the training data "
                f"({', '.join(self.tags[:20])}{' ...' * (len(self.tags) > 20)}); check the column or the file"
            ) from None

    def save(self, folder: Path) -> None:
        """Write the file into a model folder."""
        VOCABULARY.save(self, folder)


class WordCounts(NamedTuple):
    """The counts of words, characters and tags, in the order of first occurrence."""

    words: Counter[str]
    characters: Counter[str]
    tags: Counter[str]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]], lowercase: bool) -> WordCounts:
        """Count words, characters and tags of some sentences."""
        forms: Counter[str] = Counter(chain.from_iterable(sentences))
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for form, count in forms.items():
            words[form.lower() if lowercase else form] += count
            for character in form:
                characters[character] += count
        return cls(words, characters, Counter(chain.from_iterable(tags)))

    @classmethod
    def of_rows(cls, sentences: Rows[Any], lowercase: bool, min_count: int) -> WordCounts:
        """Count those of training sentences, less rare words."""

        def compute() -> WordCounts:
            total = cls(Counter(), Counter(), Counter())
            for part in sentences.map(lambda columns: cls.of(columns[0], columns[1], lowercase), "counting words"):
                for own, more in zip(total, part, strict=True):
                    own.update(more)
                total = total._replace(words=sentences.without_rare(total.words))
            words = Counter({word: times for word, times in total.words.items() if times >= min_count})
            return total._replace(words=words)

        return cls(*map(Counter, sentences.cached(["words", lowercase, min_count], compute)))


VOCABULARY = JsonArtifact[Vocabulary]("vocabulary.json", Vocabulary, indent=0)


class WordRows:
    """All sentences of a split; every distinct word of a batch is spelled once."""

    has_ends: ClassVar[bool] = False  # whether every sentence begins with BOS and ends with EOS

    def __init__(self, words: TokenRows, forms: TokenRows, spellings: TokenRows) -> None:
        self.words, self.forms, self.spellings = words, forms, spellings

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Self:
        """The words of some sentences."""
        texts = different(sentences)
        return cls(*cls.ids(sentences, cls.numbers(texts), vocabulary), cls.spelled(texts, vocabulary))

    @classmethod
    def of_tagged(cls, sentences: Rows[Any], vocabulary: Vocabulary) -> tuple[WordRows, TokenRows]:
        """Training sentences and their tags."""

        def encode(columns: Columns) -> list[Encoded]:
            texts = different(columns[0])
            words, forms = cls.ids(columns[0], cls.numbers(texts), vocabulary)
            tags = TokenRows.from_lists([vocabulary.tag_ids(tags) for tags in columns[1]])
            return [words, References(forms), tags, Distinct(texts, cls.spelled(texts, vocabulary))]

        types = {
            "words": id_type(vocabulary.word_count),
            "forms": NUMBER,
            "tags": id_type(len(vocabulary.tags)),
            "spellings": id_type(vocabulary.character_count),
        }
        words, forms, tags, spellings = sentences.encode(types, encode, [asdict(vocabulary)])
        return cls(words, forms, spellings), tags

    @classmethod
    def numbers(cls, texts: Iterable[str]) -> dict[str, int]:
        """The number of the spelling of every text; those of the ends come first."""
        return {text: number for number, text in enumerate(texts, start=2 if cls.has_ends else 0)}

    @classmethod
    def ids(
        cls, sentences: Sequence[Sequence[str]], numbers: Mapping[str, int], vocabulary: Vocabulary
    ) -> tuple[TokenRows, TokenRows]:
        """The words of sentences, and the number of the spelling of each."""
        words = [vocabulary.word_ids(sentence) for sentence in sentences]
        forms = [[numbers[word] for word in sentence] for sentence in sentences]
        if cls.has_ends:
            words, forms = [[BOS, *row, EOS] for row in words], [[0, *row, 1] for row in forms]
        return TokenRows.from_lists(words), TokenRows.from_lists(forms)

    @classmethod
    def spelled(cls, texts: Iterable[str], vocabulary: Vocabulary) -> TokenRows:
        """The characters of every text."""
        ends = [[BOS], [EOS]] if cls.has_ends else []
        return TokenRows.from_lists([*ends, *map(vocabulary.spelling, texts)])

    def __len__(self) -> int:
        return len(self.words)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every sentence."""
        return self.words.lengths

    def gather(self, rows: Sequence[int] | np.ndarray) -> tuple[WordBatch, Tensor]:
        """The chosen sentences, and their lengths (B,)."""
        words, lengths = self.words.gather(rows)
        forms, _ = self.forms.gather(rows)  # padding is the first word of the split, which costs nothing
        distinct, form_indices = np.unique(forms.numpy(), return_inverse=True)
        spellings, _ = self.spellings.gather(distinct)
        return WordBatch(words, torch.from_numpy(form_indices.reshape(forms.shape)), spellings), lengths


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
