"""From the columns of a table to a recipe: which is read, and which is predicted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harken.data.io.table import GUESSED, sample_columns, table_rows
from harken.errors import UserError
from harken.recipe import TEXT_NAMES, TableColumn
from harken.recipe.infer.columns import Column, Table
from harken.recipe.infer.inferred import Conversion, Inferred
from harken.recipe.infer.pairs import SAMPLE, format_languages, language_keys
from harken.recipe.infer.questions import Undecided
from harken.recipe.infer.series import infer_series
from harken.recipe.infer.wide import series_in_rows, signals_in_rows
from harken.registry import TASKS, recipe_class

FILE_KEYS = ("format", "header", "quotes", "encoding")  # of `[data]`, which say how a file is read
PAIR_NAMES = re.compile(r"[a-z]{2,3}|source|target|src|tgt|trg", re.IGNORECASE)


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
    if (task in (None, "classify") and text is None and target is None) and (signals := signals_in_rows(table)):
        return signals
    if task in (None, "forecast") and (series := series_in_rows(table)):
        return series
    kinds = {kind: [column for column in table.columns if column.kind == kind] for kind in KINDS}
    kinds["list"] = [Column(name, table.beginning(name)) for name in table.names if name in table.lists]
    chosen = task or _task_of(table, kinds, text, target)
    if chosen in BUILDERS:
        return BUILDERS[chosen](table, kinds, text, target)
    declared = recipe_class(chosen)
    if declared.input_column is None:
        raise UserError(f"{table.path} is a table, which a {chosen} recipe does not read; write a recipe")
    if declared.input_column.key is None:
        return _lines(chosen, table, kinds, text)
    return _columns(chosen, table, kinds, text, target)


KINDS = ("text", "label", "number", "date", "audio", "image")
Kinds = dict[str, list[Column]]


def jobs_by_kinds() -> dict[tuple[str, str], str]:
    """The first job for each kind of cells that is read and each that is predicted; "" where a job declares none.

    >>> jobs = jobs_by_kinds()
    >>> jobs["text", "label"], jobs["audio", "text"], jobs["text", ""]
    ('classify', 'transcribe', 'language')
    """
    jobs: dict[tuple[str, str], str] = {}
    for task in TASKS.names():
        recipe = recipe_class(task)
        read, predicted = (column.kinds[0] if column else "" for column in (recipe.input_column, recipe.target_column))
        jobs.setdefault((read, predicted), task)
    return jobs


def _task_of(table: Table, kinds: Kinds, text: str | None, target: str | None) -> str:
    """The job that the kinds of columns call for; a job of a plugin where no other reads and predicts such kinds."""
    jobs = jobs_by_kinds()
    texts, labels, numbers = kinds["text"], kinds["label"], kinds["number"]
    tagged = recipe_class(jobs["list", "list"])
    if len(table.lists) >= 2 and all(
        name or _has_usual(kinds["list"], column)
        for name, column in ((text, tagged.input_column), (target, tagged.target_column))
    ):
        return jobs["list", "list"]
    predicted = next((column for column in table.columns if column.name == target), None)
    if media := next((kind for kind in ("audio", "image") if kinds[kind]), None):
        others = [predicted.kind] if predicted else [kind for kind in ("text", "label", "number") if kinds[kind]]
        return next((jobs[media, kind] for kind in others if (media, kind) in jobs), jobs[media, "text"])
    if predicted is not None and (texts or text):
        return jobs.get(("text", predicted.kind), jobs["text", "label"])
    if not texts and (kinds["date"] or len(numbers) == 1) and (numbers or any(column.is_number for column in labels)):
        return jobs["", "number"]
    if len(texts) == 2 and (not labels or all(PAIR_NAMES.fullmatch(column.name) for column in texts)) and _alike(texts):
        return jobs["text", "text"]
    if texts and labels:
        return jobs["text", "label"]
    if len(texts) == 1 and len(numbers) == 1:
        return jobs["text", "number"]
    if len(texts) == 1 and len(table.names) == 1:
        return jobs["text", ""]
    described = ", ".join(f"{column.name} ({column.kind})" for column in table.columns[:12])
    choices = _possible_jobs(table, kinds, text, target)
    raise Undecided(f"{table.path} has the columns {described}, from which no job follows", "Which job?", choices)


def _possible_jobs(table: Table, kinds: Kinds, text: str | None, target: str | None) -> list[dict[str, str]]:
    """Jobs with the columns that they would use, the likeliest first."""
    jobs = jobs_by_kinds()
    texts = [text] if text else [column.name for column in sorted(kinds["text"], key=_usual_text)]
    labels = [target] if target else [column.name for column in kinds["label"]]
    numbers = [target] if target else [column.name for column in table.columns if column.is_number]
    possible = [("label", texts[:1], labels), ("text", texts, texts), ("number", texts[:1], numbers)]
    choices = [
        {"task": jobs["text", kind], "text": read, "target": predicted}
        for kind, inputs, outputs in possible
        for read in inputs
        for predicted in outputs
        if read != predicted and (kind != "text" or inputs.index(read) < outputs.index(predicted))
    ]
    if not texts:
        choices += [{"task": jobs["", "number"], "target": number} for number in reversed(numbers)]
    if len(texts) == 1:
        choices.append({"task": jobs["text", ""], "text": texts[0]})
    likeliest = {"task": jobs["text", "label"], "text": text or table.names[0], "target": target or table.names[-1]}
    return choices or [likeliest]


def _usual_text(column: Column) -> bool:
    return column.name.lower() not in TEXT_NAMES


def _alike(texts: Sequence[Column]) -> bool:
    """Whether texts are about as long, in characters or in words: Chinese has few characters for a sentence."""
    sizes = [sorted(column.characters for column in texts), sorted(column.words for column in texts)]
    return any(long <= 2.5 * short for short, long in sizes)


def _columns(task: str, table: Table, kinds: Kinds, text: str | None, target: str | None) -> Inferred:
    """The recipe of a job that declares the columns of its tables."""
    recipe = recipe_class(task)
    read, predicted = recipe.input_column, recipe.target_column
    if predicted is not None:
        target = target or _choose(table, _of_kinds(kinds, predicted, text), predicted, "target")
    columns = _of_kinds(kinds, read, target)
    if text or not read.is_joined:
        names = [text or _choose(table, columns, read, "text")]
    else:
        usual = [column.name for column in columns if column.name.lower() in read.names]
        names = usual[:1] or [column.name for column in columns]
    if not names:
        raise UserError(f"{table.path} has no column of {read.noun}s beside {target!r}; add --text-column")
    reason = f"{read.noun}s in {' and '.join(names)}"
    data = _table_data(table, recipe) | {read.key: names[0] if len(names) == 1 else names}
    if predicted is not None:
        data[predicted.key] = target
        distinct = sum(column.distinct for column in table.columns if column.name == target)
        reason += f", {f'{distinct} ' * (predicted.kinds[0] == 'label')}{predicted.noun}s in {target}"
    texts = [cell for name in names for cell in table.beginning(name)] if read.kinds == ("text",) else []
    return Inferred(task, reason, data, recipe.default_tables(texts) if texts else {})


def _of_kinds(kinds: Kinds, declared: TableColumn, other: str | None) -> list[Column]:
    """The columns of the kinds that a job declares, without one that has another role."""
    return [column for kind in declared.kinds for column in kinds[kind] if column.name != other]


def _table_data(table: Table, recipe: Any) -> dict[str, Any]:
    """The training file, and how it is read where the job's `[data]` says that."""
    data: dict[str, Any] = {"train": table.path}
    if "header" not in recipe.data_fields():
        return data
    data |= {"format": "table"} | ({} if table.has_header else {"header": False})
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


