"""A corpus of sentence pairs from what the `[data]` table of a recipe names.

    files      source and target: aligned text, TSV or JSONL, plain, .gz or .xz, several per side
    a folder   dir and pair: train.en.gz, val.en.gz, test*.en.gz ... as Multi30k lays them out
    built in   corpus = "phrasebook", or one for another seq2seq job (`harken.data.synthetic.seq2seq`): "dates" ...

What is skipped is counted by reason in `Corpus.skipped`, never silently. Length limits hold for the training text
(and what is split off from it); validation and test files that are given are kept whole, so scores stay comparable.
Pairs with one source (case and spacing aside) are one group (`harken.data.splits`): a source that is in the validation
or test data, split off or given as files, is not trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from harken.data.io.files import require_file
from harken.data.io.folders import Split
from harken.data.io.formats import Layout, read_pairs
from harken.data.prepared.store import prepared_folder
from harken.data.splits import Size, size_of, split_groups, without_held_out
from harken.data.synthetic.seq2seq import MADE, load_made
from harken.data.text.dependency_heads import read_heads
from harken.data.text.locations import as_list, file_pairs, layout_of, origin, splits_of
from harken.data.text.pairs import Corpus, Pair, nothing_left, pair_key


def read_corpus(config: Any) -> Corpus:
    """Read every split that `config` (a `DataConfig`, or any object with its attributes) names.

    Raises:
        UserError: the files cannot be read, do not fit together, or leave a split empty.
    """
    if origin(config) == "corpus":
        return _read_built_in(config)
    splits = splits_of(config)
    layout = layout_of(config)
    chosen = getattr(config, "prepared", None)
    folder = prepared_folder(chosen, chain(*splits["train"]))
    if folder is not None and not config.source_heads:
        return _stream_corpus(config, splits, layout, folder)
    skipped: Counter[str] = Counter()
    train = _read_split("train", splits.pop("train"), layout, config, skipped, limited=True)
    valid_files = splits.pop("valid", None)
    tests = {name: _read_split(name, files, layout, config, skipped) for name, files in splits.items()}
    sizes: dict[str, Size] = {}
    if not tests and config.test_size:
        sizes["test"] = config.test_size
    if valid_files is None:
        sizes["valid"] = size_of(config.valid_size)
    rows = split_groups([_key(pair) for pair in train], sizes, config.seed)
    parts = {name: [train[row] for row in chosen] for name, chosen in rows.items()}
    valid = parts["valid"] if valid_files is None else _read_split("valid", valid_files, layout, config, skipped)
    tests = {"test": parts["test"]} if "test" in parts else tests
    train, left_out = without_held_out(parts["train"], [valid, *tests.values()], _key)
    skipped.update({f"train: source {reason}": count for reason, count in left_out.items()})
    source_language, target_language = _languages(config)
    return Corpus(_name(config), source_language, target_language, train, valid, dict(tests), dict(skipped))


def _stream_corpus(config: Any, splits: dict[str, Split], layout: Layout, folder: Path) -> Corpus:
    """As `read_corpus`, with training pairs that are not in memory (`harken.data.prepared`)."""
    from harken.data.prepared.pairs import PairReader, stream_pairs
    from harken.data.prepared.stream import StreamedRows

    skipped: Counter[str] = Counter()
    files = tuple(
        (source,) if target is None or target == source else (source, target)
        for source, target in file_pairs("train", splits.pop("train"), layout)
    )
    given_files = [path for name, split in splits.items() for side in split for path in side]
    given = {name: _read_split(name, split, layout, config, skipped) for name, split in splits.items()}
    sizes: dict[str, Size] = {}
    if not given.keys() - {"valid"} and config.test_size:
        sizes["test"] = config.test_size
    if "valid" not in given:
        sizes["valid"] = size_of(config.valid_size)
    limits = config.max_words, config.max_characters, config.lowercase
    reader = PairReader(files, layout, config.seed, config.skip_empty, *limits)
    name, (source_language, target_language) = _name(config), _languages(config)
    stream = stream_pairs(folder, name, reader, sizes, [*chain(*given.values())], given_files)
    held: dict[str, Sequence[Pair]] = {**given, **{part: stream.held_out(part) for part in sizes}}
    train, valid = StreamedRows(stream, "train"), held.pop("valid")
    return Corpus(name, source_language, target_language, train, valid, held, {**stream.skipped, **skipped})


def check_files(config: Any) -> list[Path]:
    """Every file that `read_corpus` would read, after looking that each exists and that its first pair is readable.

    Raises:
        UserError: as `read_corpus`, for what can be known so far.
    """
    if origin(config) == "corpus":
        return []
    layout = layout_of(config)
    found: list[Path] = []
    for name, split in splits_of(config).items():
        for source, target in file_pairs(name, split, layout):
            found.append(require_file(source))
            if target is not None and target != source:
                found.append(require_file(target))
            for texts in islice(read_pairs(source, target, layout), 1):
                _pair(*texts, config.source_heads, f"{source}, line {2 if layout.header else 1}")
    return found


def _read_built_in(config: Any) -> Corpus:
    chosen = {} if config.size is None else {"train": config.size}
    if config.corpus in MADE:
        corpus = load_made(config.corpus, seed=config.seed, **chosen)
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
    return [Pair(pair.source.lower(), pair.target.lower(), pair.alignment, pair.heads) for pair in pairs]


def _read_split(
    name: str, split: Split, layout: Layout, config: Any, skipped: Counter[str], limited: bool = False
) -> list[Pair]:
    def raw() -> Iterator[Pair]:
        for source, target in file_pairs(name, split, layout):
            for line, texts in enumerate(read_pairs(source, target, layout), start=2 if layout.header else 1):
                yield _pair(*texts, config.source_heads, f"{source}, line {line}")

    max_words = config.max_words if limited else None
    max_characters = config.max_characters if limited else None
    reasons: Counter[str] = Counter()
    pairs: list[Pair] = []
    for pair in raw():
        source, target = pair.source, pair.target
        if config.skip_empty and not (source and target):
            reasons["empty side"] += 1
        elif max_characters is not None and max(len(source), len(target)) > max_characters:
            reasons[f"more than {max_characters} characters"] += 1
        elif max_words is not None and max(len(source.split()), len(target.split())) > max_words:
            reasons[f"more than {max_words} words"] += 1
        else:
            pairs.append(pair)
    skipped.update({f"{name}: {reason}": count for reason, count in reasons.items()})
    if not pairs:
        raise nothing_left(name, split.sources, reasons)
    return _lowercase(pairs) if config.lowercase else pairs


def _pair(source: str, target: str, headed: bool, where: str) -> Pair:
    """A pair as it stands on a line, without the space around it."""
    source, heads = read_heads(source, where) if headed else (source.strip(), None)
    return Pair(source, target.strip(), heads=heads)


def _key(pair: Pair) -> str:
    return pair_key(pair.source, pair.target)


def _languages(config: Any) -> tuple[str, str]:
    source, target = config.pair.split("-") if config.dir else ("source", "target")
    return config.source_language or source, config.target_language or target


def _name(config: Any) -> str:
    if config.name:
        return str(config.name)
    path = Path(config.dir or as_list(config.source)[0])
    return path.resolve().name if config.dir else path.name.split(".")[0]
