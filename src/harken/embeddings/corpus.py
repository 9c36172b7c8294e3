"""Read text files into a `Corpus`: one flat stream of word ids, memory-mapped, with -1 after every sentence.

The text is read once. Every new word gets the next number, and the numbers are written to a file. When the counts are
known, rare words are dropped, the others renumbered by frequency, and the file of numbers is rewritten. Memory holds
the distinct words and one chunk of the stream, so a corpus may be larger than memory. Dropped words are not in the
stream: their neighbours become adjacent, as in word2vec.

>>> import tempfile, pathlib
>>> file = pathlib.Path(tempfile.mkdtemp()) / "text.txt"
>>> _ = file.write_text("The cat saw the dog.\\nThe dog ran.\\n")
>>> corpus = read_corpus([file], min_count=2)
>>> corpus.vocabulary.words, corpus.stream.tolist(), corpus.left_out
(['the', 'dog'], [0, 0, 1, -1, 0, 1, -1], 3)
>>> word_splitter("words", lower=True)("Don't panic: Rock-and-roll, 1968!")
["don't", 'panic', 'rock-and-roll', '1968']
>>> word_splitter("spaces", lower=False)("New_York is , in fact")
['New_York', 'is', ',', 'in', 'fact']
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.data.io.files import read_lines
from harken.embeddings.vocabulary import Vocabulary
from harken.errors import UserError
from harken.files import expand_user

END = -1  # after the last word of every sentence
CHUNK = 4_000_000  # ids that are processed at once in a pass over a stream


@dataclass
class Corpus:
    """A vocabulary, the text as its ids, and what was read."""

    vocabulary: Vocabulary
    stream: NDArray[np.int32]  # (words + sentences,)
    words_read: int  # including words that the vocabulary leaves out
    files: list[Path] = field(default_factory=list)
    folder: Any = None  # a temporary folder with the stream, deleted with the corpus

    @cached_property
    def words(self) -> int:
        """Words in the stream."""
        return int(self.vocabulary.counts.sum())

    @property
    def sentences(self) -> int:
        """Lines of text that had words, including those of which no word is left."""
        return len(self.stream) - self.words

    @property
    def left_out(self) -> int:
        """Words that were read and are not in the stream: rare ones, and second halves of phrases."""
        return self.words_read - self.words


WORD = re.compile(r"\w+(?:['’-]\w+)*")
SPLITS = ("words", "spaces")


def word_splitter(tokens: str = "words", lower: bool = True) -> Callable[[str], list[str]]:
    """The function that splits a line: runs of letters and digits, with apostrophes and hyphens inside, or at spaces.

    Raises:
        UserError: `tokens` is neither "words" nor "spaces".
    """
    if tokens not in SPLITS:
        raise UserError(f'tokens is "{tokens}", which is unknown: use {" or ".join(SPLITS)}.')
    split = str.split if tokens == "spaces" else WORD.findall
    return (lambda line: split(line.lower())) if lower else split


MAX_LINE_BYTES = 2_000_000_000  # text8 is a whole corpus on one line
MAX_SENTENCE = 10_000  # words; a longer line is split


class _Numbers(dict[str, int]):
    """Word -> number; a new word gets the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def read_corpus(
    files: Sequence[str | Path],
    *,
    tokens: str = "words",
    lower: bool = True,
    min_count: int = 5,
    max_vocabulary: int | None = None,
    phrases: int = 0,
    phrase_threshold: float = 100.0,
    folder: str | Path | None = None,
    progress: Callable[[int], None] = lambda words: None,
) -> Corpus:
    """Read text, a sentence a line, plain or `.gz` or `.xz`; `progress` gets the words read since its last call.

    Each of `phrases` passes joins frequent pairs of words (`new_york`); two passes find phrases of up to four words.
    The stream of ids is in a temporary folder inside `folder`, or in the system's, as long as the corpus exists.

    Raises:
        UserError: a file cannot be read, or there is nothing to learn from.
    """
    paths = [expand_user(file) for file in files]
    home = tempfile.TemporaryDirectory(prefix="harken-corpus-", dir=folder)
    numbers = _Numbers()
    stream_file = Path(home.name) / "read.i32"
    words_read = _write_numbers(paths, word_splitter(tokens, lower), numbers, stream_file, progress)
    named = ", ".join(map(str, paths))
    if words_read == 0:
        raise UserError(f"{named}: no words were found: give a file with text, a sentence a line.")
    stream = _mapped(stream_file)
    words, counts = list(numbers), _count(stream, len(numbers))
    for _ in range(phrases):
        from harken.embeddings.phrases import join_phrases

        words, stream = join_phrases(words, counts, stream, stream_file, min_count, phrase_threshold)
        counts = _count(stream, len(words))
    order = _most_frequent(counts, min_count, max_vocabulary)
    vocabulary = Vocabulary([words[number] for number in order], counts[order])
    _check_vocabulary(vocabulary, words, counts, min_count, named)
    left_out = END - 1
    renumbered = np.full(len(words) + 1, left_out, dtype=np.int32)
    renumbered[END] = END  # the last entry, which index -1 selects
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    kept_file = Path(home.name) / "kept.i32"
    with kept_file.open("wb") as sink:
        for start in range(0, len(stream), CHUNK):
            ids = renumbered[stream[start : start + CHUNK]]
            sink.write(ids[ids != left_out].tobytes())
    del stream
    stream_file.unlink()
    return Corpus(vocabulary, _mapped(kept_file), words_read, paths, home)


def _write_numbers(
    paths: list[Path],
    split: Callable[[str], list[str]],
    numbers: _Numbers,
    target: Path,
    progress: Callable[[int], None],
) -> int:
    total = 0
    number_of = numbers.__getitem__
    with target.open("wb") as sink:
        pending: list[int] = []
        words = 0
        for path in paths:
            for line in read_lines(path, MAX_LINE_BYTES):
                tokens = split(line)
                for start in range(0, len(tokens), MAX_SENTENCE):
                    pending.extend(map(number_of, tokens[start : start + MAX_SENTENCE]))
                    pending.append(END)
                words += len(tokens)
                if len(pending) > 200_000:
                    sink.write(np.array(pending, dtype=np.int32).tobytes())
                    progress(words)
                    total, words, pending = total + words, 0, []
        sink.write(np.array(pending, dtype=np.int32).tobytes())
        progress(words)
    return total + words


def _mapped(path: Path) -> NDArray[np.int32]:
    return np.memmap(path, dtype=np.int32, mode="r") if path.stat().st_size else np.zeros(0, dtype=np.int32)


def _count(stream: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(stream), CHUNK):
        chunk = stream[start : start + CHUNK]
        counts += np.bincount(chunk[chunk >= 0], minlength=size)
    return counts


def _most_frequent(counts: NDArray[np.int64], min_count: int, max_vocabulary: int | None) -> NDArray[np.int64]:
    """Numbers of the words to keep, the most frequent first, of equals the first seen."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= max(min_count, 1)]
    return order[:max_vocabulary]


def _check_vocabulary(
    vocabulary: Vocabulary, words: list[str], counts: NDArray[np.int64], min_count: int, named: str
) -> None:
    if len(words) == 1:
        raise UserError(
            f'{named}: the only word is "{words[0]}", {counts[0]:,} times, so there is nothing to learn: '
            "give text with at least two different words."
        )
    if len(vocabulary) < 2:
        most = int(counts.argmax())
        raise UserError(
            f"{named}: of {len(words):,} different words {len(vocabulary)} occur at least {min_count} times "
            f'(the most frequent, "{words[most]}", {counts[most]:,} times): lower min-count or give more text.'
        )
