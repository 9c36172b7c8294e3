"""Question answering as a task: one term of the loss a question, the share of right answers on validation.

>>> known = Answers.learn(["garden", "apple,key", "key"], "set")
>>> known.texts, known.ids_of("apple,key")
(['apple', 'garden', 'key'], [0, 2])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, Field
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import id_type, rows_of
from harken.data.text.questions import Question, QuestionBatch, QuestionIds, words_of
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.files import atomic_write
from harken.models.answering.model import Answerer, AnswerScores
from harken.tasks.answer.recipe import AnswerRecipe
from harken.tasks.artifacts import ObjectArtifact, damaged
from harken.tasks.sequence_task import SequenceTask, Sums, length_batches
from harken.training.task import Indices

FILE = "answers.json"
BETWEEN = ","  # of a list
Kind = Literal["classes", "set", "pointer"]


@dataclass(frozen=True)
class Answers:
    """Texts by id; a list is one answer ("classes") or several ("set")."""

    texts: list[str]
    kind: Kind

    @classmethod
    def learn(cls, answers: Iterable[str], kind: Kind) -> Answers:
        """All that occur, in the order of the alphabet."""
        parts = {part for answer in answers for part in (answer.split(BETWEEN) if kind == "set" else [answer])}
        return cls(sorted(parts), kind)

    def ids_of(self, answer: str) -> list[int]:
        """The ids of an answer, less those that are not known."""
        parts = answer.split(BETWEEN) if self.kind == "set" else [answer]
        return [self.places[part] for part in parts if part in self.places]

    @cached_property
    def places(self) -> dict[str, int]:
        """The id of every text."""
        return {text: index for index, text in enumerate(self.texts)}

    def save(self, folder: Path) -> None:
        """Write answers.json."""
        text = json.dumps({"kind": self.kind, "answers": self.texts}, ensure_ascii=False, indent=0)
        atomic_write(folder / FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> Answers:
        """Load the answers that `save` wrote.

        Raises:
            UserError: the file is missing or damaged.
        """
        try:
            stored = _Stored.model_validate_json((folder / FILE).read_bytes(), strict=True)
        except (OSError, ValueError):
            raise damaged(folder / FILE) from None
        return cls(stored.answers, stored.kind)


class _Stored(BaseModel):
    """The content of the file."""

    kind: Kind
    answers: list[str] = Field(min_length=1)


ANSWERS = ObjectArtifact(Answers, FILE)

MIXED = 4  # batches that are drawn together and then sorted by length
VALIDATED = 8192  # words that are read at once in validation


class AnswerBatch(NamedTuple):
    """Questions, and what the loss wants of them."""

    asked: QuestionBatch
    labels: Tensor  # (B,) or (B, A), as `AnswerIds.gather` gives it
    indices: Indices  # (B,)


class AnswerTask(SequenceTask[Answerer, AnswerBatch]):
    """See `harken.tasks.sequence_task`."""

    unit = "questions"
    monitor = "chance"  # probability of the right answer, which unlike accuracy separates models with the same errors
    mode = "max"
    smallest_batch = 32  # questions

    def __init__(
        self,
        recipe: AnswerRecipe,
        train: Sequence[Question],
        valid: Sequence[Question],
        model: Answerer,
        tokenizer: Tokenizer,
        answers: Answers,
    ) -> None:
        self.answers, self.tokenizer = answers, tokenizer
        self.train_ids = QuestionIds(train, tokenizer, recipe.model.max_facts)
        self.valid_ids = QuestionIds(valid, tokenizer, recipe.model.max_facts)
        super().__init__(model, recipe.train, self.train_ids.lengths, self.valid_ids.lengths)
        self.valid_answers = [question.answer for question in valid]
        self.labels = AnswerIds(train, answers, tokenizer)
        self.valid_labels = AnswerIds(valid, answers, tokenizer)
        if answers.kind == "pointer":
            refuse_unseen(train, recipe.model.max_facts)

    def epoch(self, number: int) -> Sequence[Indices]:
        """`batch_tokens` questions a batch, whatever their length, drawn anew in every epoch.

        Those of like length are put together only out of a few batches' worth: there are few stories, and the same
        neighbours in every epoch would be learnt with them.
        """
        rows, random = self.settings.batch_tokens, np.random.default_rng([self.settings.seed, number])
        order = random.permutation(len(self.lengths))
        drawn = [order[start : start + MIXED * rows] for start in range(0, len(order), MIXED * rows)]
        batches = []
        for part in drawn:
            alike = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [alike[start : start + rows] for start in range(0, len(alike), rows)]
        return [batches[index] for index in random.permutation(len(batches))]

    def size(self, indices: Indices) -> int:
        """Count the questions."""
        return len(indices)

    def collate(self, indices: Indices, valid: bool = False) -> AnswerBatch:
        ids, labels = (self.valid_ids, self.valid_labels) if valid else (self.train_ids, self.labels)
        return AnswerBatch(ids.batch(indices), labels.gather(indices), indices)

    def loss(self, model: Answerer, batch: AnswerBatch) -> tuple[Tensor, int]:
        """Summed over the questions."""
        return model.loss(model(*batch.asked), batch.labels, self.settings.label_smoothing), len(batch.indices)

    def valid_batches(self, part: int, parts: int) -> Sequence[Indices]:
        return length_batches(self.valid_lengths, VALIDATED, part, parts)  # `batch_tokens` counts questions

    def evaluate(self, model: Answerer, batch: AnswerBatch) -> Sums:
        """Loss and probability of the right answers that are known, and how many answers are right."""
        output, known = model(*batch.asked), batch.labels
        answered = known >= 0 if known.ndim == 1 else torch.ones(len(known), dtype=torch.bool)
        sums = {"loss": 0.0, "chance": 0.0, "count": len(known)}
        if answered.any():
            some = AnswerScores(output.scores[answered], output.attention)
            sums["loss"] = float(model.loss(some, known[answered]))
            sums["chance"] = float(model.probabilities(some, known[answered]).sum())
        texts, _ = texts_of_scores(output.scores, self.answers, self.tokenizer)
        labels = [self.valid_answers[index] for index in batch.indices]
        sums["accuracy"] = sum(same(*pair, self.answers.kind) for pair in zip(texts, labels, strict=True))
        return sums

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss of a question, mean probability of its right answer, and accuracy."""
        return {name: sums[name] / sums["count"] for name in ("loss", "chance", "accuracy")}


