"""Questions with the facts they are asked about, and the ids of many of them.

Most sentences come again and again, so every different one is kept once; a question has the numbers of its facts.

>>> asked = Question(("Mary went to the garden.", "Bill slept."), "Where is Mary?", "garden", supporting=(0,))
>>> words_of(asked.facts[0])
'mary went to the garden'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import CHUNK, TokenRows
from harken.data.prepared.disk_rows import Numbering
from harken.data.prepared.scan import hashes
from harken.data.rows import NUMBER, Columns, Distinct, Encoded, References, different, id_type, rows_of
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
    """The text that the model reads."""

    facts: Tensor  # (B, F, W) word ids
    counts: Tensor  # (B,) facts of each
    question: Tensor  # (B, Q) word ids


def words_of(sentence: str) -> str:
    """A sentence as it is read: small letters, no mark at its ends."""
    return sentence.strip(MARKS).lower()


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
        def encode(columns: Columns) -> list[Encoded]:
            facts = [[words_of(fact) for fact in own] for own in columns[0]]
            asked = [words_of(question) for question in columns[1]]
            texts = different((*own, question) for own, question in zip(facts, asked, strict=True))
            number = {text: index for index, text in enumerate(texts)}
            return [
                References(TokenRows.from_lists([[number[fact] for fact in own[-max_facts:]] for own in facts])),
                References(TokenRows.from_lists([[number[question]] for question in asked])),
                Distinct(texts, TokenRows.from_lists(tokenizer.encode_all(texts))),
            ]

        types = {"facts": NUMBER, "questions": NUMBER, "sentences": id_type(tokenizer.size)}
        key = ["questions", tokenizer, max_facts]
        # Facts and questions are numbers of sentences; number 0 is the sentence without words.
        self.facts, asked, self.sentences = rows_of(questions).encode(types, encode, key, empty=1)
        self.questions = asked.flat

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every question and its facts, as padded: facts times the longest of them."""
        words, offsets = self.sentences.lengths, self.facts.offsets
        lengths = np.empty(len(self), dtype=np.int64)
        for start in range(0, len(self), CHUNK):
            stop = min(start + CHUNK, len(self))
            flat = words[self.facts.flat[offsets[start] : offsets[stop]]]
            longest = np.ones(stop - start, dtype=np.int64)
            counts = np.diff(offsets[start : stop + 1])
            np.maximum.at(longest, np.repeat(np.arange(stop - start), counts), flat)
            lengths[start:stop] = longest * np.maximum(1, counts) + words[self.questions[start:stop]]
        return lengths

    def batch(self, rows: np.ndarray) -> QuestionBatch:
        """The tensors of some questions."""
        numbers, counts = self.facts.gather(rows)  # (B, F)
        if not numbers.shape[1]:
            numbers = torch.zeros(len(rows), 1, dtype=torch.int64)
        words, _ = self.sentences.gather(numbers.flatten().numpy())
        question, _ = self.sentences.gather(self.questions[rows])
        words = words.new_zeros(len(words), 1) if not words.shape[1] else words
        return QuestionBatch(words.view(*numbers.shape, -1), counts, question)


class DistinctSentences:
    """Every different sentence of questions, in the order in which they come."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.rows = rows_of(questions)

    def __iter__(self) -> Iterator[str]:
        def find(columns: Columns) -> tuple[list[str], np.ndarray]:
            sentences = ((*facts, question) for facts, question in zip(columns[0], columns[1], strict=True))
            texts = different(map(words_of, sentence) for sentence in sentences)
            return texts, hashes(texts)

        known = Numbering()
        for texts, digests in self.rows.map(find, "reading sentences"):
            yield from compress(texts, known.number(digests)[1])
