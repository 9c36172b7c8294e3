"""From one file to a recipe, by its ending and its first lines."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from harken.data.io.files import DAMAGED, ending
from harken.data.io.records import is_json
from harken.data.io.table import is_table
from harken.data.io.translation_memories import ENDINGS as MEMORIES
from harken.data.text.tagged import iterate_tagged
from harken.errors import UserError
from harken.recipe.infer.columns import (
    AUDIO,
    IMAGES,
    MOST_ROWS,
    Column,
    Table,
    format_facts,
    format_labels,
    length_facts,
    read_sample,
    read_text,
)
from harken.recipe.infer.inferred import Inferred, recognise
from harken.recipe.infer.pairs import (
    choose_pair,
    infer_aligned,
    infer_archive,
    infer_language_folder,
    infer_memory,
    infer_suggestions,
    language_files,
)
from harken.recipe.infer.questions import Undecided
from harken.recipe.infer.refusals import refuse_other_formats
from harken.recipe.infer.tables import infer_table
from harken.registry import recipe_class

FIRST_WORDS = 100  # distinct first words of lines that may be labels
NUMBERS = re.compile(r"[-+\d.e]+([\s,]+[-+\d.e]+){2,}")


def infer_file(path: Path, task: str | None, text: str | None, target: str | None, pair: str | None = None) -> Inferred:
    """The recipe of one file; raises UserError as `infer`."""
    kind = ending(path)
    if recognised := recognise(path, task):
        return recognised
    if path.suffix == ".zip" and (pairs := infer_archive(path, pair)) is not None:
        return pairs
    if kind in (".tar", ".tgz", ".txz") and (stories := infer_babi(path, _members(path))) is not None:
        return stories
    refuse_other_formats(path)
    if kind in MEMORIES and task in (None, "translate"):
        return infer_memory(path, pair)
    if kind in SPECIAL:
        return SPECIAL[kind](path, task)
    if kind in (*AUDIO, *IMAGES):
        raise UserError(f"{path} is a single file; give the folder of such files, with a table of their texts")
    is_open = task in (None, "translate") and text is target is None
    if is_open and is_json(path) and (suggestions := infer_suggestions(path, pair)) is not None:
        return suggestions
    if is_table(path):
        return infer_table(read_sample(path), task, text, target)
    content, encoding = read_text(path)
    lines = content.split("\n")
    for rule in (_stories, _tagged_columns):
        if task in (None, "tag", "answer") and (inferred := rule(path, lines)) and task in (None, inferred.task):
            return inferred
    filled = [line for line in lines if line.strip()]
    if task != "language" and sum("\t" in line for line in filled) > 0.95 * len(filled):
        return infer_table(read_sample(path), task, text, target)
    if task != "language" and all(NUMBERS.fullmatch(line.strip()) for line in filled[:200]):
        return _number_rows(path, task)
    if task in (None, "translate") and (inferred := _with_partner(path, pair)) is not None:
        return inferred
    is_cut = len(filled) > MOST_ROWS
    sample = Table(str(path), ["line"], [[line] for line in filled[:MOST_ROWS]], has_header=False, is_cut=is_cut)
    if task in (None, "classify") and (inferred := _prefixed(path, filled, encoding)):
        rows = [[*line.split(None, 1), ""][:2] for line in filled[:MOST_ROWS]]
        return replace(inferred, sample=replace(sample, names=["label", "text"], rows=rows))
    recipe = recipe_class(task or "language")
    if recipe.input_column is not None and recipe.input_column.key is None:
        tables = recipe.default_tables([content])
        return Inferred(task or "language", "plain text", {"train": str(path)}, tables, sample=sample)
    raise UserError(f"{path} is plain text, which a {task} recipe does not read; give a table, or --task language")


def infer_babi(root: Path, files: Sequence[Path]) -> Inferred | None:
    """The bAbI tasks in a folder or archive; None where none of its files is one to train on."""
    if not files:
        return None
    from harken.data.text.babi import NAME as BABI_NAME  # imports torch

    names = [(path.parent.name, match) for path in files if (match := BABI_NAME.fullmatch(path.name))]
    folders = [folder for folder, match in names if match[3] == "train"]
    if not folders:
        return None
    folder = "en" if "en" in folders else folders[0]
    data = {"dir": str(root)} | ({} if folder in ("en", root.name) else {"folder": folder})
    return Inferred("answer", f"{folders.count(folder)} bAbI tasks", data)


def _members(archive: Path) -> list[Path]:
    """The names in a tar archive; none where it is damaged."""
    try:
        with tarfile.open(archive) as stream:
            return [Path(name) for name in stream.getnames()]
    except (tarfile.TarError, EOFError, OSError, *DAMAGED):
        return []


def _number_rows(path: Path, task: str | None) -> Inferred:
    """Rows of numbers: an example each, whose last number is its label."""
    if task == "classify":
        data = {"kind": "signal", "format": "rows", "train": str(path)}
        return Inferred(task, "rows of numbers, the last of which is the label", data)
    if task == "handwriting":
        return Inferred(task, "points of the pen", {"train": str(path)})
    choices = [{"task": "classify"}, {"task": "handwriting"}]
    raise Undecided(f"{path} holds rows of numbers, whose last may be their label (classify)", "Which job?", choices)


def _signals(path: Path, task: str | None) -> Inferred:
    _only(path, task, "classify")
    data = {"kind": "signal", "train": str(path)}

    def facts() -> dict[str, str]:
        from harken.data.series.signals import read_signals  # imports torch
        from harken.data.text.examples_config import ExamplesConfig

        signals = read_signals(path, ExamplesConfig.model_validate(data))
        channels = f"{signals.values[0].shape[1]} channel{'s' if signals.values[0].shape[1] > 1 else ''}"
        steps = format_facts(length_facts([len(frames) for frames in signals.values]))
        counts = dict(Counter(signals.labels).most_common())
        return {"signals": f"{len(signals):,}; {channels}; steps: {steps}", "labels": format_labels(counts)}

    return Inferred("classify", "signals with labels", data, facts=facts)


def _conllu(path: Path, task: str | None) -> Inferred:
    _only(path, task, "tag")
    return _tagged(path, "conllu", "CoNLL-U, whose universal part-of-speech tags are learnt")


def _tagged(path: Path, form: str, reason: str) -> Inferred:
    """Sentences with tags, with their first words as a sample."""
    words = ([word, tag] for sentence in iterate_tagged(path, form) for word, tag in zip(*sentence, strict=True))
    rows = list(islice(words, MOST_ROWS))
    sample = Table(str(path), ["word", "tag"], rows, has_header=False, is_cut=len(rows) == MOST_ROWS)

    def facts() -> dict[str, str]:
        lengths = [len(sentence.words) for sentence in iterate_tagged(path, form)]
        return {"sentences": f"{len(lengths):,}; words: {format_facts(length_facts(lengths))}"}

    data = {"train": str(path), "format": form}
    return Inferred("tag", reason, data, sample=sample, facts=facts, unit="words")


def _arrays(path: Path, task: str | None) -> Inferred:
    """An .npz by the names of its arrays."""
    import zipfile

    try:
        names = {name.removesuffix(".npy") for name in zipfile.ZipFile(path).namelist()}
    except (OSError, zipfile.BadZipFile):
        raise UserError(f"{path} is no NumPy archive; write it with numpy.savez") from None
    for array, job in (("train_points", "handwriting"), ("frames", "tag"), ("values", "classify")):
        if array in names and task in (None, job):
            key = "file" if job == "handwriting" else "train"
            kind = {"kind": "signal"} if job == "classify" else {}
            return Inferred(job, f"an archive with an array {array}", {**kind, key: str(path)})
    raise UserError(
        f"{path} has the arrays {', '.join(sorted(names))}; harken reads values and labels (classify), frames and "
        "labels (tag) or train_points (handwriting)"
    )


def _only(path: Path, task: str | None, possible: str) -> None:
    if task not in (None, possible):
        raise UserError(f"{path} is data for --task {possible}, not {task}; leave the option out")


SPECIAL: dict[str, Callable[[Path, str | None], Inferred]] = {
    ".conllu": _conllu,
    ".ts": _signals,
    ".arff": _signals,
    ".npz": _arrays,
}


def _with_partner(path: Path, pair: str | None) -> Inferred | None:
    """A file NAME.LANG that lies beside the same in another language: their lines are pairs."""
    groups = language_files([other.name for other in path.parent.iterdir() if other.is_file()])
    files = next((files for files in groups.values() if path.name in files.values()), None)
    if files is None:
        return None
    own = next(language for language, name in files.items() if name == path.name)
    others = [language for language in files if language != own]
    if pair is None and len(others) > 1:
        choices = [{"pair": f"{own}-{language}"} for language in others]
        raise Undecided(f"{path} has partners in {', '.join(others)}", "Which languages, source first?", choices)
    source, target = choose_pair(path, [*files], pair or f"{own}-{others[0]}", "files")
    if path.name.startswith("train."):
        return infer_language_folder(path.parent, [source, target], f"{source}-{target}")
    return infer_aligned(path.parent / files[source], path.parent / files[target], (source, target))


def _stories(path: Path, lines: Sequence[str]) -> Inferred | None:
    """bAbI: every line begins with its number in the story, and questions have tabs."""
    filled = [line for line in lines[:2000] if line.strip()]
    numbered = all(re.match(r"\d+ ", line) for line in filled)
    if not numbered or not filled[0].startswith("1 ") or not any("\t" in line for line in filled):
        return None
    return Inferred("answer", "numbered sentences with questions among them", {"train": str(path)})


def _tagged_columns(path: Path, lines: Sequence[str]) -> Inferred | None:
    """A word and its tag a line, and blank lines between sentences."""
    some = lines[:5000]
    if _is_conllu(some):
        return _conllu(path, None)
    filled = [line.split() for line in some if line.strip() and not line.startswith("#")]
    blank = sum(not line.strip() for line in some[:-1])
    widths = {len(row) for row in filled}
    if not blank or len(widths) != 1 or min(widths) < 2 or len(filled) > 100 * blank:
        return None
    if not Column("tags", [row[-1] for row in filled]).is_label:
        return None
    return _tagged(path, "conll", "a word and its tag a line")


def _is_conllu(lines: Sequence[str]) -> bool:
    """Ten columns with tabs, the first of which is the word's number."""
    words = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(words) and all(len(cells) == 10 and re.match(r"\d", cells[0]) for cells in words)


def _prefixed(path: Path, lines: Sequence[str], encoding: str) -> Inferred | None:
    """Lines that begin with their label: few first words, each of which returns, before other words."""
    some = lines[:: max(1, len(lines) // 5000)]
    rows = [line.split(None, 1) for line in some]
    firsts = {row[0] for row in rows}
    marked = all(first.startswith("__label__") for first in firsts)
    few = 1 < len(firsts) <= FIRST_WORDS and 10 * len(firsts) <= len(rows)
    if not marked and not (few and all(len(row) == 2 for row in rows)):
        return None
    data: dict[str, Any] = {"train": str(path), "format": "prefix"}
    reason = f"lines that begin with one of {len(firsts)} labels"
    if encoding != "utf-8":
        data["encoding"] = encoding
    if all(re.fullmatch(r"[^:]+:[^:]+", first) for first in firsts):
        data["label_until"] = ":"
        reason += ", of which the part before the colon is learnt"
    return Inferred("classify", reason, data, recipe_class("classify").default_tables([row[-1] for row in rows]))
