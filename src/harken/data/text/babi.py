"""The files of the bAbI tasks: stories with questions among the sentences. Weston et al. (2015).

    1 Mary moved to the bathroom.
    2 Where is Mary?        bathroom        1          tab, answer, tab, the lines that it needs

A number 1 begins a new story. The facts of a question are the sentences before it; questions are none of them. Files
are read as they are, from a folder, or out of the tar archive that they come in.

>>> story = ["1 Mary slept.", "2 Where is Mary?\\tbed\\t1", "3 Bill ran.", "4 Who ran?\\tBill\\t3"]
>>> [(asked.answer, asked.facts, asked.supporting) for asked in parse_stories(story, "example")]
[('bed', ('Mary slept.',), (0,)), ('Bill', ('Mary slept.', 'Bill ran.'), (1,))]
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harken.data.io.files import decode_lines, read_lines
from harken.data.text.questions import Question
from harken.errors import UserError

NAME = re.compile(r"qa(\d+)_(.+)_(train|test|valid)\.txt")


def parse_stories(lines: Iterable[str], where: str, task: str = "") -> Iterator[Question]:
    """The questions of a file.

    Raises:
        UserError: a line that is neither a sentence nor a question.
    """
    facts: dict[int, str] = {}  # line of the story -> sentence
    for place, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        number, _, text = line.strip().partition(" ")
        if not number.isdigit() or not text:
            raise UserError(f'{where}, line {place} does not begin with a number; write "1 Mary went home."')
        if number == "1":
            facts = {}
        sentence, *more = text.split("\t")
        if not more:
            facts[int(number)] = sentence.strip()
            continue
        order = {line: fact for fact, line in enumerate(facts)}
        lines_needed = [int(text) for text in more[1].split()] if len(more) > 1 and more[1].strip() else None
        if lines_needed and not set(lines_needed) <= set(order):
            raise UserError(f"{where}, line {place} says that it needs a line which is no sentence before it; fix it")
        needed = None if lines_needed is None else tuple(order[line_number] for line_number in lines_needed)
        yield Question(tuple(facts.values()), sentence.strip(), more[0].strip(), needed, task)


def read_babi(place: Path, folder: str, tasks: list[int], split: str) -> list[Question]:
    """All questions of some tasks; see `iterate_babi`."""
    return list(iterate_babi(place, folder, tasks, split))


def iterate_babi(place: Path, folder: str, tasks: list[int], split: str) -> Iterator[Question]:
    """The questions of some tasks (all where none is named), in the order of their numbers, one by one.

    Raises:
        UserError: no such archive, folder or task.
    """
    files = _in_archive(place, folder, split) if place.is_file() else _in_folder(place, folder, split)
    if not files:
        raise UserError(f"{place} holds no files like {folder}/qa1_NAME_{split}.txt; check data.dir and data.folder")
    for task in tasks:
        if task not in files:
            raise UserError(
                f"{place} has no {split} file of task {task}; there are {', '.join(map(str, sorted(files)))}"
            )
    chosen = tasks or sorted(files)
    for task in chosen:
        yield from parse_stories(*files[task], str(task))


def _in_folder(place: Path, folder: str, split: str) -> dict[int, tuple[Iterable[str], str]]:
    inside = place / folder if (place / folder).is_dir() else place
    files: dict[int, tuple[Iterable[str], str]] = {}
    for path in sorted(inside.glob(f"qa*_{split}.txt")):
        if named := NAME.fullmatch(path.name):
            files[int(named[1])] = read_lines(path), str(path)
    return files


def _in_archive(place: Path, folder: str, split: str) -> dict[int, tuple[Iterable[str], str]]:
    files: dict[int, tuple[Iterable[str], str]] = {}
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                path = Path(member.name)
                named = NAME.fullmatch(path.name)
                stream = archive.extractfile(member) if named and member.isfile() else None
                if named and stream and named[3] == split and path.parent.name == folder:
                    files[int(named[1])] = decode_lines(io.BytesIO(stream.read()), member.name), member.name
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UserError(
            f"{place} is no tar archive that can be read ({error}); give the archive, or a folder"
        ) from None
    return files
