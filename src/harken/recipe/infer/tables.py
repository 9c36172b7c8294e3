"""From the columns of a table to a recipe: which is read, and which is predicted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harken.data.io.table import GUESSED, sample_columns, table_rows
from harken.data.text.scripts import UNSPACED, script_of
from harken.errors import UserError
from harken.recipe.infer.columns import Column, Table
from harken.recipe.infer.inferred import Conversion, Inferred
from harken.recipe.infer.pairs import SAMPLE, format_languages, language_keys
from harken.recipe.infer.questions import Undecided
from harken.recipe.infer.series import infer_series
from harken.recipe.infer.wide import series_in_rows, signals_in_rows

FILE_KEYS = ("format", "header", "quotes", "encoding")  # of `[data]`, which say how a file is read
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "topic", "tag", "intent", "y")
TEXT_NAMES = ("text", "sentence", "review", "content", "body", "question", "message", "tweet")
PAIR_NAMES = re.compile(r"[a-z]{2,3}|source|target|src|tgt|trg", re.IGNORECASE)
SMALL_TEXT = 3_000_000  # characters up to which a language model reads characters


def infer_table(table: Table, task: str | None, text: str | None, target: str | None) -> Inferred:
    """The recipe of a table; raises UserError as `infer`."""
    try:
        inferred = _infer(table, task, text, target)
    except Undecided as undecided:
        undecided.sample = table
        raise
    if not inferred.facts():  # a row is no signal and no series: the columns are what there is to see
        inferred.sample = table
    return inferred


def _infer(table: Table, task: str | None, text: str | None, target: str | None) -> Inferred:
    for option, name in (("--text-column", text), ("--target-column", target)):
        if name is not None and name not in table.names:
            near = get_close_matches(name, table.names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(table.names[:50])}"
            raise UserError(f"{table.path} has no column {name!r} ({option}); {hint}")
    if len(table.lists) >= 2 and task in (None, "tag"):
        words = text or _first(table, ("tokens", "words"))
        tags = target or _first(table, ("tags", "labels", "ner_tags"))
        if words and tags:
            return Inferred(
                "tag", "lists of words and tags", {"train": table.path, "word_column": words, "tag_column": tags}
            )
    if (task in (None, "classify") and text is None and target is None) and (signals := signals_in_rows(table)):
        return signals
    if task in (None, "forecast") and (series := series_in_rows(table)):
        return series
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
    if len(texts) == 1 and len(table.names) == 1:
        return "language"
    described = ", ".join(f"{column.name} ({column.kind})" for column in table.columns[:12])
    choices = _possible_jobs(table, kinds, text, target)
    raise Undecided(f"{table.path} has the columns {described}, from which no job follows", "Which job?", choices)


def _possible_jobs(table: Table, kinds: Kinds, text: str | None, target: str | None) -> list[dict[str, str]]:
    """Jobs with the columns that they would use, the likeliest first."""
    texts = [text] if text else [column.name for column in sorted(kinds["text"], key=_usual_text)]
    labels = [target] if target else [column.name for column in kinds["label"]]
    numbers = [target] if target else [column.name for column in table.columns if column.is_number]
    jobs = [("classify", texts[:1], labels), ("translate", texts, texts), ("regress", texts[:1], numbers)]
    choices = [
        {"task": job, "text": read, "target": predicted}
        for job, inputs, outputs in jobs
        for read in inputs
        for predicted in outputs
        if read != predicted and (job != "translate" or inputs.index(read) < outputs.index(predicted))
    ]
    if not texts:
        choices += [{"task": "forecast", "target": number} for number in reversed(numbers)]
    if len(texts) == 1:
        choices.append({"task": "language", "text": texts[0]})
    return choices or [{"task": "classify", "text": text or table.names[0], "target": target or table.names[-1]}]


def _usual_text(column: Column) -> bool:
    return column.name.lower() not in TEXT_NAMES


def _alike(texts: Sequence[Column]) -> bool:
    """Whether texts are about as long, in characters or in words: Chinese has few characters for a sentence."""
    sizes = [sorted(column.characters for column in texts), sorted(column.words for column in texts)]
    return any(long <= 2.5 * short for short, long in sizes)


def _classify(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    label = target or _choose(table, kinds["label"], LABEL_NAMES, "the label", "target")
    texts = [column.name for column in kinds["text"] if column.name != label]
    known = [name for name in texts if name.lower() in TEXT_NAMES]
    chosen = [text] if text else known[:1] or texts
    if not chosen:
        raise UserError(f"{table.path} has no column of texts beside {label!r}; add --text-column")
    distinct = next((column.distinct for column in table.columns if column.name == label), 0)
    data = _table_data(table) | {"text_column": chosen[0] if len(chosen) == 1 else chosen, "label_column": label}
    tables = text_tokenizer([cell for name in chosen for cell in table.beginning(name)])
    return Inferred("classify", f"texts in {' and '.join(chosen)}, {distinct} labels in {label}", data, tables)


def _regress(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    value = target or _choose(table, kinds["number"], LABEL_NAMES, "the number", "target")
    chosen = text or _choose(table, kinds["text"], TEXT_NAMES, "the text", "text")
    reason = f"texts in {chosen}, numbers in {value}"
    data = _table_data(table) | {"text_column": chosen, "label_column": value}
    return Inferred("regress", reason, data, text_tokenizer(table.beginning(chosen)))


def text_tokenizer(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The table [tokenizer] for texts: characters of single words and of scripts without spaces, else the default.

    >>> text_tokenizer(["a good film"]), text_tokenizer(["Miller", "Cruz"]), text_tokenizer(["良い映画です"])
    ({}, {'tokenizer': {'kind': 'character'}}, {'tokenizer': {'kind': 'character'}})
    """
    words = sum(len(text.split()) for text in texts) / max(1, len(texts))
    return {"tokenizer": {"kind": "character"}} if words < 1.5 or script_of(texts) in UNSPACED else {}


