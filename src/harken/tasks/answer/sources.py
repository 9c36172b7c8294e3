"""The questions that a recipe's `[data]` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.files import read_lines, require_file
from harken.data.io.table import is_jsonl, table_rows
from harken.data.prepared.examples import ExampleKind, StoredExamples, examples_folder, file_digests
from harken.data.prepared.stream import StreamedRows
from harken.data.splits import group_position, normalise, split_groups, without_held_out
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
        made = load_stories(seed=data.seed, **({} if data.size is None else {"train": data.size}))
        return Questions(data.name or made.name, made.train, made.valid, made.tests)
    if data.dir and not Path(data.dir).exists():
        raise UserError(f"data.dir {data.dir} was not found; give the archive of the bAbI tasks, or their folder")
    name, paths, read = _origin(data)
    valid = read_files(data.valid, data) if data.valid else None
    tests = {"test": read_files(data.test, data)} if data.test else {}
    if data.dir:
        tests["test"] = [
            *read_babi(Path(data.dir), "en" if data.folder == "en-10k" else data.folder, data.tasks, "test")
        ]
    folder = examples_folder(data.prepared, paths)
    if folder is not None:
        return _stream(data, name, paths, read, valid, tests, folder)
    train = [*read()]
    if valid is None:
        valid, train = split_stories(train, data.valid_size, data.seed)
    return _drop_held_out(Questions(name, train, valid, dict(tests)))


def _origin(data: AnswerDataConfig) -> tuple[str, list[Path], Callable[[], Iterator[Question]]]:
    """The name of the data, the files (or the folder) to train on, and what reads them."""
    if data.dir:
        place = Path(data.dir)
        numbers = ",".join(map(str, data.tasks)) or "all"
        return data.name or f"babi {numbers}", [place], lambda: iterate_babi(place, data.folder, data.tasks, "train")
    paths = [Path(path) for path in as_list(data.train)]
    return data.name or paths[0].name.split(".")[0], paths, lambda: iterate_files(data.train or [], data)


def _stream(
    data: AnswerDataConfig,
    name: str,
    paths: Sequence[Path],
    read: Callable[[], Iterator[Question]],
    valid: list[Question] | None,
    tests: dict[str, list[Question]],
    folder: Path,
) -> Questions:
    """As `read_questions`, with training questions that are not in memory (`harken.data.prepared`)."""
    reading = data.model_dump(
        include={"folder", "tasks", "facts_column", "question_column", "answer_column", "supporting_column", "seed"}
    )
    kind = ExampleKind("questions", _question, question_key, group=len(fields(Question)))
    stored = StoredExamples(
        folder, name, kind, [file_digests(paths), reading], lambda skipped: _rows(read(), data.seed)
    )
    sizes = {"valid": data.valid_size} if valid is None else {}
    stream = stored.divide(sizes, data.seed, [*chain(valid or [], *tests.values())])
    valid = stream.held_out("valid") if valid is None else valid
    return Questions(name, StreamedRows(stream, "train"), valid, dict(tests), stream.skipped)


def _rows(asked: Iterable[Question], seed: int) -> Iterator[Sequence[Any]]:
    """The fields of every question, and where the group of its story lies (`harken.data.splits`)."""
    last, position = None, 0
    for one in asked:
        if last is None or not _continues(last, one):
            position = group_position(seed, _story_key(one))
        last = one
        yield [one.facts, one.question, one.answer, one.supporting, one.task, position]


def _question(
    facts: list[str], question: str, answer: str, supporting: list[int] | None, task: str, position: int
) -> Question:
    return Question(tuple(facts), question, answer, None if supporting is None else tuple(supporting), task)


def _drop_held_out(asked: Questions) -> Questions:
    """Leave training questions out that are asked of the same facts in the validation or the test."""
    asked.train, asked.skipped = without_held_out(asked.train, [asked.valid, *asked.tests.values()], question_key)
    return asked


def question_key(asked: Question) -> str:
    """Facts and question."""
    return normalise("\n".join([*asked.facts, asked.question]))


def read_files(files: Files, data: AnswerDataConfig) -> list[Question]:
    """All questions of some files, each with its answer."""
    return list(iterate_files(files, data))


def iterate_files(files: Files, data: AnswerDataConfig) -> Iterator[Question]:
    """The same, one by one."""
    found = (asked for path in as_list(files) for asked in read_file(Path(path), data))
    first = next(found, None)
    if first is None:
        raise UserError(f"{files} holds no question; write a question, a tab and its answer after the sentences")
    yield first
    yield from found


def read_file(path: Path, data: AnswerDataConfig) -> Iterator[Question]:
    """A JSONL file by its columns, anything else as bAbI writes stories."""
    if not is_jsonl(path):
        yield from parse_stories(read_lines(require_file(path)), str(path))
        return
    columns = [data.facts_column, data.question_column, data.answer_column]
    _, rows = table_rows(path, [*columns, *([data.supporting_column] if data.supporting_column else [])])
    for number, (told, question, answer, *needed) in enumerate(rows, start=1):
        if not isinstance(told, list) or not all(isinstance(sentence, str) for sentence in told):
            raise UserError(
                f"{path}, object {number}: {data.facts_column!r} is no list of sentences; "
                f'write {{"{data.facts_column}": ["Mary went home.", ...]}}'
            )
        supporting = tuple(needed[0]) if needed and needed[0] is not None else None
        yield Question(tuple(told), str(question), str(answer), supporting)


def split_stories(asked: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """(held out, rest): whole stories, known by their first facts. A story is a run of questions whose facts grow."""
    stories: list[list[Question]] = []
    for one in asked:
        if stories and _continues(stories[-1][-1], one):
            stories[-1].append(one)
        else:
            stories.append([one])
    keys = [_story_key(story[0]) for story in stories]
    if len(set(keys)) == 1:
        raise UserError(
            "the training questions are all of one story, so that none is left to train on; give data.valid"
        )
    parts = split_groups(keys, {"valid": share}, seed)
    held, rest = ([one for place in parts[name] for one in stories[place]] for name in ("valid", "train"))
    return held, rest


def _continues(last: Question, one: Question) -> bool:
    """Whether a question is of the same story as the one before it."""
    return bool(last.facts) and last.task == one.task and one.facts[: len(last.facts)] == last.facts


def _story_key(first: Question) -> str:
    return normalise(" ".join([first.task, *first.facts]))
