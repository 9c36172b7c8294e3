r"""Inputs without their answers: the texts of a file, read as the data that a model was trained on.

    auto      by the name of the file (a table, .conllu), else as the training data where the first lines of
              the file look like it, else lines
    lines     one text a line, whatever is on it

Every function gives the inputs and a note on how the file is read, or None where every line is one.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "news.csv"
>>> _ = path.write_text('label,text\n1,"good, very good"\n')
>>> found = labelled_inputs(path, ExamplesConfig(), ["1", "2"])
>>> list(found.values), found.note
(['good, very good'], 'reading news.csv as a table: texts from the column text')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from harken.data.io.files import ending, read_lines
from harken.data.io.formats import Layout, format_of, read_column, read_pairs
from harken.data.io.table import has_lists, is_number, is_table, read_table
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import FORMATS, first_word, read_texts, text_columns
from harken.data.text.pairs import Pair
from harken.data.text.tagged import read_words
from harken.errors import UserError

LINES = "lines"
PAIR_TABLES = ("table", "tsv", "jsonl")
SAMPLED = 50  # lines at the start of a file that its format is told from
CONLL = (".conll", ".bio", ".iob", ".iob2")


class Inputs(NamedTuple):
    """The inputs of a file that a model is to answer."""

    values: Iterator[Any]
    note: str | None  # how it is read, where it is not a text a line


def labelled_inputs(
    path: Path, data: ExamplesConfig, labels: Collection[str], form: str = "auto", column: str | None = None
) -> Inputs:
    """The texts for a classifier or regressor.

    Args:
        data: the `[data]` table of its training.
        labels: those of its training files, which lines of the format `prefix` begin with; none where they are numbers.
        form: `auto`, `lines`, `table`, `prefix`, `folder` or `trees`.
        column: of a table, in the place of data.text.

    Raises:
        UserError: an unknown format, a file that cannot be read, a table without the column, or a cell without text.
    """
    data = configured(path, data)
    form = _chosen(form, (LINES, *FORMATS)) or ("table" if column is not None else _labelled_format(path, data, labels))
    if form == LINES:
        return Inputs(read_lines(path), None)
    if form == "table":
        columns = [column] if column is not None else text_columns(data)
        table = read_table(
            path,
            columns,
            header=data.header,
            quotes=data.quotes,
            encoding=data.encoding,
            remedy="name it with --text-column",
        )
        rows = zip(*(table[name] for name in columns), strict=True)
        named = f"texts from the column{'s' * (len(columns) > 1)} {' and '.join(columns)}"
        return Inputs(_texts(rows, path), f"reading {path.name} as a table: {named}")
    examples = read_texts(path, data, form).wholes()
    what = {"prefix": "the label is the first word of a line", "trees": "bracketed trees", "folder": "a file a class"}
    return Inputs(iter(examples.values), f"reading {path.name} as {form}: {what[form]}")


def configured(path: Path, data: ExamplesConfig) -> ExamplesConfig:
    """The `[data]` table as it is for this file: a file of data.valid or data.test has its own columns and labels."""
    for name in ("valid", "test"):
        split = getattr(data, name)
        if split is None:
            continue
        files = [split.files] if isinstance(split.files, str) else split.files
        if any(fnmatch(path.name, Path(file).name) for file in files):
            return data.split(name)
    return data


def trained_format(data: ExamplesConfig) -> str | None:
    """The format of the training files; None where the corpus is generated."""
    files = [data.train] if isinstance(data.train, str) else data.train
    if data.format != "auto" or not files:
        return None if data.format == "auto" else data.format
    return "folder" if Path(files[0]).is_dir() else "table" if is_table(files[0]) else "prefix"


def looks_like_trees(lines: Iterable[str]) -> bool:
    """Whether every line that is not blank is in brackets."""
    texts = [line.strip() for line in lines if line.strip()]
    return bool(texts) and all(text.startswith("(") and text.endswith(")") for text in texts)


def labelled_format(path: Path, data: ExamplesConfig) -> str:
    """The format of a file with labels: by its name, else the training data's where its first lines look like it."""
    trained = trained_format(data)
    if data.kind == "signal":
        return "arrays" if path.suffix in (".npz", ".npy") else data.format
    if path.is_dir():
        return "folder"
    if is_table(path):
        return "table"
    if trained in ("table", "prefix"):
        return trained
    return "trees" if looks_like_trees(head(path)) else "prefix"


