"""Question answering as a task: one term of the loss a question, the share of right answers on validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.text.questions import Question, QuestionIds, words_of
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.models.answering.model import Answerer, Found
from harken.tasks.answer.answers import BETWEEN, Answers
from harken.tasks.answer.recipe import AnswerRecipe
from harken.tasks.by_length import ByLength, rows_of_part
from harken.training.task import Indices

MIXED = 4  # batches that are drawn together and then sorted by length
VALIDATED = 8192  # words that are read at once in validation


class AnswerTask(ByLength):
    """See `harken.training.task.Task`."""

    monitor = "chance"  # of the right answer: unlike accuracy it tells two models apart that make the same mistakes
    mode = "max"

    def __init__(
        self,
        recipe: AnswerRecipe,
        train: Sequence[Question],
        valid: Sequence[Question],
        model: Answerer,
        tokenizer: Tokenizer,
        answers: Answers,
    ) -> None:
        self.model, self.settings, self.answers, self.tokenizer = model, recipe.train, answers, tokenizer
        self.train_ids = QuestionIds(train, tokenizer, recipe.model.max_facts)
        self.valid_ids = QuestionIds(valid, tokenizer, recipe.model.max_facts)
        self.lengths = self.train_ids.lengths
        self.valid_answers = [one.answer for one in valid]
        self.wanted = wanted_of(train, answers, tokenizer)
        self.valid_wanted = wanted_of(valid, answers, tokenizer)
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
        return [batches[place] for place in random.permutation(len(batches))]

    def size(self, examples: Indices) -> int:
        """Questions."""
        return len(examples)

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the questions."""
        found = self._answer(self.train_ids, examples)
        wanted = self.wanted[examples].to(found.scores.device)
        return self.model.loss(found, wanted, self.settings.label_smoothing)

    def validate(self, part: int, parts: int) -> Any:
        """Loss and right answers of the part's questions."""
        loss, chance, right, count = 0.0, 0.0, 0, 0
        for rows in rows_of_part(self.valid_ids.lengths, part, parts, VALIDATED):
            found = self._answer(self.valid_ids, rows)
            known = self.valid_wanted[rows].to(found.scores.device)
            answered = known >= 0 if known.ndim == 1 else torch.ones(len(rows), dtype=torch.bool)
            if answered.any():
                some = Found(found.scores[answered], found.attention)
                loss += float(self.model.loss(some, known[answered]))
                chance += float(self.model.probabilities(some, known[answered]).sum())
            texts, _ = texts_of_scores(found.scores, self.answers, self.tokenizer)
            right += sum(
                same(text, self.valid_answers[row], self.answers.kind) for text, row in zip(texts, rows, strict=True)
            )
            count += len(rows)
        return {"loss": loss, "chance": chance, "accuracy": right, "count": count}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss of a question, mean chance of its right answer, and accuracy."""
        count = sum(result["count"] for result in results)
        return {name: sum(result[name] for result in results) / count for name in ("loss", "chance", "accuracy")}

    def _answer(self, ids: QuestionIds, rows: Indices) -> Found:
        device = next(self.model.parameters()).device
        found: Found = self.model(*(tensor.to(device) for tensor in ids.batch(rows)))
        return found


def wanted_of(questions: Sequence[Question], answers: Answers, tokenizer: Tokenizer) -> Tensor:
    """(B,) ids, -1 where an answer is not known; or (B, A) of 0 and 1 for sets."""
    if answers.kind == "pointer":
        ids = [tokenizer.encode(words_of(one.answer)) for one in questions]
        return torch.tensor([row[0] if len(row) == 1 else -1 for row in ids], dtype=torch.int64)
    known = [answers.wanted(one.answer) for one in questions]
    if answers.kind == "set":
        wanted = torch.zeros(len(known), len(answers.texts))
        for row, found in enumerate(known):
            wanted[row, found] = 1.0
        return wanted
    return torch.tensor([row[0] if row else -1 for row in known], dtype=torch.int64)


def texts_of_scores(scores: Tensor, answers: Answers, tokenizer: Tokenizer) -> tuple[list[str], np.ndarray]:
    """The best answers as text and their chances (B,)."""
    if answers.kind == "set":
        chances = torch.sigmoid(scores.float())
        some = (chances >= 0.5) | (chances == chances.amax(1, keepdim=True))  # at least the best of them
        texts = [BETWEEN.join(answers.texts[place] for place in np.flatnonzero(row)) for row in some.cpu().numpy()]
        sure = torch.where(some, chances, 1 - chances).prod(1)
        return texts, sure.detach().cpu().numpy()
    chances, best = torch.softmax(scores.float(), -1).max(-1)
    if answers.kind == "pointer":
        texts = [tokenizer.decode([place]) for place in best.tolist()]
    else:
        texts = [answers.texts[place] for place in best.tolist()]
    return texts, chances.detach().cpu().numpy()


def same(text: str, answer: str, kind: str) -> bool:
    """Whether an answer is right; in a set the order does not count."""
    found, wanted = text.lower(), answer.lower()
    return sorted(found.split(BETWEEN)) == sorted(wanted.split(BETWEEN)) if kind == "set" else found == wanted


def refuse_unseen(questions: Sequence[Question], max_facts: int) -> None:
    """A pointer can only point at words that are there.

    Raises:
        UserError: how many answers are no word of their facts.
    """
    missing = [
        one
        for one in questions
        if words_of(one.answer) not in " ".join(words_of(fact) for fact in one.facts[-max_facts:]).split()
    ]
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(questions):,} answers are no word of their facts (the first: "
            f'"{missing[0].answer}" to "{missing[0].question}"); set model.output = "classes"'
        )
