"""Training, validation and test examples as a `[data]` table names them.

What is not named is split off from training, whole groups at a time (`harken.data.splits`). A training example that
is also in the validation or the test is left out and counted.

>>> splits = read_splits(ExamplesConfig(corpus="opinions", size=100))
>>> len(splits.train), sorted(set(splits.train.labels))
(100, ['negative', 'positive'])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from harken.data.io.folders import matching
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.parts import file_digests, folder_for, read_parts
from harken.data.prepared.scan import RowKind
from harken.data.rows import rows_of
from harken.data.series.signals import read_signals
from harken.data.series.step_tables import read_steps
from harken.data.splits import DUPLICATES, held_out_sizes
from harken.data.text.examples import Example, Labelled, LabelledSplits, split_off, value_key
from harken.data.text.examples_config import ExamplesConfig, Format
from harken.data.text.inputs import configured, labelled_format, trained_format
from harken.data.text.labelled import READERS, cleaned, format_of, iterate_texts, table_examples, text_columns
from harken.errors import UserError

DEFAULT_SIZE = (0.1, 1000)  # 10%, at most 1000


def read_splits(data: ExamplesConfig) -> LabelledSplits:
    """Everything, ready to train.

    Raises:
        UserError: files that cannot be read, or too few examples.
    """
    if data.corpus:
        return _generated(data)
    paths = _train_files(data)
    given = {part: read_examples(data.split(part)).wholes() for part in ("test", "valid") if getattr(data, part)}
    is_lines = data.kind == "text" and all(format_of(path, data) in READERS for path in paths)
    folder = folder_for(data.prepared, paths) if is_lines else None
    if folder is None:
        return _split(data, read_examples(data), given)
    kind = RowKind("labelled", lambda text, label, fine="": (text, label), lambda row: value_key(row[0]))
    settings = {"text_column", "label_column", "header", "quotes", "encoding", "names", "label_until"}
    reading = data.model_dump(include=settings | {"lowercase", "drop_tags"})
    has_fine, name = _has_fine(data), data.name or _name(data)

    def rows(skipped: Counter[str]) -> Iterator[tuple[str, ...]]:
        for example in _examples(data, paths, skipped):
            yield (example.value, example.label, example.fine) if has_fine else (example.value, example.label)

    parts = read_parts(
        kind,
        rows,
        held_out_sizes(data, given, DEFAULT_SIZE),
        data.seed,
        [row for part in given.values() for row in part],
        folder=folder,
        name=name,
        contents=[file_digests(paths), [format_of(path, data) for path in paths], reading],
    )
    held = {part: Labelled.of(Example(*row) for row in rows) for part, rows in parts.held.items()}
    train = Labelled.on_disk(rows_of(parts.train), has_fine)
    return _splits(name, train, {**given, **held}, parts.skipped)


def split_table(data: ExamplesConfig, table: Mapping[str, list[Any]]) -> LabelledSplits:
    """The splits of one table in memory: texts with labels, or signals with a row a time step.

    Raises:
        UserError: a column that is not there, a cell without anything, or too few examples.
    """
    if data.kind == "text":
        chosen = read_table(table, [*text_columns(data), data.label_column])
        refuse_gaps(chosen, chosen)
        raw: Iterable[Example] = table_examples(zip(*chosen.values(), strict=True))
    else:
        raw = read_steps(Path("the table"), data, table).examples()
    skipped: Counter[str] = Counter()
    return _split(data, Labelled.of(_selected(raw, data, skipped, "the table"), _has_fine(data), skipped), {})


def _split(data: ExamplesConfig, train: Labelled, given: Mapping[str, Labelled]) -> LabelledSplits:
    skipped = dict(train.skipped)
    held = split_off(train, held_out_sizes(data, given, DEFAULT_SIZE), data.seed, data.stratify)
    train, held = held.pop("train"), {**given, **held}
    return _splits(data.name or _name(data), _once(train, [*held.values()], skipped), held, skipped)


def _splits(name: str, train: Labelled, held: dict[str, Labelled], skipped: dict[str, int]) -> LabelledSplits:
    return _require_classes(LabelledSplits(name, train, held.pop("valid"), held, skipped))


def _has_fine(data: ExamplesConfig) -> bool:
    return bool(data.label_until) or data.names is not None


def _require_classes(splits: LabelledSplits) -> LabelledSplits:
    classes = {label for label, _ in splits.train.label_counts()}
    if len(classes) < 2:
        raise UserError(
            f"the training examples have {len(classes)} class ({', '.join(classes)}); give at least two, and check "
            "data.label_column"
        )
    return splits


def read_examples(data: ExamplesConfig) -> Labelled:
    """All examples of the files that `data.train` names, labels called as `data.names` has it.

    Raises:
        UserError: no file is named, or one cannot be read.
    """
    skipped: Counter[str] = Counter()
    return Labelled.of(_examples(data, _train_files(data), skipped), _has_fine(data), skipped)


def _examples(data: ExamplesConfig, paths: Sequence[Path], skipped: Counter[str]) -> Iterator[Example]:
    """The examples of files one by one."""

    def raw() -> Iterator[Example]:
        for path in paths:
            yield from iterate_texts(path, data) if data.kind == "text" else read_signals(path, data).examples()

    return _selected(raw(), data, skipped, str(paths[0]))


def _selected(raw: Iterable[Example], data: ExamplesConfig, skipped: Counter[str], where: str) -> Iterator[Example]:
    """Examples with a label and a text, their labels called as `data.names` has it; what is left out is counted.

    Raises:
        UserError: no example is left.
    """
    names, others, count = _names(data), Counter[str](), 0
    for example in raw:
        value, fine = example.value, example.label
        if (
            reason := "no label"
            if not fine.strip()
            else "no text"
            if isinstance(value, str) and not value.strip()
            else ""
        ):
            skipped[reason] += 1
            continue
        label = fine.partition(data.label_until)[0] if data.label_until else fine
        if names is not None and label not in names:
            others[label] += 1
            continue
        count += 1
        label = label if names is None else names[label]
        yield example._replace(value=cleaned(value, data) if isinstance(value, str) else value, label=label, fine=fine)
    if others and not count:
        raise UserError(
            f"data.names has {', '.join(data.names or ())}, but the labels are {', '.join(sorted(others)[:5])} ...; "
            "write the labels as the file has them on the left"
        )
    if skipped and not count:
        raise UserError(f"{where} has no example with a label and a text; check data.text_column and data.label_column")
    if not count:
        raise UserError(f"{where} holds no example; check the file, and data.names if it is given")


def _train_files(data: ExamplesConfig) -> list[Path]:
    paths = matching(data.dir, data.train)
    if not paths:
        raise UserError("the recipe names no data; set data.train to files, or data.corpus to opinions or gestures")
    return paths


def read_files(
    data: ExamplesConfig,
    paths: Sequence[Path],
    form: str = "auto",
    text_column: str | None = None,
    label_column: str | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[Labelled, list[str]]:
    """The examples of files that the recipe may not name, for `harken evaluate`; and notes on how they are read.

    Args:
        data: the `[data]` table of the model's training; a file that its data.valid or data.test names is read as
            these say.
        form: a value of data.format; auto: by the name and the first lines of each file.
        text_column, label_column: in the place of data.text_column and data.label.
        names: new name for each label of the files, in the place of data.names.

    Raises:
        UserError: a file cannot be read, or its labels are all one class by data.names.
    """
    if form != "auto" and form not in get_args(Format):
        raise UserError(f"--format {form} is not known; choose from {', '.join(get_args(Format))}")
    sets, notes = [], []
    for path in paths:
        own = configured(path, data)
        given = {"text_column": text_column, "label_column": label_column, "names": names and dict(names)}
        overrides: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        chosen = labelled_format(path, own) if form == "auto" else form
        overrides |= {"corpus": None, "dir": None, "train": str(path), "valid": None, "test": None, "format": chosen}
        examples = read_examples(own.model_copy(update=overrides)).wholes()
        if names is None and own.names and chosen != trained_format(own) and examples.fine is not None:
            notes.append(_renamed(path, examples))
        notes += [f"{path}: skipped {count:,}: {reason}" for reason, count in examples.skipped.items()]
        sets.append(examples)
    return Labelled.of(chain.from_iterable(part.examples() for part in sets)), notes


def _renamed(path: Path, examples: Labelled) -> str:
    """The meanings of labels of another format than the training data's."""
    pairs = sorted(set(zip(examples.fine or (), examples.labels, strict=True)))
    if len(pairs) > 1 and len({label for _, label in pairs}) == 1:
        raise UserError(
            f"{path}: the labels {', '.join(label for label, _ in pairs)} all mean {pairs[0][1]!r} by data.names, "
            f"which is for another format; say what they mean, as in --names {pairs[0][0]}={pairs[0][1]},..."
        )
    shown = ", ".join(f"{label} as {name}" for label, name in pairs[:8])
    return f"{path}: labels are read by data.names: {shown}; --names changes that"