def _labelled_format(path: Path, data: ExamplesConfig, labels: Collection[str]) -> str:
    if path.is_dir():
        return "folder"
    trained = trained_format(data)
    if is_table(path):
        return "table"
    if trained not in ("prefix", "trees", "table"):
        return LINES
    sample = head(path)
    if trained == "table":
        return "table" if has_tabs(sample) else LINES
    if trained == "trees" and looks_like_trees(sample):
        return "trees"
    pairs = [first_word(line) for line in sample]
    return "prefix" if pairs and all(text and _is_label(label, data, labels) for label, text in pairs) else LINES


def _is_label(word: str, data: ExamplesConfig, labels: Collection[str]) -> bool:
    if not labels:
        return is_number(word)
    return word in labels or word in (data.names or {}) or word.partition(data.label_until or "\0")[0] in labels


def _texts(rows: Iterable[tuple[Any, ...]], path: Path) -> Iterator[str]:
    for number, row in enumerate(rows, start=1):
        if any(cell is None for cell in row):
            raise UserError(f"{path}, row {number} has no text; fill it in, or drop the row")
        yield " ".join(" ".join(str(cell).split("\n")) for cell in row)


def source_inputs(path: Path, data: Any, form: str = "auto", column: int | str | None = None) -> Inputs:
    """The sources for a translator.

    Args:
        data: the `[data]` table of its training (`harken.data.text.config.DataConfig`).
        form: `auto`, `lines`, `table`, `tsv` or `jsonl`.
        column: of a table by number or name, or the key of JSON, in the place of data.source_column.

    Raises:
        UserError: an unknown format, or a file that cannot be read.
    """
    form = _chosen(form, (LINES, *PAIR_TABLES)) or _source_format(path, data, column)
    if form == LINES:
        return Inputs(read_lines(path, data.max_line_bytes), None)
    form = format_of(path, None, form)
    layout = _pair_layout(data, form, column, None)
    chosen = layout.source_column
    shown = chosen if chosen is not None else "source" if form == "jsonl" else 0
    return Inputs(read_column(path, layout), f"reading {path.name} as {form}: sources from the column {shown}")


def evaluated_pairs(
    data: Any,
    files: Sequence[Path],
    form: str = "auto",
    source_column: str | None = None,
    target_column: str | None = None,
) -> tuple[list[Pair], list[str]]:
    """The pairs of two aligned files, or of one with both sides, for `harken evaluate`; and notes on what was skipped.

    Args:
        data: the `[data]` table of the model's training, whose columns are read where the format is the same.

    Raises:
        UserError: more than two files, one that cannot be read, or no pair in them.
    """
    if len(files) > 2:
        raise UserError(f"{len(files)} files are given; a translator is scored on one with both sides, or on two")
    source, target = files[0], files[1] if len(files) == 2 else None
    chosen = format_of(source, target, _chosen(form, ("text", *PAIR_TABLES)) or "auto")
    layout = _pair_layout(data, chosen, place(source_column), place(target_column))
    pairs, skipped = [], 0
    for texts in read_pairs(source, target, layout):
        if target is None and not all(text.strip() for text in texts):
            skipped += 1  # two files stay aligned with the translations of other systems, so there all lines count
        else:
            pairs.append(Pair(*texts))
    if not pairs:
        raise UserError(f"{source} is empty; give at least one sentence with its translation")
    return pairs, [f"{source}: skipped {skipped:,}: empty side"] if skipped else []


