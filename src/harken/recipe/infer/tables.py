"""From the columns of a table to a recipe: which is read, and which is predicted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from harken.data.io.files import ending
from harken.data.series.dates import read_date
from harken.errors import UserError
from harken.recipe.infer.columns import Column, Table
from harken.recipe.infer.inferred import Inferred

LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "topic", "tag", "intent", "y")
TEXT_NAMES = ("text", "sentence", "review", "content", "body", "question", "message", "tweet")
PAIR_NAMES = re.compile(r"[a-z]{2,3}|source|target|src|tgt|trg", re.IGNORECASE)
SEASONS = ((2, 24, 96), (3 * 24, 7, 56), (40 * 24, 12, 36), (120 * 24, 4, 16))  # hours between rows, season, window


def infer_table(table: Table, task: str | None, text: str | None, target: str | None) -> Inferred:
    """The recipe of a table; raises UserError as `infer`."""
    for option, name in (("--text-column", text), ("--target-column", target)):
        if name is not None and name not in table.names:
            raise UserError(f"{table.path} has no column {name!r} ({option}); it has {', '.join(table.names)}")
    if len(table.lists) >= 2 and task in (None, "tag"):
        words = text or _first(table, ("tokens", "words"))
        tags = target or _first(table, ("tags", "labels", "ner_tags"))
        if words and tags:
            return Inferred(
                "tag", "lists of words and tags", {"train": table.path, "word_column": words, "tag_column": tags}
            )
    kinds = {kind: [column for column in table.columns if column.kind == kind] for kind in KINDS}
    chosen = task or _task_of(table, kinds, text, target)
    builder = BUILDERS.get(chosen)
    if builder is None:
        raise UserError(f"{table.path} is a table, which a {chosen} recipe does not read; write a recipe")
    return builder(table, kinds, text, target)


KINDS = ("text", "label", "number", "date", "audio", "image")
Kinds = dict[str, list[Column]]


def _first(table: Table, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in table.lists), None)


def _task_of(table: Table, kinds: Kinds, text: str | None, target: str | None) -> str:
    texts, labels, numbers = kinds["text"], kinds["label"], kinds["number"]
    if kinds["audio"] or kinds["image"]:
        return "transcribe" if kinds["audio"] else "caption"
    predicted = next((column for column in table.columns if column.name == target), None)
    if predicted is not None and (texts or text):
        return {"label": "classify", "number": "regress", "text": "translate"}.get(predicted.kind, "classify")
    if not texts and (kinds["date"] or len(numbers) == 1) and (numbers or any(column.is_number for column in labels)):
        return "forecast"
    if len(texts) == 2 and (not labels or all(PAIR_NAMES.fullmatch(column.name) for column in texts)) and _alike(texts):
        return "translate"
    if texts and labels:
        return "classify"
    if len(texts) == 1 and len(numbers) == 1:
        return "regress"
    described = ", ".join(f"{column.name} ({column.kind})" for column in table.columns[:12])
    raise UserError(
        f"{table.path} has the columns {described}, from which no job follows; add --task (such as classify), "
        "--text-column and --target-column"
    )


def _alike(texts: Sequence[Column]) -> bool:
    short, long = sorted(column.characters for column in texts)
    return long <= 2.5 * short


def _classify(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    label = target or _choose(table, kinds["label"], LABEL_NAMES, "the label", "--target-column")
    texts = [column.name for column in kinds["text"] if column.name != label]
    known = [name for name in texts if name.lower() in TEXT_NAMES]
    chosen = [text] if text else known[:1] or texts
    if not chosen:
        raise UserError(f"{table.path} has no column of texts beside {label!r}; add --text-column")
    distinct = next((column.distinct for column in table.columns if column.name == label), 0)
    data = _table_data(table) | {"text_column": chosen[0] if len(chosen) == 1 else chosen, "label_column": label}
    words = max((column.words for column in kinds["text"] if column.name in chosen), default=9.0)
    tables = {"tokenizer": {"kind": "character"}} if words < 1.5 else {}
    return Inferred("classify", f"texts in {' and '.join(chosen)}, {distinct} labels in {label}", data, tables)


def _regress(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    value = target or _choose(table, kinds["number"], LABEL_NAMES, "the number", "--target-column")
    chosen = text or _choose(table, kinds["text"], TEXT_NAMES, "the text", "--text-column")
    reason = f"texts in {chosen}, numbers in {value}"
    return Inferred("regress", reason, _table_data(table) | {"text_column": chosen, "label_column": value})


def _table_data(table: Table) -> dict[str, Any]:
    data: dict[str, Any] = {"train": table.path, "format": "table"}
    if ending(Path(table.path)) not in (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson", ".json"):
        raise UserError(f"{table.path} is a table with tabs; rename it to .tsv")
    return data | ({} if table.has_header else {"header": False}) | ({} if table.quotes else {"quotes": False})


def _translate(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    if ending(Path(table.path)) == ".csv":
        raise UserError(f"{table.path} is CSV, which translation does not read; save it with tabs as .tsv, or as JSONL")
    names = [column.name for column in kinds["text"]]
    if text is None or target is None:
        if len(names) != 2:
            raise UserError(
                f"{table.path} has {len(names)} columns of text ({', '.join(names)}); add --text-column (the source) "
                "and --target-column (its translation)"
            )
        text = text or next(name for name in names if name != target)
        target = target or next(name for name in names if name != text)
    data: dict[str, Any] = {"source": table.path}
    named = table.has_header
    is_jsonl = ending(Path(table.path)) in (".jsonl", ".ndjson", ".json")
    if not is_jsonl:
        data |= {"format": "tsv"} | ({"header": True} if named else {})
    data |= {"source_column": text if named else int(text), "target_column": target if named else int(target)}
    for side, name in (("source", text), ("target", target)):
        if named and re.fullmatch(r"[a-z]{2,3}", name, re.IGNORECASE):
            data[f"{side}_language"] = name.lower()
    return Inferred("translate", f"texts in {text} and their translations in {target}", data)


def _forecast(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    if not table.has_header:
        raise UserError(f"{table.path} has no first line with the names of its columns, as a series needs; add one")
    numbers = [column for column in table.columns if column.is_number]
    if not numbers:
        raise UserError(f"{table.path} has no column of numbers to forecast; check the file")
    value = target or numbers[-1].name
    count, data = len(table.rows), {"train": table.path, "target_column": value}
    groups = [column for column in kinds["label"] if column.name != value and not column.is_number]
    dates = kinds["date"]
    if groups and dates and dates[0].distinct < len(dates[0].filled):
        data["group"] = groups[0].name
        count //= max(1, groups[0].distinct)
    season, window = _season(table.beginning(dates[0].name)) if dates else (1, 36)
    if count < 4 * season:
        season = 1
    horizon = max(1, min(season if season > 1 else 6, count // 10))
    sizes = {"season": season, "window": max(2, min(window, count // 4)), "horizon": horizon}
    others = f"; {len(numbers) - 1} other columns of numbers are not read" if len(numbers) > 1 else ""
    return Inferred("forecast", f"{value} over time, a season of {season}{others}", {**data, **sizes})


def _season(cells: Sequence[str]) -> tuple[int, int]:
    """The season and a window for rows as far apart as these dates.

    >>> _season(["1949-01", "1949-02", "1949-03"]), _season(["2016-07-01 00:00", "2016-07-01 01:00"])
    ((12, 36), (24, 96))
    """
    dates = [date for cell in cells if (date := read_date(cell)) is not None]
    gaps = [abs((later - earlier).total_seconds()) / 3600 for earlier, later in pairwise(dates)]
    hours = median([gap for gap in gaps if gap] or [1e9])
    return next(((season, window) for most, season, window in SEASONS if hours <= most), (1, 20))


def _recordings(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    audio = text or _choose(table, kinds["audio"], ("audio", "path", "file"), "the recording", "--text-column")
    spoken = target or _choose(table, [*kinds["text"], *kinds["label"]], TEXT_NAMES, "the text", "--target-column")
    data = {"train": table.path, "audio_column": audio, "text_column": spoken}
    return Inferred("transcribe", f"recordings in {audio}, their texts in {spoken}", data)


def _pictures(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    image = text or _choose(table, kinds["image"], ("image", "path", "file"), "the picture", "--text-column")
    texts = [*kinds["text"], *kinds["label"]]
    caption = target or _choose(table, texts, ("caption",), "the caption", "--target-column")
    data = {"train": table.path, "image_column": image, "caption_column": caption}
    return Inferred("caption", f"pictures in {image}, their captions in {caption}", data)


def _choose(table: Table, columns: Sequence[Column], names: Sequence[str], what: str, option: str) -> str:
    """The only column that may be it, or the one with a usual name.

    Raises:
        UserError: there is none, or there are several.
    """
    usual = [column.name for column in columns if column.name.lower() in names]
    if len(columns) == 1 or len(usual) == 1:
        return columns[0].name if len(columns) == 1 else usual[0]
    choices = ", ".join(column.name for column in columns) or ", ".join(table.names)
    problem = "several columns that may be" if columns else "no column that looks like"
    raise UserError(f"{table.path} has {problem} {what} ({choices}); add {option} NAME")


BUILDERS: dict[str, Callable[[Table, Kinds, str | None, str | None], Inferred]] = {
    "classify": _classify,
    "regress": _regress,
    "translate": _translate,
    "forecast": _forecast,
    "transcribe": _recordings,
    "caption": _pictures,
}
