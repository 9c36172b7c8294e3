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
from pathlib import Path
from typing import Any, get_args

from harken.data.io.folders import matching
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.prepared.examples import ExampleKind, StoredExamples, examples_folder, file_digests
from harken.data.prepared.stream import Stream, StreamedRows
from harken.data.series.signals import read_signals
from harken.data.series.step_tables import read_steps
from harken.data.splits import DUPLICATES, Size, size_of
from harken.data.text.examples import Labelled, LabelledSplits, StreamedLabelled, concatenate, split_off, value_key
from harken.data.text.examples_config import ExamplesConfig, Format
from harken.data.text.inputs import configured, labelled_format, trained_format
from harken.data.text.labelled import READERS, cleaned, format_of, read_texts, text_columns, texts_of_table
from harken.errors import UserError

DEFAULT_SIZE = (0.1, 1000)  # 10%, at most 1000


def read_splits(data: ExamplesConfig) -> LabelledSplits:
    """Everything, ready to train.

    Raises:
        UserError: files that cannot be read, or too few examples.
    """
    if data.corpus:
        return _made(data)
    paths = _train_files(data)
    is_lines = data.kind == "text" and all(format_of(path, data) in READERS for path in paths)
    folder = examples_folder(data.prepared, paths) if is_lines else None
    tests = {"test": read_examples(data.split("test")).wholes()} if data.test else {}
    if folder is not None:
        return _stream(data, paths, tests, folder)
    return _split(data, read_examples(data), tests)


def split_table(data: ExamplesConfig, table: Mapping[str, list[Any]]) -> LabelledSplits:
    """The same out of one table in memory: texts with labels, or signals with a row a time step.

    Raises:
        UserError: a column that is not there, a cell without anything, or too few examples.
    """
    if data.kind == "text":
        chosen = read_table(table, [*text_columns(data), data.label_column])
        refuse_gaps(chosen, chosen)
        found = _named(texts_of_table(chosen, data), data)
        found.values = [cleaned(text, data) for text in found.values]
    else:
        found = _named(read_steps(Path("the table"), data, table), data)
    return _split(data, found, {})


def _stream(data: ExamplesConfig, paths: Sequence[Path], tests: dict[str, Labelled], folder: Path) -> LabelledSplits:
    """As `_split`, with training examples that are not in memory (`harken.data.prepared`)."""
    reading = data.model_dump(
        include={"text_column", "label_column", "header", "quotes", "encoding", "names", "label_until"}
        | {"lowercase", "drop_tags"}
    )
    forms, name = [format_of(path, data) for path in paths], data.name or _name(data)
    kind = ExampleKind("labelled", lambda text, label, fine="": (text, label), lambda row: value_key(row[0]))
    stored = StoredExamples(
        folder, name, kind, [file_digests(paths), forms, reading], lambda skipped: _rows(paths, data, skipped)
    )
    given = [read_examples(data.split("valid")).wholes()] if data.valid else []
    stream = stored.divide(_sizes(data, tests), data.seed, [row for part in (*given, *tests.values()) for row in part])
    held = {part: _held_out(stream, part) for part in stream.parts[1:]}
    train = StreamedLabelled(StreamedRows(stream, "train"), bool(data.label_until) or data.names is not None)
    valid = given[0] if given else held["valid"]
    tests = {"test": held["test"]} if "test" in held else tests
    return _require_classes(LabelledSplits(name, train, valid, tests, {**stored.skipped, **stream.skipped}))


def _held_out(stream: Stream, part: str) -> Labelled:
    rows = stream.held_out(part)
    return Labelled([text for text, _ in rows], [label for _, label in rows])


def _rows(paths: Sequence[Path], data: ExamplesConfig, skipped: Counter[str]) -> Iterator[Sequence[str]]:
    """Text, label and fine label (where labels are merged) of every example, as `read_examples` has them."""
    has_fine = bool(data.label_until) or data.names is not None
    names, others, count = _names(data), Counter[str](), 0
    for path in paths:
        for text, fine in READERS[format_of(path, data)](path, data):
            if reason := _reason(text, fine):
                skipped[reason] += 1
                continue
            label = _merged(fine, data)
            if names is not None and label not in names:
                others[label] += 1
                continue
            count += 1
            label = label if names is None else names[label]
            text = cleaned(text, data)
            yield [text, label, fine] if has_fine else [text, label]
    if not count:
        raise _unknown_names(data, others) if others else _nothing(paths[0], skipped)


def _sizes(data: ExamplesConfig, tests: Mapping[str, Labelled]) -> dict[str, Size]:
    """The parts that are split off."""
    sizes: dict[str, Size] = {}
    if not tests and data.test_size:
        sizes["test"] = data.test_size
    if not data.valid:
        sizes["valid"] = size_of(data.valid_size, DEFAULT_SIZE)
    return sizes


