"""Running text: splits in order, folders, and tokens just as the text has them."""

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.text.text_config import TextConfig
from harken.data.text.texts import cut_off, read_texts
from harken.data.tokenizers.base import load_tokenizer, train_tokenizer
from harken.data.tokenizers.tokens import UNK
from harken.errors import UserError


@given(st.lists(st.text("ab ", max_size=9), min_size=1, max_size=40), st.floats(0, 0.4), st.floats(0, 0.4))
def test_splits_are_the_text_in_order(lines: list[str], valid: float, test: float) -> None:
    parts = cut_off(lines, (valid, test))
    assert [line for part in parts for line in part] == lines
    total = sum(len(line) + 1 for line in lines)
    if test:
        assert sum(len(line) + 1 for line in parts[2]) >= test * total - 1e-6


def test_the_last_tenth_is_the_last_tenth() -> None:
    train, valid, test = cut_off([f"{number:03}" for number in range(1000)], (0.02, 0.1))
    assert (len(train), len(valid), len(test)) == (880, 20, 100)
    assert (valid[0], test[0]) == ("880", "900")


def test_a_folder_by_the_words_in_its_names(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("no text of ours")
    with gzip.open(tmp_path / "ptb.train.txt.gz", "wt") as file:
        file.write("a b\nc\n")
    with lzma.open(tmp_path / "ptb.valid.txt.xz", "wt") as file:
        file.write("d\n")
    (tmp_path / "ptb.test.txt").write_text("e\n\nf\n")
    corpus = read_texts(TextConfig(dir=str(tmp_path)))
    assert (corpus.name, corpus.train, corpus.valid, corpus.test) == ("ptb", ["a b", "c"], ["d"], ["e", "", "f"])


def test_a_folder_with_one_file_is_split(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    corpus = read_texts(TextConfig(dir=str(tmp_path), valid_size=0.1, test_size=0.2))
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [14, 2, 4]


def test_the_phrasebook_is_always_there() -> None:
    corpus = read_texts(TextConfig(corpus="phrasebook", size=50))
    assert len(corpus.train) == 50 and len(corpus.test) == 1000
    assert all(line and line == line.strip() for line in corpus.train)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.dir .* does not exist"):
        read_texts(TextConfig(dir=str(tmp_path / "nowhere")))
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    with pytest.raises(UserError, match=r"no file with train in its name \(a.txt, b.txt\)"):
        read_texts(TextConfig(dir=str(tmp_path)))
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UserError, match="holds no text to train on"):
        read_texts(TextConfig(train=str(tmp_path / "empty.txt")))
    with pytest.raises(UserError, match=r"did you mean a\.txt"):
        read_texts(TextConfig(train=str(tmp_path / "aa.txt")))


def test_unknown_words_of_the_text_are_the_unknown_word(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("plain word", ["the <unk> of N % , <unk>", "the end ."], size=100)
    assert tokenizer.size == 4 + 7
    ids = tokenizer.encode("the <unk> zebra ,")
    assert ids[1] == ids[2] == UNK
    assert tokenizer.decode(ids) == "the <unk> <unk> ,"
    tokenizer.save(tmp_path, "tokenizer")
    assert load_tokenizer(tmp_path, "tokenizer").encode("the end .") == tokenizer.encode("the end .")


@given(st.text("ab \t", max_size=20))
def test_characters_come_back_as_they_were(text: str) -> None:
    tokenizer = train_tokenizer("plain character", ["ab \t"], size=100)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_word_of_a_character() -> None:
    tokenizer = train_tokenizer("plain character", ["ab "], size=100)
    assert tokenizer.word_of(tokenizer.encode("ab  b"), "ab  b") == [0, 0, 1, 1, 1]