def _pair_layout(data: Any, form: str, source: int | str | None, target: int | str | None) -> Layout:
    """The layout of a file for a model of other files: names of columns hold for all, the rest for the same format."""
    same = form == _pair_format(data)
    left, right = (
        given if given is not None else own if same or (isinstance(own, str) and form != "text") else None
        for given, own in ((source, data.source_column), (target, data.target_column))
    )
    header = data.header if same and not any(isinstance(given, str) for given in (source, target)) else None
    return Layout(form, left, right, header, data.max_line_bytes, data.quotes if same else None)


def place(column: str | None) -> int | str | None:
    """A column by its number, counted from 0, or by its name."""
    return int(column) if column is not None and column.isdecimal() else column


def _pair_format(data: Any) -> str | None:
    """The format of the training files; None where they are generated, or aligned files of a folder."""
    return (
        None if data.corpus or data.dir or not data.source else format_of(_first(data.source), data.target, data.format)
    )


def _source_format(path: Path, data: Any, column: int | str | None) -> str:
    if is_table(path) or column is not None:
        return "table"
    if _pair_format(data) != "tsv":
        return LINES
    sample = head(path)  # a model of pairs.txt is given another file of pairs, or plain text
    return "tsv" if has_tabs(sample) else LINES


def sentence_inputs(path: Path, data: Any, form: str = "auto", column: int | str | None = None) -> Inputs:
    """The sentences for a tagger: texts, or lists of words where the file has them apart.

    Args:
        data: the `[data]` table of its training (`harken.tasks.tag.recipe.TagDataConfig`).
        form: `auto`, `lines`, `conllu`, `conll` or `jsonl`.
        column: of the words, in the place of data.word_column.

    Raises:
        UserError: an unknown format, or a file that cannot be read.
    """
    form = _chosen(form, (LINES, "conllu", "conll", "jsonl")) or _sentence_format(path, data, column)
    if form == LINES:
        return Inputs(read_lines(path), None)
    trained = data.format if data.format != "auto" else _tag_format(Path(_first(data.train))) if data.train else None
    chosen = column if column is not None else data.word_column if form == trained else None
    shown = chosen if chosen is not None else {"conllu": "form", "jsonl": "tokens"}.get(form, 0)
    return Inputs(read_words(path, form, chosen), f"reading {path.name} as {form}: words from the column {shown}")


def _sentence_format(path: Path, data: Any, column: int | str | None) -> str:
    form = _tag_format(path)
    if form is not None or column is not None:
        return form or "conll"
    if data.corpus or data.format in ("jsonl", "frames"):
        return LINES
    sample = head(path)
    columns = {len(line.split("\t")) for line in sample if not line.startswith("#")}
    return "conll" if sample and len(columns) == 1 and min(columns) > 1 else LINES


def _tag_format(path: Path) -> str | None:
    kind = ending(path)
    return "conllu" if kind == ".conllu" else "jsonl" if has_lists(path) else "conll" if kind in CONLL else None


def has_tabs(lines: Sequence[str]) -> bool:
    """Whether lines look like rows of a table whose name does not say so."""
    return bool(lines) and all("\t" in line for line in lines)


def head(path: Path) -> list[str]:
    """The first lines of a file that are not blank; none of a pipe, which can be read only once."""
    if not path.is_file():
        return []
    return list(islice((line for line in read_lines(path) if line.strip()), SAMPLED))


def _chosen(form: str, known: Iterable[str]) -> str | None:
    """The format that was asked for; None for auto."""
    if form == "auto":
        return None
    names = list(known)
    if form not in names:
        near = get_close_matches(form, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from auto, {', '.join(names)}"
        raise UserError(f"--format {form} is not known here; {hint}")
    return form


def _first(files: Any) -> str:
    return files if isinstance(files, str) else files[0]
