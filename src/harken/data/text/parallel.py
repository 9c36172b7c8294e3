"""A corpus of sentence pairs from what the `[data]` table of a recipe names.

    files      source and target: aligned text or tables, plain or compressed, several per side
    a folder   dir and pair: train.en.gz, val.en.gz, test*.en.gz ... as Multi30k lays them out
    built in   corpus = "phrasebook" (generated), "tatoeba" (shipped), or one for another seq2seq job
               (`harken.data.synthetic.seq2seq`): "dates" ...

What is skipped is counted by reason in `Corpus.skipped`, never silently. Length limits hold for the training text
(and what is split off from it); validation and test files that are given are kept whole, so scores stay comparable.
Pairs with one source (case and spacing aside) are one group (`harken.data.splits`): a source that is in the validation
or test data, split off or given as files, is not trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.folders import Split
from harken.data.io.formats import Layout, PairTable, format_of, parse_records, read_pairs, record_pairs
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.records import is_json_lines
from harken.data.io.table import read_table
from harken.data.parts import Division, divide, divide_files, file_digests, read_parts
from harken.data.prepared.blocks import Block
from harken.data.prepared.scan import Reader, RowKind, Scanned
from harken.data.prepared.store import Store, prepared_folder
from harken.data.rows import Columns
from harken.data.splits import DUPLICATES, Size, encode_row, held_out_sizes, row_digest
from harken.data.synthetic.seq2seq import MADE, load_made
from harken.data.text.dependency_heads import read_heads
from harken.data.text.locations import as_list, file_pairs, layout_of, origin, splits_of
from harken.data.text.pairs import Corpus, Pair, nothing_left, pair_key

LEFT_OUT = f"train: source {DUPLICATES}"
END = encode_row(Pair("", "")).removeprefix(b"t" + 2 * ((1).to_bytes(8) + b"s"))  # without alignment and heads


def read_corpus(config: Any) -> Corpus:
    """Read every split that `config` (a `DataConfig`, or any object with its attributes) names.

    Raises:
        UserError: the files cannot be read, do not fit together, or leave a split empty.
    """
    if origin(config) == "corpus":
        return _read_built_in(config)
    splits, layout, skipped = splits_of(config), layout_of(config), Counter[str]()
    files = splits.pop("train")
    folder = prepared_folder(config.prepared, chain(*files))
    on_disk = folder is not None and not config.source_heads
    train = [] if on_disk else _read_split("train", files, layout, config, skipped, limited=True)
    given = {name: _read_split(name, split, layout, config, skipped) for name, split in splits.items()}
    sizes = held_out_sizes(config, given)
    if folder is not None and on_disk:
        contents = file_digests([path for split in splits.values() for side in split for path in side])
        parts = _divide_files(config, files, layout, folder, sizes, [*chain(*given.values())], contents)
    else:
        parts = divide(PAIRS, train, sizes, config.seed, [*chain(*given.values())], reason=LEFT_OUT)
    return _corpus(config, _name(config), parts, given, skipped)


def corpus_of_table(config: Any, table: Mapping[str, list[Any]]) -> Corpus:
    """Pairs out of a table in memory, some split off to validate and to test on.

    Raises:
        UserError: a column that is not there, a cell without anything, or no pair that is long enough.
    """
    skipped = Counter[str]()
    pairs = list(_filtered(pairs_of_table(config, table), "train", config, skipped, limited=True))
    if not pairs:
        raise nothing_left("train", ["the table"], skipped)
    parts = divide(PAIRS, pairs, held_out_sizes(config, ()), config.seed, [], reason=LEFT_OUT)
    return _corpus(config, config.name or "table", parts, {}, skipped)


def pairs_of_table(config: Any, table: Mapping[str, list[Any]]) -> Iterator[Pair]:
    """The pairs of a table in memory.

    The columns are as `data.source_column` and `data.target_column` name them; a dotted name reads nested objects:
    "translation.en". By default they are `source` and `target`, or the only two that hold texts.

    Raises:
        UserError: a column that is not there, or a cell without anything.
    """
    columns_given = config.source_column, config.target_column
    chosen = [list(table)[column] if isinstance(column, int) else column for column in columns_given]
    names = [name or default for name, default in zip(chosen, _text_columns(table), strict=True)]
    columns = read_table(table, names)
    refuse_gaps(columns, names)
    texts = ([" ".join(str(cell).split()) for cell in columns[name]] for name in names)
    return (Pair(*row) for row in zip(*texts, strict=True))


def _text_columns(table: Mapping[str, list[Any]]) -> tuple[str, str]:
    """The two columns that hold a pair where none are named: by their names, or because no others hold texts."""
    firsts = {name: next((cell for cell in cells if cell is not None), None) for name, cells in table.items()}
    texts = [name for name, cell in firsts.items() if isinstance(cell, str)]
    for name, cell in firsts.items():  # {"translation": {"en": ..., "fr": ...}}
        texts += [f"{name}.{key}" for key in cell] if isinstance(cell, Mapping) else []
    return (texts[0], texts[1]) if len(texts) == 2 and not {"source", "target"} <= set(texts) else ("source", "target")


def _corpus(
    config: Any, name: str, parts: Division, given: Mapping[str, Sequence[Pair]], skipped: Mapping[str, int]
) -> Corpus:
    tests: dict[str, Sequence[Pair]] = {**given, **parts.held}
    valid = tests.pop("valid")
    return Corpus(name, *_languages(config), parts.train, valid, tests, {**parts.skipped, **skipped})


def _divide_files(
    config: Any,
    split: Split,
    layout: Layout,
    folder: Path,
    sizes: Mapping[str, Size],
    held_out: Sequence[Pair],
    contents: Any,
) -> Division:
    """The training pairs on disk, read from their files as they are."""
    files = tuple(
        (source,) if target is None or target == source else (source, target)
        for source, target in file_pairs("train", split, layout)
    )

    def lower(columns: Columns) -> Columns:
        return tuple([text.lower() for text in column] for column in columns)

    def check(scanned: Scanned) -> None:
        if not len(scanned.positions):
            raise nothing_left("train", [group[0] for group in files], scanned.skipped)
        scanned.skipped = Counter({f"train: {reason}": count for reason, count in scanned.skipped.items()})

    limits = config.skip_empty, config.max_words, config.max_characters
    tables = _line_tables(files, layout)
    if tables is None:
        return _divide_rows(config, files, layout, folder, sizes, held_out, [contents, limits])
    reader = Reader(
        files,
        layout.max_line_bytes,
        PAIRS,
        lambda block: _parse_block(block, layout, tables),
        config.seed,
        sides=2,
        skip=partial(skip_reason, skip_empty=limits[0], max_words=limits[1], max_characters=limits[2]),
        finish=lower if config.lowercase else lambda columns: columns,
        has_header=lambda block: block.files[0] in tables and bool(tables[block.files[0]].table.dialect.header),
    )
    paths = [path for group in files for path in group]
    contents = [file_digests(paths), contents, [len(group) for group in files], repr(layout), limits, config.lowercase]
    return divide_files(Store(folder), _name(config), reader, contents, sizes, held_out, LEFT_OUT, check)


def _line_tables(files: Sequence[tuple[str, ...]], layout: Layout) -> dict[str, PairTable] | None:
    """The tables among files whose lines are rows; None where some file cannot be read line by line."""
    tables = {}
    if layout.encoding != "utf-8":
        return None
    for path in (group[0] for group in files if len(group) == 1):
        if format_of(path, None, layout.format) == "jsonl":
            if not is_json_lines(path):
                return None
            continue
        tables[path] = PairTable(path, layout)
        tables[path].table.close()
        if not tables[path].is_linewise:
            return None
    return tables


def _parse_block(block: Block, layout: Layout, tables: Mapping[str, PairTable]) -> Columns:
    """Both sides of the pairs of a block of lines."""
    if len(block.files) == 2:
        return [text.strip() for text in block.lines(0)], [text.strip() for text in block.lines(1)]
    path, lines = block.files[0], block.lines(0)
    if path not in tables:
        pairs = list(record_pairs(parse_records(lines, block.first, path), path, layout))
    else:
        skipped = int(block.first == 1 and bool(tables[path].table.dialect.header))
        pairs = list(tables[path].pairs_of(lines[skipped:], block.first + skipped))
    return [source.strip() for source, _ in pairs], [target.strip() for _, target in pairs]


def _divide_rows(
    config: Any,
    files: Sequence[tuple[str, ...]],
    layout: Layout,
    folder: Path,
    sizes: Mapping[str, Size],
    held_out: Sequence[Pair],
    contents: Any,
) -> Division:
    """The training pairs on disk, out of files whose rows are not lines: they are written as rows first."""

    def rows(skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        texts = (
            pair for source, *target in files for pair in read_pairs(source, target[0] if target else None, layout)
        )
        pairs = (_pair(*sides, False, "") for sides in texts)
        reasons: Counter[str] = Counter()
        count = 0
        for pair in _filtered(pairs, "train", config, reasons, limited=True):
            count += 1
            yield pair.source, pair.target
        skipped.update(reasons)
        if not count:
            raise nothing_left("train", [group[0] for group in files], _without_split(reasons))

    paths = [path for group in files for path in group]
    key = [file_digests(paths), contents, repr(layout), config.lowercase]
    parts = read_parts(PAIRS, rows, sizes, config.seed, held_out, folder=folder, name=_name(config), contents=key)
    parts.skipped = {LEFT_OUT if reason == DUPLICATES else reason: n for reason, n in parts.skipped.items()}
    return parts


def skip_reason(
    source: str, target: str, skip_empty: bool, max_words: int | None = None, max_characters: int | None = None
) -> str:
    """Why a pair is left out; empty where it is not."""
    if skip_empty and not (source and target):
        return "empty side"
    if max_characters is not None and (len(source) > max_characters or len(target) > max_characters):
        return f"more than {max_characters} characters"
    if max_words is not None and max(len(source.split()), len(target.split())) > max_words:
        return f"more than {max_words} words"
    return ""


def _pair_digest(source: str, target: str) -> int:
    """`row_digest(encode_row(Pair(source, target)))`, faster."""
    first, second = source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")
    sizes = (len(first) + 1).to_bytes(8), (len(second) + 1).to_bytes(8)
    return row_digest(b"".join((b"t", sizes[0], b"s", first, sizes[1], b"s", second, END)))


PAIRS = RowKind("pairs", Pair, lambda pair: pair_key(pair.source, pair.target), None, pair_key, _pair_digest)


def _read_built_in(config: Any) -> Corpus:
    chosen = {} if config.size is None else {"train": config.size}
    if config.corpus in MADE:
        corpus = load_made(config.corpus, seed=config.seed, **chosen)
    elif config.corpus == "tatoeba":
        from harken.data.tatoeba import load_tatoeba

        corpus = load_tatoeba(direction=config.direction, **chosen)
    else:
        from harken.data.synthetic.phrasebook import load_phrasebook

        corpus = load_phrasebook(direction=config.direction, seed=config.seed, **chosen)
    if not config.lowercase:
        return corpus
    return replace(
        corpus,
        train=_lowercase(corpus.train),
        valid=_lowercase(corpus.valid),
        tests={name: _lowercase(pairs) for name, pairs in corpus.tests.items()},
    )


def _lowercase(pairs: Iterable[Pair]) -> list[Pair]:
    return list(map(_lowercase_pair, pairs))


def _lowercase_pair(pair: Pair) -> Pair:
    return Pair(pair.source.lower(), pair.target.lower(), pair.alignment, pair.heads)


def _read_split(
    name: str, split: Split, layout: Layout, config: Any, skipped: Counter[str], limited: bool = False
) -> list[Pair]:
    def raw() -> Iterator[Pair]:
        for source, target in file_pairs(name, split, layout):
            for line, texts in enumerate(read_pairs(source, target, layout), start=2 if layout.header else 1):
                yield _pair(*texts, config.source_heads, f"{source}, line {line}")

    reasons: Counter[str] = Counter()
    pairs = list(_filtered(raw(), name, config, reasons, limited))
    if not pairs:
        raise nothing_left(name, split.sources, _without_split(reasons))
    skipped.update(reasons)
    return pairs


def _filtered(
    pairs: Iterable[Pair], name: str, config: Any, skipped: Counter[str], limited: bool = False
) -> Iterator[Pair]:
    """Pairs without those that are skipped; length limits hold where `limited`."""
    limits = (config.max_words, config.max_characters) if limited else (None, None)
    for pair in pairs:
        if reason := skip_reason(pair.source, pair.target, config.skip_empty, *limits):
            skipped[f"{name}: {reason}"] += 1
        else:
            yield _lowercase_pair(pair) if config.lowercase else pair


def _without_split(reasons: Mapping[str, int]) -> dict[str, int]:
    return {reason.partition(": ")[2]: count for reason, count in reasons.items()}


def _pair(source: str, target: str, headed: bool, where: str) -> Pair:
    """A pair as it stands on a line, without the space around it."""
    source, heads = read_heads(source, where) if headed else (source.strip(), None)
    return Pair(source, target.strip(), heads=heads)


def _languages(config: Any) -> tuple[str, str]:
    source, target = config.pair.split("-") if config.dir else ("source", "target")
    return config.source_language or source, config.target_language or target


def _name(config: Any) -> str:
    if config.name:
        return str(config.name)
    path = Path(config.dir or as_list(config.source)[0])
    return path.resolve().name if config.dir else path.name.split(".")[0]
