"""A trained answerer: the model folder as an object.

model = harken.load("runs/answer")
model.answer(["Anna went to the garden.", "Ben slept."], "Where is Anna?").text    # 'garden'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from harken.data.text.questions import Question, QuestionIds, example_of, words_of
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import UNK
from harken.errors import UserError
from harken.inspection.measures.gates import axis_pieces
from harken.models.answering.model import Answerer as Network
from harken.tasks.answer.recipe import AnswerRecipe
from harken.tasks.answer.task import ANSWERS, FILE, AnswerIds, Answers, texts_of_scores
from harken.tasks.artifacts import TokenizerArtifact, damaged
from harken.tasks.inspected import InspectedBatch, label_batch
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.results import Result
from harken.tasks.sequence_task import length_batches
from harken.training.task import to_device

if TYPE_CHECKING:
    from harken.inspection import HopMap


@dataclass(frozen=True)
class Answer(Result):
    """The result of `Answerer.answer`.

    >>> answer = Answer("garden", 0.97, ("Mary went to the garden.",), "Where is Mary?", np.array([[0.99]]))
    >>> answer.best_facts(1)
    [0]
    """

    text: str
    score: float  # its probability
    facts: tuple[str, ...]
    question: str
    hops: np.ndarray  # (H, facts) the attention of every hop; 0 for facts too old to be read

    def best_facts(self, count: int) -> list[int]:
        """The facts that got the most attention of any hop, in the order of the story."""
        most = self.hops.max(0, initial=0.0)
        return sorted(np.argsort(-most, kind="stable")[:count].tolist())

    def map(self, supporting: Sequence[int] | None = None) -> HopMap:
        """A picture: facts down, hops across; `supporting` facts are marked."""
        from harken.inspection import HopMap

        return HopMap(self.facts, self.hops, self.question, self.text, supporting)

    def to_json(self, options: Any) -> dict[str, Any]:
        return self.to_dict()

    def __str__(self) -> str:
        return self.text

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": self.text, "value": self.score}]

    def to_dict(self) -> dict[str, Any]:
        """Convert the answer to values that JSON can hold."""
        return {
            "question": self.question,
            "answer": self.text,
            "score": round(self.score, 4),
            "facts": list(self.facts),
            "hops": [[round(float(weight), 4) for weight in hop] for hop in self.hops],
        }


TOKENIZER = TokenizerArtifact()
BATCH = 8192  # words read at once


class Answerer(Predictor[AnswerRecipe, Network]):
    """Model, words and answers of one folder; load it with `harken.load`."""

    tokenizer: Tokenizer
    answers: Answers
    parts = (("tokenizer", TOKENIZER), ("answers", ANSWERS))

    @staticmethod
    def build(recipe: AnswerRecipe, tokenizer: Tokenizer, answers: Answers) -> Network:
        """A network with new weights."""
        return Network(recipe.model, tokenizer.size, len(answers.texts))

    @classmethod
    def open(cls, folder: Path, recipe: AnswerRecipe, device: str) -> Self:
        if ANSWERS.load(folder).kind != recipe.model.output:
            raise damaged(folder / FILE)
        return super().open(folder, recipe, device)

    def answer(self, facts: Sequence[str], question: str) -> Answer:
        """The answer to one question about some sentences, oldest first.

        Raises:
            UserError: no facts, no question, or a question of unknown words alone.
        """
        if isinstance(facts, str):
            raise UserError("the facts are one text; give a list of sentences, oldest first")
        return self.answer_all([Question(tuple(facts), question)])[0]

    def answer_all(self, questions: Sequence[Question], progress: Progress | None = None) -> list[Answer]:
        """The answers to many questions, in their order.

        Raises:
            UserError: as `answer`, for the first that is wrong.
        """
        ids = self._read(questions)

        def run(indices: np.ndarray) -> Iterable[Answer]:
            scores, attention = self.model(*to_device(ids.batch(indices), self.device))
            texts, probabilities = texts_of_scores(scores, self.answers, self.tokenizer)
            weights = attention.float().cpu().numpy()  # (B, H, F)
            for row, index in enumerate(indices):
                question = questions[index]
                hops = np.zeros((weights.shape[1], len(question.facts)))
                count = min(len(question.facts), self.recipe.model.max_facts)
                hops[:, len(question.facts) - count :] = weights[row, :, :count]
                yield Answer(texts[row], float(probabilities[row]), question.facts, question.question, hops)

        return self.map(length_batches(ids.lengths, BATCH), lambda indices: list(run(indices)), progress)

    def batch(self, questions: Sequence[Question]) -> InspectedBatch:
        """Questions as the network reads them, for `harken.inspection`; without an answer that which it gives itself.

        Raises:
            UserError: as `answer`; or there is no question.
        """
        if not questions:
            raise UserError("there is no question to read; give at least one")
        inputs = to_device(self._read(questions).batch(np.arange(len(questions))), self.device)
        labels = AnswerIds(questions, self.answers, self.tokenizer).gather(np.arange(len(questions))).to(self.device)
        if labels.ndim == 2:  # a set: as shares of its members
            return label_batch(inputs, labels / labels.sum(1, keepdim=True).clamp(min=1))
        with torch.no_grad():
            own = self.model(*inputs).scores.argmax(-1)
        return label_batch(inputs, torch.where(labels < 0, own, labels))

    def reading(self, story: str) -> tuple[InspectedBatch, dict[str, list[str]], str]:
        """Read a story for `harken inspect --gates`: the fact it looks at most, and the question."""
        asked = example_of(story)
        answer = self.answer(asked.facts, asked.question)
        fact = asked.facts[int(answer.hops[-1].argmax())]
        steps = {
            f"hops.reader{called}": axis_pieces(self.tokenizer, self.tokenizer.encode(words_of(text)))
            for called, text in ((".layer call 2", asked.question), ("s.0.layer call 2", asked.question), ("", fact))
        }
        return self.batch([Question((fact,), asked.question)]), steps, f"{fact} {asked.question} → {answer.text}"

    def _read(self, questions: Sequence[Question]) -> QuestionIds:
        for question in questions:
            self._refuse(question)
        return QuestionIds(questions, self.tokenizer, self.recipe.model.max_facts)

    def _refuse(self, question: Question) -> None:
        if not any(words_of(fact) for fact in question.facts):
            raise UserError(f'there is no fact to answer "{question.question}" from; give at least one sentence')
        words = self.tokenizer.encode(words_of(question.question))
        if not words:
            raise UserError("the question is empty; give some words")
        if all(word == UNK for word in words):
            text = question.question
            raise UserError(f'the model knows no word of the question "{text}"; ask with words of its stories')
