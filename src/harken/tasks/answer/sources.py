"""The questions that a recipe's `[data]` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.files import read_lines, require_file
from harken.data.io.table import has_lists, read_table, table_rows
from harken.data.parts import divide, file_digests, folder_for, read_parts
from harken.data.prepared.scan import RowKind
from harken.data.splits import held_out_sizes, normalise
from harken.data.synthetic.stories import load_stories
from harken.data.text.babi import iterate_babi, parse_stories, read_babi
from harken.data.text.locations import as_list
from harken.data.text.questions import Question, Questions
from harken.errors import UserError
from harken.paths import Files
from harken.tasks.answer.recipe import AnswerDataConfig


def read_questions(data: AnswerDataConfig) -> Questions:
    """Every split; a story is never in two of them.

    Raises:
        UserError: what cannot be read, or leaves nothing to train or to validate on.
    """
    if data.corpus:
        corpus = load_stories(seed=data.seed, **({} if data.size is None else {"train": data.size}))
        return Questions(data.name or corpus.name, corpus.train, corpus.valid, corpus.tests)
    if data.dir and not Path(data.dir).exists():
        raise UserError(f"data.dir {data.dir} was not found; give the archive of the bAbI tasks, or their folder")
    name, paths, read = _origin(data)
    given = {part: read_files(files, data) for part, files in (("valid", data.valid), ("test", data.test)) if files}
    if data.dir:
        folder = "en" if data.folder == "en-10k" else data.folder
        given["test"] = read_babi(Path(data.dir), folder, data.tasks, "test")
    reading = data.model_dump(
        include={"folder", "tasks", "facts_column", "question_column", "answer_column", "supporting_column"}
    )
    parts = read_parts(
        QUESTIONS,
        lambda skipped: read(),
        held_out_sizes(data, given),
        data.seed,
        [*chain(*given.values())],
        folder=folder_for(data.prepared, paths),
        name=name,
        contents=[file_digests(paths), reading],
    )
    held = given | parts.held
    return Questions(name, parts.train, held.pop("valid"), held, parts.skipped)


def questions_of_table(data: AnswerDataConfig, table: Mapping[str, list[Any]]) -> Questions:
    """Questions out of a table in memory: a list of sentences, a question and its answer a row.

    Raises:
        UserError: a column that is not there, or facts that are no list.
    """
    columns = read_table(table, _columns(data))
    asked = list(_questions(zip(*columns.values(), strict=True), data, "the table"))
    parts = divide(QUESTIONS, asked, held_out_sizes(data, []), data.seed, [])
    return Questions(data.name or "table", parts.train, parts.held.pop("valid"), dict(parts.held), parts.skipped)


def _origin(data: AnswerDataConfig) -> tuple[str, list[Path], Callable[[], Iterator[Question]]]:
    """The name of the data, the files (or the folder) to train on, and what reads them."""
    if data.dir:
        folder = Path(data.dir)
        numbers = ",".join(map(str, data.tasks)) or "all"
        return data.name or f"babi {numbers}", [folder], lambda: iterate_babi(folder, data.folder, data.tasks, "train")
    paths = [Path(path) for path in as_list(data.train)]
    return data.name or paths[0].name.split(".")[0], paths, lambda: iterate_files(data.train or [], data)


def _question(
    facts: Sequence[str], question: str, answer: str, supporting: Sequence[int] | None, task: str
) -> Question:
    return Question(tuple(facts), question, answer, None if supporting is None else tuple(supporting), task)


def question_key(asked: Question) -> str:
    """Facts and question."""
    return normalise("\n".join([*asked.facts, asked.question]))


def read_files(files: Files, data: AnswerDataConfig) -> list[Question]:
    """All questions of some files, each with its answer."""
    return list(iterate_files(files, data))


def iterate_files(files: Files, data: AnswerDataConfig) -> Iterator[Question]:
    """The same, one by one."""
    questions = (asked for path in as_list(files) for asked in read_file(Path(path), data))
    first = next(questions, None)
    if first is None:
        raise UserError(f"{files} holds no question; write a question, a tab and its answer after the sentences")
    yield first
    yield from questions


def read_file(path: Path, data: AnswerDataConfig) -> Iterator[Question]:
    """A table by its columns, anything else as bAbI writes stories."""
    if not has_lists(path):
        yield from parse_stories(read_lines(require_file(path)), str(path))
        return
    yield from _questions(table_rows(path, _columns(data))[1], data, str(path))


def _columns(data: AnswerDataConfig) -> list[str]:
    columns = [data.facts_column, data.question_column, data.answer_column]
    return [*columns, data.supporting_column] if data.supporting_column else columns


def _questions(rows: Iterable[Sequence[Any]], data: AnswerDataConfig, where: str) -> Iterator[Question]:
    for number, (facts, question, answer, *needed) in enumerate(rows, start=1):
        if not isinstance(facts, list | tuple) or not all(isinstance(sentence, str) for sentence in facts):
            raise UserError(
                f"{where}, object {number}: {data.facts_column!r} is no list of sentences; "
                f'write {{"{data.facts_column}": ["Mary went home.", ...]}}'
            )
        supporting = tuple(needed[0]) if needed and needed[0] is not None else None
        yield Question(tuple(facts), str(question), str(answer), supporting)


def with_stories(asked: Iterable[Question]) -> Iterator[tuple[Question, str]]:
    """Questions with the first facts of their story. A story is a run of questions whose facts grow."""
    last, key = None, ""
    for question in asked:
        if last is None or not _continues(last, question):
            key = normalise(" ".join([question.task, *question.facts]))
        last = question
        yield question, key


def _continues(last: Question, question: Question) -> bool:
    """Whether a question is of the same story as the one before it."""
    return bool(last.facts) and last.task == question.task and question.facts[: len(last.facts)] == last.facts


QUESTIONS = RowKind("questions", _question, question_key, with_stories)
