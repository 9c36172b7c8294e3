"""Sentences as a language model in both directions reads them: BOS, spelled words, EOS.

>>> known = learn_vocabulary([("a", "cat")], 10, 1)
>>> batch, lengths = ElmoRows([("a", "cat")], known).gather([0])
>>> batch.words.tolist(), batch.spelled.tolist(), batch.spellings.tolist(), lengths.tolist()
([[2, 4, 5, 3]], [[0, 2, 3, 1]], [[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 4, 6]], [4])
>>> words_of("so: don't")
['so', ':', 'don', "'", 't']
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from harken.data.io.token_rows import TokenRows
from harken.data.prepared.ids import encode_rows, id_kind, kept_value
from harken.data.prepared.stream import Columns, StreamedRows
from harken.data.text.text_config import LinesConfig
from harken.data.tokenizers.tokens import BOS, EOS, SPECIALS
from harken.data.tokenizers.word import JOINED, WordTokenizer
from harken.tasks.words import Vocabulary, WordRows


class ElmoRows(WordRows):
    """All sentences of a split, each of at least one word, with a beginning and an end."""

    def __init__(self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> None:
        forms = {form: 2 + number for number, form in enumerate(dict.fromkeys(w for s in sentences for w in s))}
        self.words = TokenRows.from_lists([[BOS, *vocabulary.word_ids(sentence), EOS] for sentence in sentences])
        self.forms = TokenRows.from_lists([[0, *(forms[word] for word in sentence), 1] for sentence in sentences])
        self.spellings = TokenRows.from_lists([[BOS], [EOS], *(vocabulary.spelling(form) for form in forms)])


class StreamedElmoRows(ElmoRows):
    """The same of lines that are not in memory (`harken.data.prepared`); `counts` are those of `word_counts`."""

    def __init__(
        self, lines: StreamedRows, config: LinesConfig, counts: Mapping[str, int], vocabulary: Vocabulary
    ) -> None:
        forms = {form: 2 + number for number, form in enumerate(counts)}

        def encode(columns: Columns) -> list[TokenRows]:
            sentences = sentences_of(columns[0], config)
            return [
                TokenRows.from_lists([[BOS, *vocabulary.word_ids(sentence), EOS] for sentence in sentences]),
                TokenRows.from_lists([[0, *(forms[word] for word in sentence), 1] for sentence in sentences]),
            ]

        kind = id_kind(max(len(SPECIALS) + len(vocabulary.words), 2 + len(forms)))
        key = ["elmo", vocabulary.words, vocabulary.lowercase, config.max_tokens, config.lowercase]
        self.words, self.forms = encode_rows(lines, {"words": kind, "forms": kind}, encode, key)
        self.spellings = TokenRows.from_lists([[BOS], [EOS], *(vocabulary.spelling(form) for form in forms)])


def word_counts(lines: StreamedRows, config: LinesConfig) -> dict[str, int]:
    """How often each word occurs in streamed lines, in the order of first occurrence; counted once."""

    def count(texts: Iterable[str]) -> Counter[str]:
        return Counter(chain.from_iterable(words_of(text, config.lowercase) for text in texts))

    found: dict[str, int] = kept_value(
        lines, ["words", config.lowercase], lambda: lines.texts(0).token_counts(count, most=sys.maxsize)
    )
    return found


def words_of(text: str, lowercase: bool = False) -> list[str]:
    """The words of a text, marks cut off."""
    words = [token.strip(JOINED) or token for token in WordTokenizer.split(text)]
    return [word.lower() for word in words] if lowercase else words


def sentences_of(lines: Sequence[str], config: LinesConfig) -> list[list[str]]:
    """The words of every line, in pieces of at most `max_tokens`.

    >>> sentences_of(["One two three", ""], LinesConfig(max_tokens=2, lowercase=True))
    [['one', 'two'], ['three']]
    """
    limit, rows = config.max_tokens, [words_of(line, config.lowercase) for line in lines]
    return [words[start : start + limit] for words in rows for start in range(0, len(words), limit)]


def learn_vocabulary(sentences: Sequence[Sequence[str]], size: int, min_count: int) -> Vocabulary:
    """The words that can be predicted, and all characters."""
    return vocabulary_of(Counter(word for sentence in sentences for word in sentence), size, min_count)


def vocabulary_of(counts: Mapping[str, int], size: int, min_count: int) -> Vocabulary:
    """As `learn_vocabulary`, from counted words."""
    letters = Counter(letter for word, count in counts.items() for letter in word * min(count, 2))
    words = [word for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count >= min_count]
    return Vocabulary([], words[: size - len(SPECIALS)], sorted(letters))
