"""Streamed pairs equal those that are read into memory: parts, reasons, digests, tokenizers, ids and errors."""

import csv
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harken.data.prepared import blocks
from harken.data.prepared.disk_rows import DiskRows
from harken.data.rows import rows_of
from harken.data.splits import digest, group_position, split_groups, split_positions
from harken.data.text.config import DataConfig, TokenizerConfig
from harken.data.text.pairs import Pair
from harken.data.text.parallel import read_corpus
from harken.data.text.placeholders import Placeholders
from harken.data.tokenizers.base import train_tokenizers
from harken.errors import UserError
from harken.tasks.translate.sources import encode_pairs

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "der", "Hund", "über", "München", "lief", ",", "don't", "!"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many blocks."""
    monkeypatch.setattr(blocks.read_blocks, "__defaults__", (blocks.MAX_LINE_BYTES, 700))
    monkeypatch.setattr("harken.worker_pool.available_cores", lambda: 2)


def lines(count: int, seed: int) -> list[str]:
    """Some are equal but for case, some empty, some long."""
    chosen = random.Random(seed)
    made = [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 9))) for _ in range(count)]
    made[3], made[11], made[17] = "", "  The   CAT ", "the cat"
    made[20] = " ".join(["mat"] * 40)
    return made


def sides(pairs: Sequence[Pair]) -> tuple[Sequence[str], Sequence[str]]:
    rows = rows_of(pairs)
    return rows.column(0), rows.column(1)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "train.en").write_text("\n".join(lines(400, 1)) + "\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("\r\n".join(lines(400, 2)), encoding="utf-8")
    held = [*lines(30, 3), *lines(400, 1)[50:60]]
    (tmp_path / "dev.en").write_text("\n".join(held) + "\n", encoding="utf-8")
    (tmp_path / "dev.de").write_text("\n".join(lines(40, 4)) + "\n", encoding="utf-8")
    return tmp_path


def both(folder: Path, **said: object) -> tuple[DataConfig, DataConfig]:
    values = {"source": str(folder / "train.en"), "target": str(folder / "train.de"), "max_words": 30, **said}
    return DataConfig(**values), DataConfig(**values, prepared=str(folder / "prepared"))


CASES = {
    "default split": {},
    "counts": {"valid_size": 20, "test_size": 30, "seed": 4},
    "shares": {"valid_size": 0.3, "test_size": 0.3, "lowercase": True},
    "everything kept": {"skip_empty": False, "max_words": None},
}


@pytest.mark.parametrize("name", CASES)
def test_streamed_corpus_equals_the_one_in_memory(files: Path, name: str) -> None:
    inside, streamed = (read_corpus(config) for config in both(files, **CASES[name]))
    assert isinstance(streamed.train, DiskRows) and isinstance(inside.train, list)
    assert list(streamed.train) == inside.train and len(streamed.train) == len(inside.train)
    assert streamed.valid == inside.valid and streamed.tests == inside.tests
    assert streamed.skipped == inside.skipped
    assert streamed.digests() == inside.digests()
    assert streamed.train[7] == inside.train[7] and streamed.train[5:9] == inside.train[5:9]


def test_held_out_files_are_left_out_of_training(files: Path) -> None:
    said = {"valid": {"source": str(files / "dev.en"), "target": str(files / "dev.de")}, "test_size": 0.1}
    inside, streamed = (read_corpus(config) for config in both(files, **said))
    assert inside.skipped["train: source also in the validation or test data"] >= 8
    assert streamed.skipped == inside.skipped and list(streamed.train) == inside.train
    assert streamed.digests() == inside.digests()


@pytest.mark.parametrize(
    "kind", [{"kind": "word"}, {"kind": "character", "joint": False}, {"kind": "bpe", "size": 60, "max_lines": 150}]
)
def test_tokenizers_and_ids_equal_those_in_memory(files: Path, kind: dict[str, object]) -> None:
    config = TokenizerConfig(**kind)
    inside, streamed = (read_corpus(data) for data in both(files))
    expected = train_tokenizers(config, *sides(inside.train), seed=5)
    found = train_tokenizers(config, *sides(streamed.train), seed=5)
    texts = [pair.target for pair in inside.valid]
    assert found[1].size == expected[1].size and found[1].encode_all(texts) == expected[1].encode_all(texts)
    ids, mapped = (
        encode_pairs(inside.train, *expected, Placeholders()),
        encode_pairs(streamed.train, *found, Placeholders()),
    )
    assert mapped.source.flat.dtype == np.uint16
    for side in ("source", "target"):
        assert np.array_equal(getattr(ids, side).flat, getattr(mapped, side).flat)
        assert np.array_equal(getattr(ids, side).offsets, getattr(mapped, side).offsets)
    for one, other in zip(ids.batches(64, seed=1, epoch=2), mapped.batches(64, seed=1, epoch=2), strict=True):
        assert np.array_equal(one, other)
        assert np.array_equal(ids.batch(one).target_input, mapped.batch(other).target_input)


def test_a_second_run_reads_no_text_again(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, config = both(files)
    corpus = read_corpus(config)
    tokenizers = train_tokenizers(TokenizerConfig(kind="word"), *sides(corpus.train))
    before = encode_pairs(corpus.train, *tokenizers, Placeholders())
    monkeypatch.setattr("harken.data.prepared.scan.read_blocks", lambda *args: pytest.fail("the text is read again"))
    again = read_corpus(config)
    assert again.digests() == corpus.digests() and again.valid == corpus.valid
    assert np.array_equal(encode_pairs(again.train, *tokenizers, Placeholders()).source.flat, before.source.flat)


def test_changed_files_and_settings_have_entries_of_their_own(files: Path) -> None:
    _, config = both(files)
    first = read_corpus(config)
    (files / "train.en").write_text("\n".join(lines(400, 9)), encoding="utf-8")
    assert list(read_corpus(config).train) != list(first.train)
    assert len(read_corpus(both(files, valid_size=9)[1]).valid) == 9


@pytest.mark.parametrize("form", ["tsv", "jsonl", "header", "gz", "csv", "json", "utf-16"])
def test_other_formats(files: Path, form: str) -> None:
    pairs = [(a.strip(), b.strip()) for a, b in zip(lines(300, 1), lines(300, 2), strict=True)]
    said: dict[str, object] = {"target": None}
    if form == "csv":
        path = files / "all.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(
                [("source", "target"), *((a.replace(" ", "\n", 1), f"{b}, yes") for a, b in pairs)]
            )
    elif form == "json":
        path = files / "all.json"
        path.write_text(json.dumps([{"source": a, "target": b} for a, b in pairs]))
    elif form == "jsonl":
        path, text = files / "all.jsonl", "\n".join(json.dumps({"source": a, "target": b}) for a, b in pairs)
        path.write_text(text)
    else:
        path, text = files / "all.tsv", "\n".join(f"{b}\t{a}" for a, b in pairs)
        said |= {"source_column": 1, "target_column": 0}
        if form == "header":
            said |= {"header": True, "source_column": "en", "target_column": "de"}
            text = "de\ten\n" + text
        path.write_text(text, encoding="utf-16" if form == "utf-16" else "utf-8")
    if form == "gz":
        path = files / "all.tsv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    inside, streamed = (read_corpus(config) for config in both(files, source=str(path), **said))
    assert list(streamed.train) == inside.train and streamed.digests() == inside.digests()


def message(config: DataConfig) -> str:
    with pytest.raises(UserError) as problem:
        read_corpus(config)
    return str(problem.value)


@pytest.mark.parametrize(
    "wrong", ["unequal", "bytes", "long", "column", "empty", "skipped", "all held out", "no rest", "cut gz"]
)
def test_errors_are_those_of_the_reader_in_memory(files: Path, wrong: str) -> None:
    said: dict[str, object] = {}
    if wrong == "unequal":
        (files / "train.de").write_text("\n".join(lines(390, 2)) + "\n")
    elif wrong == "bytes":
        (files / "train.de").write_bytes("\n".join(lines(400, 2)).encode().replace(b"mat", b"m\xfft", 200))
    elif wrong == "long":
        (files / "train.en").write_text("\n".join([*lines(380, 1), "x" * 500, *lines(400, 1)[381:]]))
        said = {"max_line_bytes": 400}
    elif wrong == "column":
        (files / "a.tsv").write_text("one\tun\n" * 200 + "two\n" + "one\tun\n" * 9)
        said = {"source": str(files / "a.tsv"), "target": None}
    elif wrong == "empty":
        (files / "train.en").write_text("")
        (files / "train.de").write_text("")
    elif wrong == "skipped":
        said = {"max_characters": 1, "max_words": None}
    elif wrong == "all held out":
        said = {"valid": {"source": str(files / "train.en"), "target": str(files / "train.de")}}
    elif wrong == "no rest":
        (files / "train.en").write_text("go\nGo\n")
        (files / "train.de").write_text("va\nva\n")
    else:
        (files / "a.tsv.gz").write_bytes(
            gzip.compress(random.Random(1).randbytes(4000).hex().encode() + b"\tb\n")[:900]
        )
        said = {"source": str(files / "a.tsv.gz"), "target": None}
    inside, streamed = both(files, **said)
    assert message(streamed) == message(inside)
    assert not [path for path in files.glob("prepared/*") if path.is_dir()]


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_placed_by_their_positions_as_by_their_keys(seed: int) -> None:
    chosen = random.Random(seed)
    keys = [f"group {chosen.randint(0, 60)}" for _ in range(chosen.choice([3, 40, 400]))]
    every = [5, 1, 0.2, (0.05, 3), (0.5, 20), 60]
    sizes = dict(zip(("test", "valid"), chosen.sample(every, 2), strict=True))
    positions = np.array([group_position(seed, key) for key in keys], dtype=np.uint64)
    try:
        expected = split_groups(keys, sizes, seed)
    except UserError as problem:
        with pytest.raises(UserError) as other:
            split_positions(positions, sizes)
        assert str(other.value) == str(problem)
        return
    for name, groups in split_positions(positions, sizes).items():
        assert np.flatnonzero(np.isin(positions, np.array(groups, dtype=np.uint64))).tolist() == expected[name]


def test_digest_of_streamed_rows(files: Path) -> None:
    corpus = read_corpus(both(files)[1])
    assert corpus.train.digest() == digest(list(corpus.train))
