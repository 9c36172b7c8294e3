"""Questions with the facts they are asked about, and the ids of many of them.

Most sentences come again and again, so every different one is kept once; a question has the numbers of its facts.

>>> asked = Question(("Mary went to the garden.", "Bill slept."), "Where is Mary?", "garden", supporting=(0,))
>>> words_of(asked.facts[0])
'mary went to the garden'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import CHUNK, TokenRows
from harken.data.prepared.examples import hashes
from harken.data.prepared.ids import NUMBER, Distinct, Numbering, encode_rows, id_kind, tokenizer_key
from harken.data.prepared.stream import Columns, StreamedRows
from harken.data.splits import Parts
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError

MARKS = " \t.?!:;,\"'"


@dataclass(frozen=True, slots=True)
class Question:
    """Facts in the order of time, a question asked after the last of them, and its answer."""

    facts: tuple[str, ...]
    question: str
    answer: str = ""
    supporting: tuple[int, ...] | None = None  # the facts it needs, counted from 0, where that is known
    task: str = ""  # where several kinds stand together


@dataclass
class Questions(Parts):
    """All the questions of one run."""

    name: str
    train: Sequence[Question]
    valid: Sequence[Question]
    tests: dict[str, Sequence[Question]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training questions left out


class QuestionBatch(NamedTuple):
    """What the model reads."""

    facts: Tensor  # (B, F, W) word ids
    counts: Tensor  # (B,) facts of each
    question: Tensor  # (B, Q) word ids


def words_of(sentence: str) -> str:
    """A sentence as it is read: small letters, no mark at its ends."""
    return sentence.strip(MARKS).lower()


def texts_of(questions: Iterable[Question]) -> Iterable[str]:
    """Every different sentence, in the order in which they come."""
    if isinstance(questions, StreamedRows):
        return DistinctSentences(questions)
    return list(dict.fromkeys(words_of(text) for one in questions for text in (*one.facts, one.question)))


def example_of(text: str) -> Question:
    """Facts and a question in one text, each sentence with its mark at the end; the question comes last.

    >>> example_of("Anna slept. Ben ran. Who ran?").facts
    ('Anna slept.', 'Ben ran.')
    """
    sentences = [part.strip() for part in text.replace("?", "?\n").replace(". ", ".\n").splitlines() if part.strip()]
    if len(sentences) < 2 or not sentences[-1].endswith("?"):
        raise UserError('write the facts and then the question, as in "Anna went to the hall. Where is Anna?"')
    return Question(tuple(sentences[:-1]), sentences[-1])


class QuestionIds:
    """The ids of questions; of each the newest `max_facts` facts."""

    def __init__(self, questions: Sequence[Question], tokenizer: Tokenizer, max_facts: int) -> None:
        if isinstance(questions, StreamedRows):
            found = _streamed_ids(questions, tokenizer, max_facts)
        else:
            found = _ids([one.facts for one in questions], [one.question for one in questions], tokenizer, max_facts)[0]
        self.facts, asked, self.sentences = found  # facts and questions are numbers of sentences
        self.questions = asked.flat

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every question and its facts, as padded: facts times the longest of them."""
        words, offsets = self.sentences.lengths, self.facts.offsets
        found = np.empty(len(self), dtype=np.int64)
        for start in range(0, len(self), CHUNK):
            stop = min(start + CHUNK, len(self))
            flat = words[self.facts.flat[offsets[start] : offsets[stop]]]
            longest = np.ones(stop - start, dtype=np.int64)
            counts = np.diff(offsets[start : stop + 1])
            np.maximum.at(longest, np.repeat(np.arange(stop - start), counts), flat)
            found[start:stop] = longest * np.maximum(1, counts) + words[self.questions[start:stop]]
        return found

    def batch(self, rows: np.ndarray) -> QuestionBatch:
        """The tensors of some questions."""
        numbers, counts = self.facts.gather(rows)  # (B, F)
        if not numbers.shape[1]:
            numbers = torch.zeros(len(rows), 1, dtype=torch.int64)
        words, _ = self.sentences.gather(numbers.flatten().numpy())
        question, _ = self.sentences.gather(self.questions[rows])
        words = words.new_zeros(len(words), 1) if not words.shape[1] else words
        return QuestionBatch(words.view(*numbers.shape, -1), counts, question)


def _ids(
    facts: Sequence[Sequence[str]], questions: Sequence[str], tokenizer: Tokenizer, max_facts: int
) -> tuple[list[TokenRows], list[str]]:
    """Numbers of the facts and of the questions, the words of all sentences by number, and these as text.

    Number 0 is the sentence without words.
    """
    told = [[words_of(fact) for fact in own] for own in facts]
    asked = [words_of(question) for question in questions]
    texts = list(dict.fromkeys(chain.from_iterable((*own, one) for own, one in zip(told, asked, strict=True))))
    number = {text: place for place, text in enumerate(texts, start=1)}
    return [
        TokenRows.from_lists([[number[fact] for fact in own[-max_facts:]] for own in told]),
        TokenRows.from_lists([[number[one]] for one in asked]),
        TokenRows.from_lists([[], *tokenizer.encode_all(texts)]),
    ], texts


def _streamed_ids(rows: StreamedRows, tokenizer: Tokenizer, max_facts: int) -> list[TokenRows]:
    """The same of questions that are not in memory, memory-mapped (`harken.data.prepared`)."""

    def encode(columns: Columns) -> list[TokenRows | Distinct]:
        (facts, questions, sentences), texts = _ids(columns[0], columns[1], tokenizer, max_facts)
        without = TokenRows(sentences.flat, sentences.offsets[1:])  # the file has the empty one already
        local = [TokenRows(part.flat - 1, part.offsets) for part in (facts, questions)]
        return [*local, Distinct(hashes(texts), without)]

    kinds = {"facts": NUMBER, "questions": NUMBER, "sentences": id_kind(tokenizer.size)}
    return encode_rows(rows, kinds, encode, ["questions", tokenizer_key(tokenizer), max_facts], empty=1)


class DistinctSentences:
    """Every different sentence of streamed questions, in the order in which they come; see `texts_of`."""

    def __init__(self, rows: StreamedRows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[str]:
        def find(columns: Columns, first: int) -> tuple[list[str], np.ndarray]:
            sentences = chain.from_iterable((*facts, one) for facts, one in zip(columns[0], columns[1], strict=True))
            texts = list(dict.fromkeys(map(words_of, sentences)))
            return texts, hashes(texts)

        known = Numbering()
        for texts, found in self.rows.stream.map(self.rows.code, "reading sentences", find):
            yield from compress(texts, known.number(found)[1])