def _table_data(table: Table) -> dict[str, Any]:
    data: dict[str, Any] = {"train": table.path, "format": "table"}
    data |= {} if table.has_header else {"header": False}
    data |= {} if table.quotes else {"quotes": False}
    return data | ({"encoding": table.encoding} if table.encoding in GUESSED else {})


def _translate(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    names = [column.name for column in kinds["text"]]
    if text is None or target is None:
        if len(names) != 2:
            choices = [choice for choice in _possible_jobs(table, kinds, text, target) if choice["task"] == "translate"]
            problem = f"{table.path} has {len(names)} columns of text ({', '.join(names)})"
            if not choices:
                raise UserError(f"{problem}, and a translation needs two; add --text-column and --target-column")
            raise Undecided(problem, "Which is translated, and which is its translation?", choices)
        text = text or next(name for name in names if name != target)
        target = target or next(name for name in names if name != text)
    keys = language_keys([text, target], Path(table.path), [table.beginning(name, SAMPLE) for name in (text, target)])
    data: dict[str, Any] = {"source": table.path}
    named = table.has_header
    data |= {"format": "table"} | ({} if named else {"header": False})
    data |= {"encoding": table.encoding} if table.encoding in GUESSED else {}
    data |= {"source_column": text if named else int(text), "target_column": target if named else int(target)}
    reason = f"texts in {text} and their translations in {target}{format_languages(keys)}"
    return Inferred("translate", reason, data | keys)


def _language(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    """A column of texts, written as lines for a language model."""
    column = text or _choose(table, kinds["text"], TEXT_NAMES, "the text", "text")

    def lines() -> Iterator[str]:
        _, rows = table_rows(table.path, [column], header=table.has_header, encoding=table.encoding)
        return (line for [cell] in rows if (line := " ".join(str(cell).split())))

    characters = sum(len(cell) for cell in table.beginning(column, len(table.rows)))
    tables = {"tokenizer": language_tokenizer(characters)}
    return Inferred("language", f"texts in {column}", {}, tables, {"train": Conversion(".txt", lines)})


def language_tokenizer(characters: int) -> dict[str, Any]:
    """The tokenizer of a language model: characters of little text, subwords of much."""
    return {"kind": "character"} if characters < SMALL_TEXT else {"kind": "bpe", "size": 8000}


def _recordings(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    audio = text or _choose(table, kinds["audio"], ("audio", "path", "file"), "the recording", "text")
    spoken = target or _choose(table, [*kinds["text"], *kinds["label"]], TEXT_NAMES, "the text", "target")
    data = {"train": table.path, "audio_column": audio, "text_column": spoken}
    return Inferred("transcribe", f"recordings in {audio}, their texts in {spoken}", data)


def _pictures(table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    image = text or _choose(table, kinds["image"], ("image", "path", "file"), "the picture", "text")
    texts = [*kinds["text"], *kinds["label"]]
    caption = target or _choose(table, texts, ("caption",), "the caption", "target")
    data = {"train": table.path, "image_column": image, "caption_column": caption}
    return Inferred("caption", f"pictures in {image}, their captions in {caption}", data)


def _choose(table: Table, columns: Sequence[Column], names: Sequence[str], what: str, option: str) -> str:
    """The only column that may be it, or the one with a usual name.

    Raises:
        Undecided: there is none, or there are several.
    """
    usual = [column.name for column in columns if column.name.lower() in names]
    if len(columns) == 1 or len(usual) == 1:
        return columns[0].name if len(columns) == 1 else usual[0]
    if columns:
        choices, problem = [column.name for column in columns], "several columns that may be"
    else:
        others = [column.name for column in table.columns if column.kind != "text" or option == "text"]
        choices, problem = others or table.names, "no column that looks like"
    shown = ", ".join(choices[:50])
    raise Undecided(
        f"{table.path} has {problem} {what} ({shown})", f"Which column is {what}?", [{option: name} for name in choices]
    )


BUILDERS: dict[str, Callable[[Table, Kinds, str | None, str | None], Inferred]] = {
    "classify": _classify,
    "regress": _regress,
    "translate": _translate,
    "forecast": lambda table, kinds, text, target: infer_series(table, target),
    "transcribe": _recordings,
    "caption": _pictures,
    "language": _language,
}


def infer_frame(task: str, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The tables of a recipe for a job on a table in memory, whose columns are chosen as those of a file.

    Raises:
        UserError: more than one column is possible, or the job reads no table.
    """
    values = infer_table(sample_columns(columns), task, None, None).values()
    values["data"] = {key: value for key, value in values["data"].items() if key not in FILE_KEYS}
    return values
