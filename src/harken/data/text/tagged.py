"""Sentences with a tag for every word, read from the files people have.

    .conllu          Universal Dependencies: ten columns; `upos`, `xpos`, `deprel` ... by name; ids with - or . skipped
    other text       CoNLL columns: a word and its tag a line, a blank line between sentences
    .jsonl           {"tokens": [...], "tags": [...]} a line; .json and .parquet likewise

All plain or compressed. Word and tag stand in the first and the last column where nothing else is said.

>>> lines = ["the\\tO", "Eiffel\\tB-location", "Tower\\tI-location", "", "rain\\tO"]
>>> [sentence.tags for sentence in parse_columns(lines, "example", 0, -1)]
[('O', 'B-location', 'I-location'), ('O',)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from harken.data.io.files import ending, read_lines
from harken.data.io.table import has_lists, read_table, table_rows
from harken.errors import UserError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
FORMATS = ("conllu", "conll", "jsonl")
Column = int | str | None


class Tagged(NamedTuple):
    """One sentence."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: str | Path, form: str = "auto", word: Column = None, tag: Column = None) -> list[Tagged]:
    """All sentences of a file; see `iterate_tagged`."""
    return list(iterate_tagged(path, form, word, tag))


def iterate_tagged(path: str | Path, form: str = "auto", word: Column = None, tag: Column = None) -> Iterator[Tagged]:
    """The sentences of a file, one by one; `word` and `tag` name or number the columns, in the manner of the format.

    Raises:
        UserError: a file that cannot be read, a broken line, no such column, or no sentence.
    """
    path = Path(path)
    form = format_of(path) if form == "auto" else form
    if form == "jsonl":
        sentences = _from_table(path, "tokens" if word is None else str(word), "tags" if tag is None else str(tag))
    elif form == "conllu":
        columns = (
            _conllu_column(path, "form" if word is None else word),
            _conllu_column(path, "upos" if tag is None else tag),
        )
        sentences = parse_columns(_words_alone(path), str(path), *columns, separator="\t")
    else:
        columns = _number(path, word, 0), _number(path, tag, -1)
        sentences = parse_columns(read_lines(path), str(path), *columns)
    first = next(sentences, None)
    if first is None:
        raise UserError(f"{path} holds no sentence; give a file with at least one word and its tag")
    yield first
    yield from sentences


def read_words(path: str | Path, form: str, word: Column = None) -> Iterator[list[str]]:
    """The words of every sentence of a file that may lack the tags.

    Raises:
        UserError: a file that cannot be read, a broken line, or no such column.
    """
    path = Path(path)
    if form == "jsonl":
        for sentence in read_table(path, ["tokens" if word is None else str(word)]).popitem()[1]:
            yield list(as_tagged([sentence], [sentence], str(path))[0].words) if sentence else []
        return
    if form == "conllu":
        index, lines, separator = _conllu_column(path, "form" if word is None else word), _words_alone(path), "\t"
    else:
        index, lines, separator = _number(path, word, 0), read_lines(path), None
    for sentence in parse_columns(lines, str(path), index, index, separator):
        yield list(sentence.words)


def format_of(path: Path) -> str:
    """The format of a file by its ending, without .gz or .xz."""
    return "conllu" if ending(path) == ".conllu" else "jsonl" if has_lists(path) else "conll"


def parse_columns(
    lines: Iterable[str], name: str, word: int, tag: int, separator: str | None = None
) -> Iterator[Tagged]:
    """Sentences out of lines; `name` is what errors call the file. Columns are cut at tabs, or else at spaces.

    Raises:
        UserError: a line with too few columns, or an empty word or tag.
    """
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            if words:
                yield Tagged(tuple(words), tuple(tags))
                words, tags = [], []
            continue
        if line == SKIPPED or line.startswith(DOCUMENT):
            continue
        cells = line.split(separator or ("\t" if "\t" in line else None))
        required = max(word, tag) + 1 if tag >= 0 else max(2, word + 1)
        if len(cells) < required:
            columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
            raise UserError(
                f"{name}, line {number} has {columns} where {required} are wanted ({line.strip()[:40]!r}); write a "
                "word, a tab and its tag, and a blank line between sentences"
            )
        chosen, label = cells[word].strip(), cells[tag].strip()
        if not chosen or not label:
            raise UserError(f"{name}, line {number} has an empty {'tag' if chosen else 'word'}; fill it in")
        words.append(chosen)
        tags.append(label)
    if words:
        yield Tagged(tuple(words), tuple(tags))


DOCUMENT = "-DOCSTART-"  # begins a document in CoNLL-2003, and is no word
SKIPPED = "\t#"  # stands for a line that is no word, so that the others keep their numbers


def _words_alone(path: Path) -> Iterator[str]:
    """CoNLL-U without comments, and without the lines of joined (3-4) and silent (5.1) words."""
    for line in read_lines(path):
        first = line.split("\t", 1)[0]
        yield SKIPPED if line.startswith("#") or ("\t" in line and ("-" in first or "." in first)) else line


def _conllu_column(path: Path, column: int | str) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(CONLLU):
            raise UserError(f"{path} has 10 columns, numbered from 0, so there is no column {column}")
        return column
    if column.lower() not in CONLLU:
        near = get_close_matches(column.lower(), CONLLU, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(CONLLU)}"
        raise UserError(f"{path} is CoNLL-U, which has no column {column!r}; {hint}")
    return CONLLU.index(column.lower())


def _number(path: Path, column: Column, default: int) -> int:
    if column is None:
        return default
    if isinstance(column, str):
        raise UserError(f"{path} has columns without names, so {column!r} is none of them; give a number from 0")
    return column


def _from_table(path: Path, word: str, tag: str) -> Iterator[Tagged]:
    _, rows = table_rows(path, [word, tag])
    for number, (words, tags) in enumerate(rows, start=1):
        sentence = _tagged(words, tags, str(path), number)
        if sentence.words:
            yield sentence


def as_tagged(sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]], name: str) -> list[Tagged]:
    """Lists of words and lists of tags as sentences; empty ones are left out.

    Raises:
        UserError: lists of different lengths, or something that is no list of texts.
    """
    if len(sentences) != len(tags):
        raise UserError(f"{name} has {len(sentences)} sentences but tags for {len(tags)}; give one list of tags each")
    numbered = enumerate(zip(sentences, tags, strict=True), start=1)
    tagged = [_tagged(words, labels, name, number) for number, (words, labels) in numbered]
    return [sentence for sentence in tagged if sentence.words]


def _tagged(words: Sequence[str], labels: Sequence[str], name: str, number: int) -> Tagged:
    if isinstance(words, str) or isinstance(labels, str) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{name}, sentence {number} is no list of words with a list of tags; split it into words")
    if len(words) != len(labels):
        raise UserError(
            f"{name}, sentence {number} has {len(words)} words but {len(labels)} tags; give one tag for each word"
        )
    if any(label is None or not str(label).strip() for label in labels):
        raise UserError(f"{name}, sentence {number} has a word without a tag; give one tag for each word")
    return Tagged(tuple(words), tuple(str(label) for label in labels))