def _split(data: ExamplesConfig, train: Labelled, tests: dict[str, Labelled]) -> LabelledSplits:
    skipped = dict(train.skipped)
    parts = split_off(train, _sizes(data, tests), data.seed)
    valid = read_examples(data.split("valid")).wholes() if data.valid else parts["valid"]
    tests = {"test": parts["test"]} if "test" in parts else tests
    train = _once(parts["train"], [valid, *tests.values()], skipped)
    return _require_classes(LabelledSplits(data.name or _name(data), train, valid, tests, skipped))


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
    paths = _train_files(data)
    read = read_texts if data.kind == "text" else read_signals
    found = _named(_complete(concatenate([read(path, data) for path in paths]), paths[0]), data)
    if not len(found):
        raise _nothing(paths[0], {})
    if data.kind == "text":
        found.values = [cleaned(text, data) for text in found.values]
    return found


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
        said: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        chosen = labelled_format(path, own) if form == "auto" else form
        said |= {"corpus": None, "dir": None, "train": str(path), "valid": None, "test": None, "format": chosen}
        found = read_examples(own.model_copy(update=said)).wholes()
        if names is None and own.names and chosen != trained_format(own) and found.fine is not None:
            notes.append(_renamed(path, found))
        notes += [f"{path}: skipped {count:,}: {reason}" for reason, count in found.skipped.items()]
        sets.append(found)
    return concatenate(sets), notes


def _renamed(path: Path, found: Labelled) -> str:
    """How labels of another format than the training data's are understood."""
    pairs = sorted(set(zip(found.fine or (), found.labels, strict=True)))
    if len(pairs) > 1 and len({label for _, label in pairs}) == 1:
        raise UserError(
            f"{path}: the labels {', '.join(label for label, _ in pairs)} all mean {pairs[0][1]!r} by data.names, "
            f"which is for another format; say what they mean, as in --names {pairs[0][0]}={pairs[0][1]},..."
        )
    shown = ", ".join(f"{label} as {name}" for label, name in pairs[:8])
    return f"{path}: labels are read by data.names: {shown}; --names changes that"


def _complete(examples: Labelled, path: Path) -> Labelled:
    """Without rows that have no label or no text, which are counted: nothing is no class.

    Raises:
        UserError: no row is left.
    """
    skipped: dict[str, int] = {}
    rows = []
    for row, (value, label) in enumerate(examples):
        if reason := _reason(value, label):
            skipped[reason] = skipped.get(reason, 0) + 1
        else:
            rows.append(row)
    if not rows and skipped:
        raise _nothing(path, skipped)
    kept = examples.choose(rows) if skipped else examples
    kept.skipped = skipped
    return kept


def _reason(value: Any, label: str) -> str:
    """Why a row is no example; empty where it is one."""
    return "no label" if not label.strip() else "no text" if isinstance(value, str) and not value.strip() else ""


def _nothing(path: Path, skipped: Mapping[str, int]) -> UserError:
    if skipped:
        return UserError(f"{path} has no example with a label and a text; check data.text_column and data.label_column")
    return UserError(f"{path} holds no example; check the file, and data.names if it is given")


def _named(examples: Labelled, data: ExamplesConfig) -> Labelled:
    if data.label_until or data.names is not None:
        examples.fine = list(examples.labels)
    examples.labels = [_merged(label, data) for label in examples.labels]
    names = _names(data)
    if names is None:
        return examples
    kept = examples.choose([row for row, label in enumerate(examples.labels) if label in names])
    if not len(kept) and len(examples):
        raise _unknown_names(data, examples.labels)
    kept.labels = [names[label] for label in kept.labels]
    return kept


def _merged(label: str, data: ExamplesConfig) -> str:
    return label.partition(data.label_until)[0] if data.label_until else label


def _names(data: ExamplesConfig) -> dict[str, str] | None:
    """New names by old ones; files may have the new names already."""
    return None if data.names is None else {**{name: name for name in data.names.values()}, **data.names}


def _unknown_names(data: ExamplesConfig, labels: Iterable[str]) -> UserError:
    return UserError(
        f"data.names has {', '.join(data.names or ())}, but the labels are {', '.join(sorted(set(labels))[:5])} ...; "
        "write the labels as the file has them on the left"
    )


def _once(train: Labelled, held_out: list[Labelled], skipped: dict[str, int]) -> Labelled:
    """Without examples of the held-out sets, and a phrase of a tree only once for each label."""
    known = {value_key(value) for part in held_out for value in part.values}
    seen: set[tuple[str, str]] = set()
    rows = []
    for row, (value, label) in enumerate(train):
        part = train.parts is not None and train.parts[row]
        if value_key(value) in known:
            reason = DUPLICATES
        elif part and (value, label) in seen:
            reason = "phrases seen before"
        else:
            rows.append(row)
            if isinstance(value, str):
                seen.add((value, label))
            continue
        skipped[reason] = skipped.get(reason, 0) + 1
    return train.choose(rows) if len(rows) < len(train) else train


def _name(data: ExamplesConfig) -> str:
    first = data.train if isinstance(data.train, str) else (data.train or [""])[0]
    return Path(data.dir).name if data.dir else Path(first).name.partition(".")[0]


def _made(data: ExamplesConfig) -> LabelledSplits:
    if data.corpus == "opinions":
        from harken.data.synthetic.opinions import make_splits
    else:
        from harken.data.synthetic.gestures import make_splits
    return make_splits(data.size, data.seed)
