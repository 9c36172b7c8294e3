"""Text to a stream of ids: counting, pruning, phrases, and what is refused."""

import gzip
import itertools
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.embeddings import phrases
from harken.embeddings.corpus import Corpus, read_corpus
from harken.errors import UserError

TEXT = "The cat saw the dog .\nthe dog ran\n\nA cat and a dog in New York\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def sentences_of(corpus: Corpus) -> list[list[str]]:
    ends = np.flatnonzero(corpus.stream == -1)
    parts = np.split(corpus.stream, ends + 1)[:-1]
    return [[corpus.vocabulary.words[number] for number in part[:-1]] for part in parts]


def test_words_are_counted_and_numbered_by_frequency(text: Path) -> None:
    corpus = read_corpus([text], min_count=2)
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True)) == {
        "the": 3,
        "dog": 3,
        "cat": 2,
        "a": 2,
    }
    assert sentences_of(corpus) == [["the", "cat", "the", "dog"], ["the", "dog"], ["a", "cat", "a", "dog"]]
    assert (corpus.words_read, corpus.words, corpus.sentences, corpus.left_out) == (16, 10, 3, 6)


def test_case_and_tokens_are_options(text: Path) -> None:
    corpus = read_corpus([text], min_count=1, lower=False, tokens="spaces")
    assert {"The", "the", ".", "New", "York"} <= set(corpus.vocabulary.words)
    with pytest.raises(UserError, match='tokens is "letters"'):
        read_corpus([text], tokens="letters")


def test_several_files_packed_or_not_are_one_corpus(tmp_path: Path, text: Path) -> None:
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "c.xz").write_bytes(lzma.compress(TEXT.encode()))
    one = read_corpus([text], min_count=1)
    three = read_corpus([text, tmp_path / "b.gz", tmp_path / "c.xz"], min_count=1)
    assert three.vocabulary.words == one.vocabulary.words
    assert three.stream.tolist() == one.stream.tolist() * 3


def test_the_stream_is_mapped_and_goes_with_the_corpus(tmp_path: Path, text: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    corpus = read_corpus([text], folder=place, min_count=1)
    assert isinstance(corpus.stream, np.memmap)
    assert len(list(place.rglob("*.i32"))) == 1
    del corpus
    assert list(place.iterdir()) == []


def test_the_vocabulary_can_be_cut_short(text: Path) -> None:
    corpus = read_corpus([text], min_count=1, max_vocabulary=2)
    assert corpus.vocabulary.words == ["the", "dog"]
    assert corpus.words == 6


def test_pieces_and_long_lines_change_nothing_else(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_corpus([text], min_count=1, phrases=1, phrase_threshold=0.5)
    monkeypatch.setattr("harken.embeddings.corpus.CHUNK", 3)
    monkeypatch.setattr("harken.embeddings.phrases.CHUNK", 3)
    pieces = read_corpus([text], min_count=1, phrases=1, phrase_threshold=0.5)
    assert pieces.stream.tolist() == whole.stream.tolist()
    assert pieces.vocabulary.words == whole.vocabulary.words
    monkeypatch.setattr("harken.embeddings.corpus.MAX_SENTENCE", 2)
    cut = read_corpus([text], min_count=1)
    assert [len(sentence) for sentence in sentences_of(cut)] == [2, 2, 1, 2, 1, 2, 2, 2, 2]


def test_phrases_are_joined_by_their_score(tmp_path: Path) -> None:
    file = tmp_path / "towns.txt"
    lines = ["we saw new york today", "new york is old", "old york is new", "a new day in new york"] * 3
    file.write_text("\n".join(lines))
    corpus = read_corpus([file], min_count=1, phrases=1, phrase_threshold=4)
    words = sum(len(line.split()) for line in lines)
    score = (9 - 1) / (15 * 12) * words  # new york: 9 times, new 15, york 12
    assert score > 2
    assert ("new_york" in corpus.vocabulary.words) == (score > 4)
    corpus = read_corpus([file], min_count=1, phrases=1, phrase_threshold=score - 0.01)
    assert corpus.vocabulary.counts[corpus.vocabulary.words.index("new_york")] == 9
    corpus = read_corpus([file], min_count=1, phrases=1, phrase_threshold=score + 0.01)
    assert "new_york" not in corpus.vocabulary.words


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=6))
def test_joining_is_a_walk_from_left_to_right(sentences: list[list[int]]) -> None:
    stream = np.array([number for sentence in sentences for number in [*sentence, -1]], dtype=np.int32)
    wanted_pairs = [(0, 1), (1, 1), (2, 0)]
    found = phrases.join_pairs(stream, 4, np.array([a * 4 + b for a, b in wanted_pairs]))
    walked = []
    for sentence in sentences:
        at = 0
        while at < len(sentence):
            pair = tuple(sentence[at : at + 2])
            walked.append(4 + wanted_pairs.index(pair) if pair in wanted_pairs else sentence[at])
            at += 2 if pair in wanted_pairs else 1
        walked.append(-1)
    assert found.tolist() == walked
    pairs, counts = phrases.pair_counts(stream, 4)
    expected = Counter(pair for sentence in sentences for pair in itertools.pairwise(sentence))
    assert {(p // 4, p % 4): c for p, c in zip(pairs.tolist(), counts.tolist(), strict=True)} == dict(expected)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no words were found"),
        ("\n \n", "no words were found"),
        ("same same same\nsame", 'the only word is "same", 4 times'),
        ("a b c d a", '0 occur at least 5 times.*"a", 2 times.*lower min-count'),
    ],
)
def test_a_corpus_without_anything_to_learn_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "text.txt"
    file.write_text(content)
    with pytest.raises(UserError, match=said):
        read_corpus([file])


def test_files_that_cannot_be_read_are_named(tmp_path: Path, text: Path) -> None:
    with pytest.raises(UserError, match=r"text\.tx does not exist: did you mean text\.txt"):
        read_corpus([text, tmp_path / "text.tx"])
    (tmp_path / "bad.txt").write_bytes(b"good line\nbad \xff line\n")
    with pytest.raises(UserError, match=r"bad\.txt, line 2 is not valid UTF-8"):
        read_corpus([tmp_path / "bad.txt"])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode() * 100)[:-20])
    with pytest.raises(UserError, match="ends in the middle of its compressed data"):
        read_corpus([tmp_path / "cut.gz"])


def test_keep_probabilities_are_the_formula(text: Path) -> None:
    vocabulary = read_corpus([text], min_count=1).vocabulary
    keep = vocabulary.keep_probabilities(0.1)
    share = 3 / 16
    assert keep[0] == pytest.approx((0.1 / share) ** 0.5 + 0.1 / share) or keep[0] == 1.0
    assert vocabulary.keep_probabilities(0.01)[0] == pytest.approx((0.01 / share) ** 0.5 + 0.01 / share)
    assert (vocabulary.keep_probabilities(0) == 1).all()


def test_words_spelt_alike_are_found(text: Path) -> None:
    vocabulary = read_corpus([text], min_count=1).vocabulary
    assert vocabulary.near("Dog") == ["dog"]
    assert vocabulary.near("yorkk") == ["york"]
    assert vocabulary.near("zzzzzz") == []
