r"""Texts with labels out of files: tables, lines that begin with their label, and a file for each class.

    table     columns of a table (`harken.data.io.table`); several columns of text are joined
    prefix    label, space or tab, text: `__label__good what a film`, `DESC:manner How did ...`
    folder    Arabic.txt, Greek.txt ...: a text a line, its label is the name of the file
    trees     bracketed trees with a label on every phrase, as the Stanford Sentiment Treebank (Socher et al., 2013)

>>> first_word("__label__good what a film"), first_word("1\twhat a film")
(('good', 'what a film'), ('1', 'what a film'))

>>> phrases_of("(3 (2 It) (4 (2 's) (4 lovely)))")
[("It 's lovely", '3'), ('It', '2'), ("'s lovely", '4'), ("'s", '2'), ('lovely', '4')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harken.data.io.files import read_lines
from harken.data.io.table import CELL_BYTES, is_table, table_rows
from harken.data.text.examples import Example, Labelled
from harken.data.text.examples_config import ExamplesConfig
from harken.data.tokenizers.case_marks import marked
from harken.errors import UserError

PIECES = re.compile(r"\(\s*(\S+)\s|\)|([^\s()]+)")
SIGNS = {"-LRB-": "(", "-RRB-": ")"}


def phrases_of(tree: str) -> list[tuple[str, str]]:
    """(text, label) of the sentence and of every phrase and word in it.

    Raises:
        ValueError: brackets that do not close.
    """
    phrases: list[tuple[str, str]] = []
    open_phrases: list[tuple[int, int]] = []  # index in `phrases`, first word
    words: list[str] = []
    for piece in PIECES.finditer(tree):
        label, word = piece.groups()
        if label is not None:
            open_phrases.append((len(phrases), len(words)))
            phrases.append(("", label))
        elif word is not None:
            words.append(SIGNS.get(word, word).replace("\\/", "/"))
        elif not open_phrases:
            raise ValueError("a bracket closes that was not opened")
        else:
            index, first = open_phrases.pop()
            phrases[index] = (" ".join(words[first:]), phrases[index][1])
    if open_phrases or not phrases:
        raise ValueError("a bracket is not closed" if open_phrases else "there is no bracket")
    return phrases


def read_trees(path: Path) -> Iterator[Example]:
    """A tree a line; its phrases are parts of its sentence and stay with it when a split is drawn."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            phrases = phrases_of(line)
        except ValueError as problem:
            raise UserError(f"{path}, line {number} is no bracketed tree ({problem}); fix or remove it") from None
        for index, (text, label) in enumerate(phrases):
            yield Example(text, label, group=phrases[0][0], part=index > 0)


MARK = "__label__"  # fastText's
TAG = re.compile(r"<[^<>]{1,200}>")


def read_texts(path: Path, data: ExamplesConfig, form: str | None = None) -> Labelled:
    """All texts of one file or folder; see `iterate_texts`."""
    return Labelled.of(iterate_texts(path, data, form))


def iterate_texts(path: Path, data: ExamplesConfig, form: str | None = None) -> Iterator[Example]:
    """The texts of one file or folder, with their labels as the file has them; `form` overrides `format_of`.

    Raises:
        UserError: what cannot be read, where, and what to do.
    """
    form = form or format_of(path, data)
    if form == "trees":
        return read_trees(path)
    return READERS[form](path, data)


def format_of(path: Path, data: ExamplesConfig) -> str:
    """The format by `data.format`, or by the name of the file where that is auto."""
    if data.format != "auto":
        return data.format
    if path.is_dir():
        return "folder"
    return "table" if is_table(path) else "prefix"


def cleaned(text: str, data: ExamplesConfig) -> str:
    """The text as a model is to read it, in training and after."""
    if data.drop_tags:
        text = " ".join(TAG.sub(" ", text).split())
    if data.lowercase == "mark":
        return marked(text)
    return text.lower() if data.lowercase else text


def first_word(line: str) -> tuple[str, str]:
    """(label, text) of a line that begins with its label."""
    label, _, text = line.strip().partition("\t") if "\t" in line.strip() else line.strip().partition(" ")
    return label.removeprefix(MARK), text.strip()


def _table(path: Path, data: ExamplesConfig) -> Iterator[Example]:
    columns = [*text_columns(data), data.label_column]
    _, rows = table_rows(path, columns, header=data.header, quotes=data.quotes, encoding=data.encoding)
    return table_examples(rows)


def table_examples(rows: Iterable[Sequence[Any]]) -> Iterator[Example]:
    """The examples of rows of a table: cells of text, which are joined, and the label."""
    for *texts, label in rows:
        yield Example(" ".join(map(_cell, texts)), _cell(label).strip())


def text_columns(data: ExamplesConfig) -> list[str]:
    """The columns that are joined to a text."""
    return [data.text_column] if isinstance(data.text_column, str) else list(data.text_column)


def _cell(value: Any) -> str:
    """A cell as text; one that holds nothing (null in JSON, NaN in a data frame) is empty."""
    return "" if value is None or value != value else str(value)


def _prefix(path: Path, data: ExamplesConfig) -> Iterator[Example]:
    for number, line in enumerate(read_lines(path, CELL_BYTES, encoding=data.encoding), start=1):
        if not line.strip():
            continue
        label, text = first_word(line) if not line.startswith("\t") else ("", line.strip())
        if not text:
            raise UserError(
                f"{path}, line {number} has the one word {label!r}; write the label, a space or tab, and the text, "
                "or say which data.format it is"
            )
        yield Example(text, label)


def _folder(path: Path, data: ExamplesConfig) -> Iterator[Example]:
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not path.is_dir() or not files:
        raise UserError(f"{path} is no folder with a text file for each class; name one, or set data.format")
    for file in files:
        label = file.name.partition(".")[0]
        lines = read_lines(file, CELL_BYTES, encoding=data.encoding)
        yield from (Example(line.strip(), label) for line in lines if line.strip())


READERS: dict[str, Callable[[Path, ExamplesConfig], Iterator[Example]]] = {
    "table": _table,
    "prefix": _prefix,
    "folder": _folder,
}
FORMATS = (*READERS, "trees")
