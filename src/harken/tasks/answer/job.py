"""From a recipe for question answering to a run, and from a folder to an `Answerer`; how good it is on questions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harken.data.rows import rows_of
from harken.data.text.questions import DistinctSentences, Question, Questions, example_of
from harken.data.tokenizers.base import Tokenizer, train_tokenizer
from harken.inspection import HopMap
from harken.metrics.interval import bootstrap
from harken.models.answering.hops import EMBEDDING_STD
from harken.models.sizing import measure
from harken.tasks.answer.answerer import TOKENIZER, Answer, Answerer
from harken.tasks.answer.interface import INTERFACE, AnswerOptions
from harken.tasks.answer.recipe import AnswerRecipe
from harken.tasks.answer.sources import questions_of_table, read_files, read_questions
from harken.tasks.answer.task import ANSWERS, Answers, AnswerTask, same
from harken.tasks.artifacts import Artifact
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, words_of
from harken.tasks.scores import Metric, Scores

WORDS = 10_000  # the largest vocabulary
FACTS = 10  # of the question whose cost is measured
PICTURES = 4  # questions that are drawn: wrong ones first


class AnswerJob(Job):
    """See `harken.tasks.job`."""

    predictor = Answerer
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZER, ANSWERS)
    interface = INTERFACE

    def load_data(self, recipe: AnswerRecipe) -> Questions:
        return read_questions(recipe.data)

    def load_table(self, recipe: AnswerRecipe, table: dict[str, list[Any]]) -> Questions:
        return questions_of_table(recipe.data, table)

    def prepare_data(self, recipe: AnswerRecipe, asked: Questions, folder: Path, resuming: bool) -> Prepared:
        rows, texts = rows_of(asked.train), DistinctSentences(asked.train)

        def learn(_: Sequence[str]) -> Tokenizer:
            return train_tokenizer("word", texts, WORDS, recipe.train.seed)

        tokenizer = TOKENIZER.learn_or_load(folder, resuming, lambda: rows.cached_tokenizer(WORDS, learn))
        answers = ANSWERS.learn_or_load(
            folder, resuming, lambda: Answers.learn(answers_of(asked.train), recipe.model.output)
        )
        model = Answerer.build(recipe, tokenizer, answers)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.hops.tables, words_of(tokenizer), texts, "model.width", spread=EMBEDDING_STD)
        known = f"{tokenizer.size:,} words, {len(answers.texts):,} answers"
        summary = Summary(
            asked.name,
            recipe.model.title,
            len(asked.train),
            len(asked.valid),
            unit="questions",
            input_summary=known,
            skipped=asked.skipped,
            skipped_unit="training questions",
            facts={"vocabulary": known, **pretrained.facts},
            notes=pretrained.notes,
        )
        task = AnswerTask(recipe, asked.train, asked.valid, model, tokenizer, answers)
        return summary.prepared(task, measure(model, FACTS, terms=1).flops, asked)

    def read_files(
        self, model: Answerer, files: Sequence[Path], reading: FileReading
    ) -> tuple[list[Question], list[str]]:
        return read_files([str(path) for path in files], model.recipe.data), []

    def score(self, model: Answerer, examples: Sequence[Question], progress: Progress) -> Scores:
        """Accuracy of all and of every task; the share of questions whose needed facts got the most attention."""
        answers = model.answer_all(examples, progress)
        right = [
            same(answer.text, question.answer, model.answers.kind)
            for answer, question in zip(answers, examples, strict=True)
        ]
        metrics = [Metric.of("accuracy", bootstrap(right), "share of questions that are answered rightly")]
        tasks = list(dict.fromkeys(question.task for question in examples))
        for task in tasks if len(tasks) > 1 else []:
            part = [hit for hit, question in zip(right, examples, strict=True) if question.task == task]
            metrics.append(Metric.of(f"accuracy {task}", bootstrap(part), f"{len(part):,} questions"))
        looked = [
            supported(answer, question)
            for answer, question in zip(answers, examples, strict=True)
            if question.supporting
        ]
        if looked:
            note = "share of questions whose needed facts got the most attention of any hop"
            metrics.append(Metric.of("supporting facts", bootstrap(looked), note))
        order = sorted(range(len(answers)), key=lambda row: right[row])[:PICTURES]
        pictures = {f"question-{row + 1}": answers[row].map(examples[row].supporting) for row in order}
        wrong = [
            {"question": question.question, "answer": answer.text, "wanted": question.answer, "task": question.task}
            for answer, question, hit in zip(answers, examples, right, strict=True)
            if not hit
        ]
        outputs = [answer.text for answer in answers], [question.answer for question in examples]
        return Scores(len(examples), "questions", metrics, dict(pictures), {"wrong": wrong}, outputs=outputs)

    def predict(
        self, model: Answerer, examples: Sequence[Question], options: AnswerOptions, progress: Progress
    ) -> list[Answer]:
        return model.answer_all(examples, progress)

    def example_of(self, model: Answerer, text: str) -> Question:
        return example_of(super().example_of(model, text))

    def attention_figure(self, model: Answerer, example: str) -> HopMap:
        question = example_of(example)
        answer = model.answer(question.facts, question.question)
        return answer.map(question.supporting)

    def validation(self, best: dict[str, Any]) -> str:
        return f"accuracy {best.get('accuracy', float('nan')):.3f}, loss {best.get('loss', float('nan')):.4g}"


JOB = AnswerJob()


def answers_of(questions: Sequence[Question]) -> Iterable[str]:
    """The different answers of training questions."""
    rows = rows_of(questions)
    answers: list[str] = rows.cached(
        "answers", lambda: list(rows.counts(lambda columns: Counter(columns[2]), sys.maxsize))
    )
    return answers


def supported(answer: Answer, question: Question) -> bool:
    """Whether as many facts as are needed, those with the most attention, are the needed ones."""
    needed = sorted(set(question.supporting or ()))
    return answer.best_facts(len(needed)) == needed