def _names(data: ExamplesConfig) -> dict[str, str] | None:
    """New names by old ones; files may have the new names already."""
    return None if data.names is None else {**{name: name for name in data.names.values()}, **data.names}


def _once(train: Labelled, held_out: list[Labelled], skipped: dict[str, int]) -> Labelled:
    """Training examples without those of the held-out sets, each phrase of a tree once for each label."""
    known = {value_key(value) for part in held_out for value in part.values}
    phrases: set[tuple[str, str]] = set()
    rows = []
    for row, (value, label) in enumerate(train):
        part = train.parts is not None and train.parts[row]
        if value_key(value) in known:
            reason = DUPLICATES
        elif part and (value, label) in phrases:
            reason = "phrases seen before"
        else:
            rows.append(row)
            if isinstance(value, str):
                phrases.add((value, label))
            continue
        skipped[reason] = skipped.get(reason, 0) + 1
    return train.choose(rows) if len(rows) < len(train) else train


def _name(data: ExamplesConfig) -> str:
    first = data.train if isinstance(data.train, str) else (data.train or [""])[0]
    return Path(data.dir).name if data.dir else Path(first).name.partition(".")[0]


def _generated(data: ExamplesConfig) -> LabelledSplits:
    if data.corpus == "opinions":
        from harken.data.synthetic.opinions import make_splits
    else:
        from harken.data.synthetic.gestures import make_splits
    return make_splits(data.size, data.seed)
