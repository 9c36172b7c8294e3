"""Streamed lines equal those that are read into memory: running text and lines by themselves."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harken.data.prepared import blocks
from harken.data.prepared.disk_rows import DiskRows
from harken.data.rows import rows_of
from harken.data.text.text_config import LinesConfig, TextConfig
from harken.data.text.texts import read_line_splits, read_texts
from harken.data.tokenizers.base import train_tokenizer
from harken.errors import UserError
from harken.tasks.language.task import corpus_ids
from harken.tasks.masked.task import as_rows

WORDS = ["the", "cat", "sat", "über", "mats", "while", "<unk>", "it", "rains", ",", "don't"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many blocks."""
    monkeypatch.setattr(blocks.read_blocks, "__defaults__", (blocks.MAX_LINE_BYTES, 700))
    monkeypatch.setattr("harken.worker_pool.available_cores", lambda: 2)


def write(path: Path, count: int, seed: int) -> list[str]:
    chosen = random.Random(seed)
    lines = [" ".join(chosen.choices(WORDS, k=chosen.randint(0, 7))) for _ in range(count)]
    lines[4] = "   "
    lines[-3] = lines[6] = "The same line"
    path.write_text("\n".join(lines), encoding="utf-8")
    return lines


@pytest.mark.parametrize("held", ["shares", "no test", "files"])
def test_running_text_equals_the_one_in_memory(tmp_path: Path, held: str) -> None:
    write(tmp_path / "a.txt", 300, 1)
    write(tmp_path / "b.txt", 100, 2)
    said = {"train": [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]}
    if held == "no test":
        said |= {"test_size": 0.0}
    elif held == "files":
        write(tmp_path / "v.txt", 20, 3)
        said |= {"valid": str(tmp_path / "v.txt")}
    inside, streamed = read_texts(TextConfig(**said)), read_texts(TextConfig(**said, prepared=str(tmp_path / "p")))
    assert isinstance(streamed.train, DiskRows)
    assert [list(part) for part in (streamed.train, streamed.valid, streamed.test)] == [
        list(part) for part in (inside.train, inside.valid, inside.test)
    ]
    assert streamed.digests() == inside.digests() and streamed.name == inside.name


@pytest.mark.parametrize("kind", ["plain word", "plain character", "bpe", "unigram"])
@pytest.mark.parametrize("ended", [True, False])
def test_ids_of_running_text(tmp_path: Path, kind: str, ended: bool) -> None:
    write(tmp_path / "a.txt", 300, 1)
    said = {"train": str(tmp_path / "a.txt"), "lines": ended}
    inside, streamed = read_texts(TextConfig(**said)), read_texts(TextConfig(**said, prepared=str(tmp_path / "p")))
    tokenizer = train_tokenizer(kind, inside.train, 40)
    assert isinstance(streamed.train, DiskRows)
    again = train_tokenizer(kind, streamed.train.column(0), 40)
    assert again.encode_all(WORDS) == tokenizer.encode_all(WORDS) and again.size == tokenizer.size
    for part in ("train", "valid"):
        expected = corpus_ids(tokenizer, getattr(inside, part), ended)
        found = corpus_ids(tokenizer, getattr(streamed, part), ended)
        assert found.dtype == np.uint16 and np.array_equal(found, expected)


@pytest.mark.parametrize("with_files", [True, False])
def test_lines_by_themselves_equal_those_in_memory(tmp_path: Path, with_files: bool) -> None:
    lines = write(tmp_path / "a.txt", 400, 1)
    said: dict[str, object] = {"train": str(tmp_path / "a.txt"), "min_words": 2, "lowercase": True, "valid_size": 0.1}
    if with_files:
        (tmp_path / "v.txt").write_text("\n".join([*lines[10:20], "a line of its own"]))
        said |= {"valid": str(tmp_path / "v.txt"), "test": str(tmp_path / "v.txt")}
    inside = read_line_splits(LinesConfig(**said))
    streamed = read_line_splits(LinesConfig(**said, prepared=str(tmp_path / "p")))
    assert isinstance(streamed.train, DiskRows)
    assert list(streamed.train) == inside.train and streamed.valid == inside.valid and streamed.test == inside.test
    assert streamed.skipped == inside.skipped and inside.skipped
    assert streamed.digests() == inside.digests()
    for rows in (streamed.train, rows_of(inside.train)):
        assert rows.find(lambda text: isinstance(text, str)) == 0 and rows.find(lambda text: text is None) is None
    counts = Counter({"often": 2, "once": 1})
    assert streamed.train.without_rare(counts, most=1) == {"often": 2}
    assert rows_of(inside.train).without_rare(counts, most=1) == streamed.train.without_rare(counts, most=2) == counts
    tokenizer = train_tokenizer("word", inside.train, 100)
    expected, found = as_rows(inside.train, tokenizer, 4), as_rows(streamed.train, tokenizer, 4)
    assert np.array_equal(found.flat, expected.flat) and np.array_equal(found.offsets, expected.offsets)


def test_blank_texts_and_short_lines_are_refused_alike(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("  \n\n")
    (tmp_path / "b.txt").write_text("a few words\n" + "\n" * 40)

    def message(name: str, kind: type, **said: object) -> str:
        with pytest.raises(UserError) as problem:
            if kind is TextConfig:
                read_texts(TextConfig(train=str(tmp_path / name), **said))
            else:
                read_line_splits(LinesConfig(train=str(tmp_path / name), **said))
        return str(problem.value)

    prepared = {"prepared": str(tmp_path / "p")}
    for name, kind in (("a.txt", TextConfig), ("b.txt", TextConfig), ("a.txt", LinesConfig), ("b.txt", LinesConfig)):
        assert message(name, kind, **prepared) == message(name, kind)
