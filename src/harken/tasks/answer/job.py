"""From a recipe for question answering to a run, and from a folder to an `Answerer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harken.data.splits import skipped_lines
from harken.data.text.questions import Question, example_of, texts_of
from harken.data.tokenizers.base import JOINT, load_tokenizer, train_tokenizer
from harken.errors import UserError
from harken.inspection import HopMap
from harken.models.answering.hops import EMBEDDING_STD
from harken.models.answering.model import Answerer as Network
from harken.models.sizing import measure
from harken.tasks.answer.answerer import Answerer
from harken.tasks.answer.answers import FILE, Answers
from harken.tasks.answer.check import FACTS, WORDS
from harken.tasks.answer.evaluation import evaluate
from harken.tasks.answer.recipe import AnswerRecipe
from harken.tasks.answer.sources import read_file, read_questions
from harken.tasks.answer.task import AnswerTask
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, words_of
from harken.tasks.scores import Scores


class AnswerJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken answer {} story.txt"
    example_input = "Anna went to the hall. Where is Anna?"

    def prepare(self, recipe: AnswerRecipe, folder: Path, resuming: bool) -> Prepared:
        asked = read_questions(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        if resuming:
            tokenizer, answers = load_tokenizer(folder, JOINT), Answers.load(folder)
        else:
            tokenizer = train_tokenizer("word", texts_of(asked.train), WORDS, recipe.train.seed)
            answers = Answers.learn((one.answer for one in asked.train), recipe.model.output)
            tokenizer.save(folder, JOINT)
            answers.save(folder)
        model, pretrained = (
            Network(recipe.model, tokenizer.size, len(answers.texts)),
            PretrainedEmbeddings(recipe, folder, resuming),
        )
        texts = texts_of(asked.train)
        pretrained.fill(model.hops.tables, words_of(tokenizer), texts, "model.width", spread=EMBEDDING_STD)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        count = f"{len(asked.train):,} training questions, {len(asked.valid):,} for validation"
        known = f"{tokenizer.size:,} words, {len(answers.texts):,} answers"
        return Prepared(
            AnswerTask(recipe, asked.train, asked.valid, model, tokenizer, answers),
            title=f"{asked.name}, {recipe.model.title}",
            facts={"data": f"{asked.name}: {count}", "vocabulary": known, **pretrained.facts},
            lines=[
                f"{asked.name}: {count}",
                f"{recipe.model.title}: {parameters:,} parameters, {known}",
                *pretrained.said,
                *skipped_lines(asked.skipped),
            ],
            flops_per_token=measure(model, FACTS, terms=1).flops,
        )

    def load(self, folder: Path, recipe: AnswerRecipe, device: str) -> Answerer:
        return Answerer.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((FILE, f"{JOINT}.json"))

    def evaluate(
        self, model: Answerer, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        data = model.recipe.data
        if files:
            asked = [one for path in files for one in read_file(path, data)]
            if not asked:
                raise UserError(f"{files[0]} holds no question; write a question, a tab and its answer")
            return evaluate(model, asked, progress)
        return evaluate(model, self._split(model, split or "test"), progress)

    def look(self, model: Answerer, example: str) -> HopMap:
        found = example_of(example)
        answer = model.answer(found.facts, found.question)
        return answer.map(found.supporting)

    def examples(self, model: Answerer, split: str) -> list[Any]:
        return list(self._split(model, split))

    def validation(self, best: dict[str, Any]) -> str:
        return f"accuracy {best.get('accuracy', float('nan')):.3f}, loss {best.get('loss', float('nan')):.4g}"

    def _split(self, model: Answerer, split: str) -> Sequence[Question]:
        known = read_questions(model.recipe.data)
        splits = {"valid": known.valid, **known.tests}
        if split not in splits:
            raise UserError(f"{known.name} has no split {split!r}; choose --split {' or '.join(splits)}, or give files")
        return splits[split]


JOB = AnswerJob()
