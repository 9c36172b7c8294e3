"""The questions that a recipe's `[data]` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harken.data.io.files import read_lines, require_file
from harken.data.io.table import is_jsonl, read_table
from harken.data.splits import normalise, split_groups, without_held_out
from harken.data.synthetic.stories import load_stories
from harken.data.text.babi import parse_stories, read_babi
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
    if data.dir:
        if not Path(data.dir).exists():
            raise UserError(f"data.dir {data.dir} was not found; give the archive of the bAbI tasks, or their folder")
        train = read_babi(Path(data.dir), data.folder, data.tasks, "train")
        test = read_babi(Path(data.dir), "en" if data.folder == "en-10k" else data.folder, data.tasks, "test")
        numbers = ",".join(map(str, data.tasks)) or "all"
        valid, train = split_stories(train, data.valid_size, data.seed)
        return _drop_held_out(Questions(data.name or f"babi {numbers}", train, valid, {"test": test}))
    train = read_files(data.train or [], data)
    tests = {"test": read_files(data.test, data)} if data.test else {}
    if data.valid:
        valid = read_files(data.valid, data)
    else:
        valid, train = split_stories(train, data.valid_size, data.seed)
    first = data.train if isinstance(data.train, str) else (data.train or [""])[0]
    return _drop_held_out(Questions(data.name or Path(first).name.split(".")[0], train, valid, dict(tests)))


def _drop_held_out(asked: Questions) -> Questions:
    """Leave training questions out that are asked of the same facts in the validation or the test."""
    asked.train, asked.skipped = without_held_out(asked.train, [asked.valid, *asked.tests.values()], question_key)
    return asked


def question_key(asked: Question) -> str:
    """Facts and question."""
    return normalise("\n".join([*asked.facts, asked.question]))


def read_files(files: Files, data: AnswerDataConfig) -> list[Question]:
    """All questions of some files, each with its answer."""
    found = [asked for path in ([files] if isinstance(files, str) else files) for asked in read_file(Path(path), data)]
    if not found:
        raise UserError(f"{files} holds no question; write a question, a tab and its answer after the sentences")
    return found


def read_file(path: Path, data: AnswerDataConfig) -> list[Question]:
    """A JSONL file by its columns, anything else as bAbI writes stories."""
    if not is_jsonl(path):
        return list(parse_stories(read_lines(require_file(path)), str(path)))
    columns = [data.facts_column, data.question_column, data.answer_column]
    table = read_table(path, [*columns, *([data.supporting_column] if data.supporting_column else [])])
    facts, questions, answers = (table[name] for name in columns)
    needed = table[data.supporting_column] if data.supporting_column else [None] * len(facts)
    found = []
    for number, (told, question, answer, fact) in enumerate(zip(facts, questions, answers, needed, strict=True), 1):
        if not isinstance(told, list) or not all(isinstance(sentence, str) for sentence in told):
            raise UserError(
                f"{path}, object {number}: {data.facts_column!r} is no list of sentences; "
                f'write {{"{data.facts_column}": ["Mary went home.", ...]}}'
            )
        found.append(Question(tuple(told), str(question), str(answer), None if fact is None else tuple(fact)))
    return found


def split_stories(asked: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """(held out, rest): whole stories, known by their first facts. A story is a run of questions whose facts grow."""
    stories: list[list[Question]] = []
    for one in asked:
        last = stories[-1][-1] if stories else None
        grows = last is not None and last.task == one.task and one.facts[: len(last.facts)] == last.facts
        if grows and last and last.facts:
            stories[-1].append(one)
        else:
            stories.append([one])
    keys = [normalise(" ".join([story[0].task, *story[0].facts])) for story in stories]
    if len(set(keys)) == 1:
        raise UserError(
            "the training questions are all of one story, so that none is left to train on; give data.valid"
        )
    parts = split_groups(keys, {"valid": share}, seed)
    held, rest = ([one for place in parts[name] for one in stories[place]] for name in ("valid", "train"))
    return held, rest