class AnswerIds:
    """The right answers of some questions, as rows of ids."""

    def __init__(self, questions: Sequence[Question], answers: Answers, tokenizer: Tokenizer) -> None:
        self.answers = answers
        types = {"answers": id_type(max(tokenizer.size, len(answers.texts)))}
        key = ["answers", answers.kind, answers.texts, tokenizer]
        (self.rows,) = rows_of(questions).encode(
            types, lambda columns: [label_ids(columns[2], answers, tokenizer)], key
        )

    def gather(self, indices: Indices) -> Tensor:
        """(B,) ids, -1 where an answer is not known; or (B, A) of 0 and 1 for sets."""
        offsets = self.rows.offsets
        counts = offsets[indices + 1] - offsets[indices]
        if self.answers.kind != "set":
            ids = np.full(len(indices), -1, dtype=np.int64)
            ids[counts > 0] = self.rows.flat[offsets[indices[counts > 0]]]
            return torch.from_numpy(ids)
        labels = torch.zeros(len(indices), len(self.answers.texts))
        for row, index in enumerate(indices):
            labels[row, self.rows[int(index)].astype(np.int64)] = 1.0
        return labels


def label_ids(answers: Sequence[str], known: Answers, tokenizer: Tokenizer) -> TokenRows:
    """The ids of answers: words of the text for a pointer, else places among the known ones; none for unknown ones."""
    if known.kind == "pointer":
        ids = [tokenizer.encode(words_of(answer)) for answer in answers]
        return TokenRows.from_lists([row if len(row) == 1 else [] for row in ids])
    return TokenRows.from_lists([known.ids_of(answer) for answer in answers])


def texts_of_scores(scores: Tensor, answers: Answers, tokenizer: Tokenizer) -> tuple[list[str], np.ndarray]:
    """The best answers as text and their probabilities (B,)."""
    if answers.kind == "set":
        probabilities = torch.sigmoid(scores.float())
        some = (probabilities >= 0.5) | (
            probabilities == probabilities.amax(1, keepdim=True)
        )  # at least the best of them
        texts = [BETWEEN.join(answers.texts[answer] for answer in np.flatnonzero(row)) for row in some.cpu().numpy()]
        sure = torch.where(some, probabilities, 1 - probabilities).prod(1)
        return texts, sure.detach().cpu().numpy()
    probabilities, best = torch.softmax(scores.float(), -1).max(-1)
    if answers.kind == "pointer":
        texts = [tokenizer.decode([answer]) for answer in best.tolist()]
    else:
        texts = [answers.texts[answer] for answer in best.tolist()]
    return texts, probabilities.detach().cpu().numpy()


def same(text: str, answer: str, kind: Kind) -> bool:
    """Whether an answer is right; in a set the order does not count."""
    predicted, labels = text.lower(), answer.lower()
    return sorted(predicted.split(BETWEEN)) == sorted(labels.split(BETWEEN)) if kind == "set" else predicted == labels


def refuse_unseen(questions: Sequence[Question], max_facts: int) -> None:
    """A pointer can only point at words that are there.

    Raises:
        UserError: how many answers are no word of their facts.
    """

    def count() -> tuple[int, str, str]:
        missing, first = 0, ("", "")
        for question in questions:
            if (
                words_of(question.answer)
                not in " ".join(words_of(fact) for fact in question.facts[-max_facts:]).split()
            ):
                missing, first = missing + 1, first if missing else (question.answer, question.question)
        return missing, *first

    missing, answer, question = rows_of(questions).cached(["unseen", max_facts], count)
    if missing:
        raise UserError(
            f"{missing:,} of {len(questions):,} answers are no word of their facts (the first: "
            f'"{answer}" to "{question}"); set model.output = "classes"'
        )
