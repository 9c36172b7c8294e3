"""Text files to a `Corpus`, in one pass over the text.

Every new word gets the next number, and the numbers go to a file as they come. When the text is read, each word's count
is known: rare words leave, the rest are numbered anew by frequency, and the file of numbers, not the text, is gone
through once more. Memory holds the distinct words and one piece of the stream.

>>> import tempfile, pathlib
>>> file = pathlib.Path(tempfile.mkdtemp()) / "text.txt"
>>> _ = file.write_text("The cat saw the dog.\\nThe dog ran.\\n")
>>> corpus = read_corpus([file], min_count=2)
>>> corpus.vocabulary.words, corpus.stream.tolist(), corpus.left_out
(['the', 'dog'], [0, 0, 1, -1, 0, 1, -1], 3)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harken.data.io.files import read_lines
from harken.embeddings.io.corpus import END, PIECE, Corpus
from harken.embeddings.io.tokens import cutter
from harken.embeddings.vocabulary import Vocabulary
from harken.embeddings.word2vec.phrases import join_phrases
from harken.errors import UserError

MAX_LINE_BYTES = 2_000_000_000  # a whole corpus on one line, as text8 is, is fine
MAX_SENTENCE = 10_000  # words; a longer line is cut


class _Numbers(dict[str, int]):
    """Word to number; a new word gets the next one."""

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

    `phrases` passes join pairs of words that belong together (`new_york`); two passes find phrases of up to four.
    The stream of ids lies in a temporary folder inside `folder`, or where the system keeps such, as long as the corpus
    lives.

    Raises:
        UserError: a file cannot be read, or there is nothing to learn from.
    """
    paths = [Path(file).expanduser() for file in files]
    home = tempfile.TemporaryDirectory(prefix="harken-corpus-", dir=folder)
    numbers = _Numbers()
    stream_file = Path(home.name) / "read.i32"
    words_read = _write_numbers(paths, cutter(tokens, lower), numbers, stream_file, progress)
    named = ", ".join(map(str, paths))
    if words_read == 0:
        raise UserError(f"{named}: no words were found: give a file with text, a sentence a line.")
    stream = _mapped(stream_file)
    words, counts = list(numbers), _count(stream, len(numbers))
    for _ in range(phrases):
        words, stream = join_phrases(words, counts, stream, stream_file, min_count, phrase_threshold)
        counts = _count(stream, len(words))
    order = _kept(counts, min_count, max_vocabulary)
    vocabulary = Vocabulary([words[number] for number in order], counts[order])
    _require_something_to_learn(vocabulary, words, counts, min_count, named)
    left_out = END - 1
    renumbered = np.full(len(words) + 1, left_out, dtype=np.int32)
    renumbered[END] = END  # the last place: what -1 finds
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    kept_file = Path(home.name) / "kept.i32"
    with kept_file.open("wb") as sink:
        for start in range(0, len(stream), PIECE):
            ids = renumbered[stream[start : start + PIECE]]
            sink.write(ids[ids != left_out].tobytes())
    del stream
    stream_file.unlink()
    return Corpus(vocabulary, _mapped(kept_file), words_read, paths, home)


def _write_numbers(
    paths: list[Path],
    cut: Callable[[str], list[str]],
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
                found = cut(line)
                for start in range(0, len(found), MAX_SENTENCE):
                    pending.extend(map(number_of, found[start : start + MAX_SENTENCE]))
                    pending.append(END)
                words += len(found)
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
    for start in range(0, len(stream), PIECE):
        piece = stream[start : start + PIECE]
        counts += np.bincount(piece[piece >= 0], minlength=size)
    return counts


def _kept(counts: NDArray[np.int64], min_count: int, max_vocabulary: int | None) -> NDArray[np.int64]:
    """Numbers of the words to keep, the most frequent first; the first seen first among equals."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= max(min_count, 1)]
    return order[:max_vocabulary]


def _require_something_to_learn(
    vocabulary: Vocabulary, words: list[str], counts: NDArray[np.int64], min_count: int, named: str
) -> None:
    if len(words) == 1:
        raise UserError(
            f'{named}: the only word is "{words[0]}", {counts[0]:,} times, so there is nothing to tell apart: '
            "give text with at least two different words."
        )
    if len(vocabulary) < 2:
        most = int(counts.argmax())
        raise UserError(
            f"{named}: of {len(words):,} different words {len(vocabulary)} occur at least {min_count} times "
            f'(the most frequent, "{words[most]}", {counts[most]:,} times): lower min-count or give more text.'
        )
