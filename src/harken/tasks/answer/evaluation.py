"""How good an answerer is: right answers with their interval, each task for itself, and whether it looked rightly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harken.data.text.questions import Question
from harken.metrics.interval import bootstrap
from harken.tasks.answer.answer import Answer
from harken.tasks.answer.answerer import Answerer
from harken.tasks.answer.task import same
from harken.tasks.scores import Metric, Scores

PICTURES = 4  # questions that are drawn: wrong ones first


def evaluate(model: Answerer, questions: Sequence[Question], progress: Callable[[int], None]) -> Scores:
    """Accuracy of all and of every task; the share of questions whose needed facts got the most attention."""
    answers = model.answer_all(questions, progress)
    right = [same(found.text, one.answer, model.answers.kind) for found, one in zip(answers, questions, strict=True)]
    metrics = [Metric.of("accuracy", bootstrap(right), "share of questions that are answered rightly")]
    tasks = list(dict.fromkeys(one.task for one in questions))
    for task in tasks if len(tasks) > 1 else []:
        part = [hit for hit, one in zip(right, questions, strict=True) if one.task == task]
        metrics.append(Metric.of(f"accuracy {task}", bootstrap(part), f"{len(part):,} questions"))
    looked = [supported(found, one) for found, one in zip(answers, questions, strict=True) if one.supporting]
    if looked:
        note = "share of questions whose needed facts got the most attention of any hop"
        metrics.append(Metric.of("supporting facts", bootstrap(looked), note))
    order = sorted(range(len(answers)), key=lambda row: right[row])[:PICTURES]
    pictures = {f"question-{row + 1}": answers[row].map(questions[row].supporting) for row in order}
    wrong = [
        {"question": one.question, "answer": found.text, "wanted": one.answer, "task": one.task}
        for found, one, hit in zip(answers, questions, right, strict=True)
        if not hit
    ]
    return Scores(len(questions), "questions", metrics, dict(pictures), {"wrong": wrong})


def supported(found: Answer, one: Question) -> bool:
    """Whether as many facts as are needed, those with the most attention, are the needed ones."""
    needed = sorted(set(one.supporting or ()))
    return found.best_facts(len(needed)) == needed
