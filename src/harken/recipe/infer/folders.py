"""From a folder of data to a recipe: recordings or pictures with texts, a file for each class, splits by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harken.data.io.files import ending, read_lines
from harken.errors import UserError
from harken.recipe.infer.columns import AUDIO, IMAGES, Table
from harken.recipe.infer.files import infer_babi, infer_file
from harken.recipe.infer.inferred import Conversion, Inferred, recognise
from harken.recipe.infer.pairs import choose_pair, infer_aligned, infer_language_folder, language_files
from harken.recipe.infer.questions import train_command
from harken.recipe.infer.tables import jobs_by_kinds
from harken.registry import recipe_class

TABLES = (".csv", ".tsv", ".jsonl", ".conllu", ".conll", ".ts")
DOCUMENTS = ("README", "LICENSE", "LICENCE", "CITATION", "CHANGELOG")  # files about data
PER_CLASS, MOST_LINES = 100, 10_000  # files and lines of a class that are looked at
HELD_OUT = {"valid": ("valid", "val", "dev"), "test": ("test",)}


def infer_folder(folder: Path, task: str | None, text: str | None, target: str | None, pair: str | None) -> Inferred:
    """The recipe of a folder; raises UserError as `harken.recipe.infer`."""
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "~$", "__")))
    if len(entries) == 1 and entries[0].is_dir() and entries[0].name != "train":
        return infer_folder(entries[0], task, text, target, pair)  # as archives unpack
    files = [path for path in entries if path.is_file() and not path.name.upper().startswith(DOCUMENTS)]
    if any(path.name == "recipe.toml" for path in files):
        raise UserError(f"{folder} is a model folder; give data, or the recipe {folder / 'recipe.toml'}")
    if recognised := recognise(folder, task):
        return recognised
    stories = [path for pattern in ("qa*.txt", "*/qa*.txt") for path in sorted(folder.glob(pattern))]
    if task in (None, "answer") and (inferred := infer_babi(folder, stories)) is not None:
        return inferred
    groups = language_files([path.name for path in files])
    if "train" in groups:
        return infer_language_folder(folder, [*groups["train"]], pair)
    train = [stem for stem in groups if stem.startswith("train")] or [*groups]
    if len(train) == 1 and task in (None, "translate"):
        return _aligned_splits(folder, groups, train[0], pair)
    for endings, kind in ((AUDIO, "audio"), (IMAGES, "image")):
        media = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings)
        if media:
            return _with_texts(folder, files, media, jobs_by_kinds()[kind, "text"], text, target)
    if tables := [path for path in files if ending(path) in TABLES]:
        return _splits(folder, tables, task, text, target)
    texts = [path for path in files if ending(path) == ".txt"]
    if any("train" in path.name.lower() for path in texts):
        inferred = _splits(folder, texts, task, text, target)
        if inferred.task != "language":
            return inferred
        reason = "text files for training and testing"
        return replace(inferred, reason=reason, data={"dir": str(folder)}, conversions={})
    if task in (None, "classify") and (classes := _class_folders(folder)):
        return classes
    if len(texts) > 1 and len(texts) == len(files) and task in (None, "classify"):
        return _by_class(folder, texts)
    if not entries:
        raise UserError(f"{folder} is an empty folder; give a folder with data in it, or a file")
    if len(files) == 1:
        return infer_file(files[0], task, text, target, pair)
    shown = ", ".join(path.name for path in entries[:8])
    example = next((path for path in entries if not path.name.upper().startswith(DOCUMENTS)), entries[0])
    raise UserError(
        f"{folder} holds neither tables, nor text files alone, nor recordings or pictures with their texts ({shown}); "
        f"give what you mean, for example: {train_command(example)}"
    )


def _aligned_splits(folder: Path, groups: Mapping[str, Mapping[str, str]], train: str, pair: str | None) -> Inferred:
    """Files NAME.LANG, with those for validation and testing by their names."""
    source, target = choose_pair(folder, [*groups[train]], pair, "files")
    inferred = infer_aligned(folder / groups[train][source], folder / groups[train][target], (source, target))
    for split, words in HELD_OUT.items():
        held = [stem for stem in groups if stem != train and any(word in stem.lower() for word in words)]
        if len(held) == 1 and {source, target} <= groups[held[0]].keys():
            sides = {"source": source, "target": target}
            inferred.data[split] = {side: str(folder / groups[held[0]][code]) for side, code in sides.items()}
    return inferred


def _class_folders(folder: Path) -> Inferred | None:
    """A folder for each class, with a text file for each example; or such folders in train, valid and test."""
    parts = {name: folder / name for name in ("train", "valid", "val", "dev", "test") if (folder / name).is_dir()}
    splits = {_split_key(name): _texts_by_class(path) for name, path in (parts or {"train": folder}).items()}
    train = splits.get("train", {})
    if len(train) < 2:
        return None
    conversions = {
        split: Conversion(".jsonl", partial(_example_lines, classes)) for split, classes in splits.items() if classes
    }
    some = [(label, path) for label, paths in train.items() for path in paths[:PER_CLASS]]
    rows = [[path.read_text(encoding="utf-8", errors="replace"), label] for label, path in some]
    reason = f"{sum(map(len, train.values())):,} text files in a folder for each of {len(train)} classes"
    data = {"format": "table", "text_column": "text", "label_column": "label"}
    return Inferred("classify", reason, data, {}, conversions, Table(str(folder), ["text", "label"], rows))


def _split_key(name: str) -> str:
    return next((key for key, words in HELD_OUT.items() if name in words), name)


def _texts_by_class(folder: Path) -> dict[str, list[Path]]:
    """The text files of each folder in a folder; empty where something else is in them."""
    classes = {}
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        paths = sorted(path for path in inner.iterdir() if not path.name.startswith("."))
        if not paths or any(path.is_dir() or path.suffix.lower() not in ("", ".txt") for path in paths):
            return {}
        classes[inner.name] = paths
    return classes


def _example_lines(classes: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    for label, paths in classes.items():
        for path in paths:
            yield json.dumps({"text": " ".join(" ".join(read_lines(path)).split()), "label": label}, ensure_ascii=False)


def _with_texts(
    folder: Path, files: list[Path], media: list[Path], job: str, text: str | None, target: str | None
) -> Inferred:
    """Recordings or pictures: a table in the folder names them, or a .txt beside each has its text."""
    recipe, tables = recipe_class(job), [path for path in files if ending(path) in TABLES]
    names = [*recipe.column_names().values()]
    if tables:
        first = next((path for path in tables if "train" in path.name.lower()), tables[0])
        return infer_file(first, job, text, target)
    beside = [path for path in media if path.with_suffix(".txt").is_file()]
    if len(beside) < 0.9 * len(media):
        raise UserError(
            f"{folder} has {len(media):,} {recipe.input_column.noun}s, but no texts to learn from them; add a table "
            f"(CSV) with the columns {' and '.join(names)}, or a .txt file beside each"
        )
    rows = [[str(path), " ".join(" ".join(read_lines(path.with_suffix(".txt"))).split())] for path in beside]
    lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
    data = {column.key: name for column, name in recipe.column_names().items()}
    conversions = {"train": Conversion(".jsonl", lambda: lines)}
    reason = f"{len(rows):,} files, each with its text beside it"
    return Inferred(job, reason, data, {}, conversions, Table(str(folder), names, rows))


def _splits(folder: Path, tables: list[Path], task: str | None, text: str | None, target: str | None) -> Inferred:
    """One table, or tables for training, validation and testing by their names."""
    train = [path for path in tables if "train" in path.name.lower()]
    if len(tables) > 1 and len(train) != 1:
        shown = ", ".join(path.name for path in tables[:5])
        raise UserError(f"{folder} has {len(tables)} tables ({shown}); give one of them, or name one train")
    first = train[0] if train else tables[0]
    inferred = infer_file(first, task, text, target)
    known = recipe_class(inferred.task).data_fields()
    for split, words in HELD_OUT.items():
        if split not in known:
            continue
        other = [path for path in tables if path != first and any(word in path.name.lower() for word in words)]
        if len(other) == 1:
            inferred.data[split] = {"source": str(other[0])} if "source" in inferred.data else str(other[0])
    return inferred


def _by_class(folder: Path, texts: list[Path]) -> Inferred:
    rows = [[line, path.stem] for path in texts for line in list(read_lines(path))[:MOST_LINES] if line.strip()]
    if not rows:
        raise UserError(f"{folder} holds empty text files only; give files with a text a line")
    tables = recipe_class("classify").default_tables([line for line, _ in rows])
    data = {"train": str(folder), "format": "folder"}
    is_cut = max(Counter(label for _, label in rows).values()) >= MOST_LINES
    sample = Table(str(folder), ["text", "label"], rows, is_cut=is_cut)
    return Inferred("classify", f"a text file for each of {len(texts)} classes", data, tables, sample=sample)