def _lines(task: str, table: Table, kinds: Kinds, text: str | None) -> Inferred:
    """A column of texts, written as lines for a job that reads them."""
    recipe = recipe_class(task)
    column = text or _choose(table, kinds["text"], recipe.input_column, "text")

    def lines() -> Iterator[str]:
        _, rows = table_rows(table.path, [column], header=table.has_header, encoding=table.encoding)
        return (line for [cell] in rows if (line := " ".join(str(cell).split())))

    tables = recipe.default_tables(table.beginning(column, len(table.rows)))
    return Inferred(task, f"texts in {column}", {}, tables, {"train": Conversion(".txt", lines)})


def _has_usual(columns: Sequence[Column], declared: TableColumn) -> bool:
    return any(column.name.lower() in declared.names for column in columns)


def _choose(table: Table, columns: Sequence[Column], declared: TableColumn, option: str) -> str:
    """The only column that may be it, or the one with a usual name.

    Raises:
        Undecided: there is none, or there are several.
    """
    usual = [column.name for column in columns if column.name.lower() in declared.names]
    if len(columns) == 1 or len(usual) == 1:
        return columns[0].name if len(columns) == 1 else usual[0]
    if columns:
        choices, problem = [column.name for column in columns], "several columns that may be"
    else:
        others = [column.name for column in table.columns if column.kind != "text" or option == "text"]
        choices, problem = others or table.names, "no column that looks like"
    shown, what = ", ".join(choices[:50]), f"the {declared.noun}"
    raise Undecided(
        f"{table.path} has {problem} {what} ({shown})", f"Which column is {what}?", [{option: name} for name in choices]
    )


BUILDERS: dict[str, Callable[[Table, Kinds, str | None, str | None], Inferred]] = {  # of jobs with rules of their own
    "translate": _translate,
    "forecast": lambda table, kinds, text, target: infer_series(table, target),
}


def infer_frame(task: str, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The tables of a recipe for a job on a table in memory, whose columns are chosen as those of a file.

    Raises:
        UserError: more than one column is possible, or the job reads no table.
    """
    table = sample_columns(columns)
    inferred = infer_table(table, task, None, None)
    values, files = inferred.values(), dict.fromkeys(inferred.conversions, table.path)
    values["data"] = {key: value for key, value in values["data"].items() if key not in FILE_KEYS} | files
    return values
