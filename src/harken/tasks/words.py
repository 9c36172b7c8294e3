"""Words and their characters as ids, for the jobs that read both: the vocabulary, and padded batches of sentences.

>>> sentences = [Tagged(("a", "cat", "a"), ("DET", "NOUN", "DET")), Tagged(("cat",), ("NOUN",))]
>>> known = Vocabulary.learn(sentences, lowercase=True, min_count=1)
>>> known.word_ids(["A", "dog"]), known.spelling("cat!"), known.tags
([4, 1], [5, 4, 6, 1], ['DET', 'NOUN'])
>>> batch, lengths = WordRows([sentence.words for sentence in sentences], known).gather([0, 1])
>>> batch.words.tolist(), batch.spelled.tolist(), batch.spellings.tolist(), lengths.tolist()
([[4, 5, 4], [5, 0, 0]], [[0, 1, 0], [1, 0, 0]], [[4, 0, 0], [5, 4, 6]], [3, 1])
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.prepared.examples import hashes
from harken.data.prepared.ids import NUMBER, Distinct, encode_rows, id_kind, kept_value
from harken.data.prepared.stream import MOST_COUNTED, Columns, StreamedRows
from harken.data.text.tagged import Tagged
from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.errors import UserError
from harken.files import atomic_write
from harken.models.heads.character_features import WordBatch
from harken.tasks.artifacts import ObjectArtifact

FILE = "vocabulary.json"
MOST_CHANNELS = 1 << 20
LONGEST_WORD = 32  # characters that are read of a word: half from its start, half from its end


@dataclass
class Vocabulary:
    """Ids 0 to 3 of words and characters are the special ones (`harken.data.tokenizers.tokens`); tags begin at 0."""

    tags: list[str]
    words: list[str] = field(default_factory=list)
    characters: list[str] = field(default_factory=list)
    lowercase: bool = False
    channels: int = 0  # of frames, where a tagger reads signals

    def __post_init__(self) -> None:
        first = len(SPECIALS)
        self._words = {word: number for number, word in enumerate(self.words, first)}
        self._characters = {character: number for number, character in enumerate(self.characters, first)}
        self._tags = {tag: number for number, tag in enumerate(self.tags)}

    @classmethod
    def learn(
        cls,
        sentences: Sequence[Tagged],
        *,
        lowercase: bool,
        min_count: int,
        more_words: Iterable[str] = (),
        more_tags: Iterable[str] = (),
    ) -> Vocabulary:
        """From the training sentences; `more_words` and `more_tags` are known though they are not seen in them."""
        if isinstance(sentences, StreamedRows):
            counts = WordCounts.streamed(sentences, lowercase, min_count)
        else:
            counts = WordCounts.of((one.words for one in sentences), (one.tags for one in sentences), lowercase)
        words = [word for word, count in _by_count(counts.words) if count >= min_count]
        seen = set(words)
        words += [word for word in dict.fromkeys(more_words) if word not in seen]
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
        atomic_write(folder / FILE, json.dumps(asdict(self), ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """What `save` wrote.

        Raises:
            UserError: the file is missing or damaged.
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            tags, words, characters = lists = [content[name] for name in ("tags", "words", "characters")]
            if not all(isinstance(found, list) and all(isinstance(one, str) for one in found) for found in lists):
                raise ValueError("its lists are no lists of texts")
            channels = int(content["channels"])
            if not 0 <= channels <= MOST_CHANNELS:
                raise ValueError(f"{channels:.3g} channels")
            return cls(tags, words, characters, bool(content["lowercase"]), channels)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{path} is no saved vocabulary ({problem}); copy the folder again or train anew") from None


class WordCounts(NamedTuple):
    """How often words, characters and tags occur, in the order of first occurrence."""

    words: Counter[str]
    characters: Counter[str]
    tags: Counter[str]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]], lowercase: bool) -> WordCounts:
        """Those of some sentences."""
        forms: Counter[str] = Counter(chain.from_iterable(sentences))
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for form, seen in forms.items():
            words[form.lower() if lowercase else form] += seen
            for character in form:
                characters[character] += seen
        return cls(words, characters, Counter(chain.from_iterable(tags)))

    @classmethod
    def streamed(cls, sentences: StreamedRows, lowercase: bool, min_count: int) -> WordCounts:
        """Those of training sentences that are not in memory, less rare words; counted once."""

        def compute() -> WordCounts:
            total = cls(Counter(), Counter(), Counter())
            parts = sentences.stream.map(
                sentences.code, "counting words", lambda columns, _: cls.of(columns[0], columns[1], lowercase)
            )
            for part in parts:
                for own, more in zip(total, part, strict=True):
                    own.update(more)
                if len(total.words) > MOST_COUNTED:
                    total = total._replace(words=Counter({one: seen for one, seen in total.words.items() if seen > 1}))
            words = Counter({word: seen for word, seen in total.words.items() if seen >= min_count})
            return total._replace(words=words)

        return cls(*map(Counter, kept_value(sentences, ["words", lowercase, min_count], compute)))


VOCABULARY = ObjectArtifact(Vocabulary, FILE)


class WordRows:
    """All sentences of a split; every distinct word of a batch is spelled once."""

    def __init__(self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> None:
        self.words = TokenRows.from_lists([vocabulary.word_ids(sentence) for sentence in sentences])
        forms = {form: number for number, form in enumerate(dict.fromkeys(w for s in sentences for w in s))}
        self.forms = TokenRows.from_lists([[forms[word] for word in sentence] for sentence in sentences])
        self.spellings = TokenRows.from_lists([vocabulary.spelling(form) for form in forms])

    @classmethod
    def streamed(cls, sentences: StreamedRows, vocabulary: Vocabulary) -> tuple[WordRows, TokenRows]:
        """Training sentences that are not in memory and their tags, memory-mapped (`harken.data.prepared`)."""

        def encode(columns: Columns) -> list[TokenRows | Distinct]:
            rows, forms = cls(columns[0], vocabulary), list(dict.fromkeys(chain.from_iterable(columns[0])))
            tags = TokenRows.from_lists([vocabulary.tag_ids(tags) for tags in columns[1]])
            return [rows.words, rows.forms, tags, Distinct(hashes(forms), rows.spellings)]

        kinds = {
            "words": id_kind(vocabulary.word_count),
            "forms": NUMBER,
            "tags": id_kind(len(vocabulary.tags)),
            "spellings": id_kind(vocabulary.character_count),
        }
        made = cls.__new__(cls)
        made.words, made.forms, tags, made.spellings = encode_rows(sentences, kinds, encode, asdict(vocabulary))
        return made, tags

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
        distinct, place = np.unique(forms.numpy(), return_inverse=True)
        spellings, _ = self.spellings.gather(distinct)
        return WordBatch(words, torch.from_numpy(place.reshape(forms.shape)), spellings), lengths


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
