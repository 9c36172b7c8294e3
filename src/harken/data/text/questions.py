"""Questions with the facts they are asked about, and the ids of many of them.

Most sentences come again and again, so every different one is kept once; a question has the numbers of its facts.

>>> asked = Question(("Mary went to the garden.", "Bill slept."), "Where is Mary?", "garden", supporting=(0,))
>>> words_of(asked.facts[0])
'mary went to the garden'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
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


def texts_of(questions: Iterable[Question]) -> list[str]:
    """Every different sentence, in the order in which they come."""
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
        texts = texts_of(questions)
        number = {text: place for place, text in enumerate(texts, start=1)}  # 0 is the sentence without words
        self.sentences = TokenRows.from_lists([[], *tokenizer.encode_all(texts)])
        self.facts = TokenRows.from_lists(
            [[number[words_of(fact)] for fact in one.facts[-max_facts:]] for one in questions]
        )
        self.questions = np.array([number[words_of(one.question)] for one in questions], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every question and its facts, as padded: facts times the longest of them."""
        words = self.sentences.lengths
        longest = [words[self.facts[row]].max(initial=1) * max(1, len(self.facts[row])) for row in range(len(self))]
        return np.array(longest, dtype=np.int64) + words[self.questions]

    def batch(self, rows: np.ndarray) -> QuestionBatch:
        """The tensors of some questions."""
        numbers, counts = self.facts.gather(rows)  # (B, F)
        if not numbers.shape[1]:
            numbers = torch.zeros(len(rows), 1, dtype=torch.int64)
        words, _ = self.sentences.gather(numbers.flatten().numpy())
        question, _ = self.sentences.gather(self.questions[rows])
        words = words.new_zeros(len(words), 1) if not words.shape[1] else words
        return QuestionBatch(words.view(*numbers.shape, -1), counts, question)
