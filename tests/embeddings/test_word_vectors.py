"""Vectors to look things up in, the files they live in, and what is said of broken ones."""

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.embeddings import vocabulary
from harken.embeddings.evaluation import evaluate_file, spearman
from harken.embeddings.formats import FORMATS, read_vectors, write_vectors
from harken.embeddings.vectors import OneHot, WordVectors
from harken.embeddings.word2vec.settings import Subwords
from harken.errors import UserError

WORDS = ["the", "naïve", "cat", "dog", "日本", "queen"]


@pytest.fixture
def vectors() -> WordVectors:
    matrix = np.random.default_rng(4).normal(size=(6, 5)).astype(np.float32)
    return WordVectors(WORDS, matrix, [60, 50, 40, 30, 20, 10], card={"settings": {"epochs": 3}})


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_similarity_and_neighbors_are_cosines(vectors: WordVectors) -> None:
    cat = vectors.vector("cat")
    assert vectors.similarity("cat", "dog") == pytest.approx(cosine(cat, vectors.vector("dog")), abs=1e-6)
    expected = sorted(((cosine(cat, vectors.vector(w)), w) for w in WORDS if w != "cat"), reverse=True)
    found = vectors.neighbors("cat", 3)
    assert [word for word, _ in found] == [word for _, word in expected[:3]]
    assert [score for _, score in found] == pytest.approx([score for score, _ in expected[:3]], abs=1e-5)
    assert len(vectors.neighbors("cat", 100)) == 5
    assert vectors.neighbors("cat", 0) == []


def test_an_analogy_is_b_minus_a_plus_c(vectors: WordVectors) -> None:
    a, b, c = (vectors.vector(w) / np.linalg.norm(vectors.vector(w)) for w in ("the", "cat", "dog"))
    rest = {w: cosine(b - a + c, vectors.vector(w)) for w in WORDS if w not in ("the", "cat", "dog")}
    assert vectors.analogy("the", "cat", "dog", 1)[0][0] == max(rest, key=lambda word: rest[word])


def test_a_vector_of_zeros_is_like_nothing() -> None:
    vectors = WordVectors(["a", "b", "c"], [[0, 0], [1, 0], [1, 1]])
    assert vectors.similarity("a", "b") == 0
    assert vectors.neighbors("a", 2) == [("b", 0.0), ("c", 0.0)]
    assert vectors.neighbors("b", 2)[0][0] == "c"


def test_an_unknown_word_is_named_with_those_like_it(vectors: WordVectors) -> None:
    with pytest.raises(UserError, match='"quen" is not among the 6 words: did you mean queen'):
        vectors.vector("quen")
    with pytest.raises(UserError, match="did you mean cat"):
        vectors.neighbors("Cat")
    assert "Cat" not in vectors and "cat" in vectors


def test_n_grams_stand_for_unseen_words() -> None:
    subwords = Subwords(2, 3, 50)
    ngrams = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    vectors = WordVectors(["ab"], np.ones((1, 4)), None, subwords, ngrams)
    assert vectors.vector("ab").tolist() == [1, 1, 1, 1]
    expected = ngrams[subwords.rows("abc")].mean(0)
    np.testing.assert_allclose(vectors.vector("abc"), expected, rtol=1e-6)
    assert vectors.knows("abc") and "abc" not in vectors
    assert vectors.neighbors("abc", 1)[0][0] == "ab"


def test_one_hot_words_are_all_equally_far() -> None:
    vectors = OneHot(WORDS)
    assert {vectors.similarity(a, b) for a in WORDS for b in WORDS if a != b} == {0.0}
    assert vectors.width == len(vectors) == 6
    assert vectors.vector("cat") @ vectors.vector("cat") == 1
    with pytest.raises(UserError, match="did you mean cat"):
        vectors.vector("catt")


def test_a_folder_gives_back_all_of_it(tmp_path: Path, vectors: WordVectors) -> None:
    vectors.save(tmp_path / "out")
    loaded = WordVectors.load(tmp_path / "out")
    assert isinstance(loaded.matrix, np.memmap)
    assert np.array_equal(loaded.matrix, vectors.matrix)
    assert loaded.words == WORDS
    assert loaded.vocabulary.counts.tolist() == [60, 50, 40, 30, 20, 10]
    assert loaded.card["settings"] == {"epochs": 3}
    assert loaded.neighbors("cat") == vectors.neighbors("cat")
    loaded.save(tmp_path / "again")
    assert json.loads((tmp_path / "again/card.json").read_text()) == json.loads(
        (tmp_path / "out/card.json").read_text()
    )


def test_n_grams_are_kept_in_the_folder(tmp_path: Path) -> None:
    ngrams = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    vectors = WordVectors(["ab", "cd"], np.ones((2, 4)), None, Subwords(2, 3, 50), ngrams)
    vectors.save(tmp_path / "out")
    loaded = WordVectors.load(tmp_path / "out")
    assert np.array_equal(loaded.vector("unseen"), vectors.vector("unseen"))


def test_a_large_folder_opens_at_once(tmp_path: Path) -> None:
    vectors = WordVectors([f"w{number}" for number in range(200_000)], np.ones((200_000, 20), dtype=np.float32))
    vectors.save(tmp_path / "out")
    loaded = WordVectors.load(tmp_path / "out")
    assert loaded.vector("w199999").tolist() == [1.0] * 20
    assert "words" not in loaded.vocabulary.__dict__  # they were not read for it


def test_the_index_finds_what_a_dictionary_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alike = ["plumless", "buckeroo"]  # two words with one CRC
    words = [*alike, "été", "東京", *(f"w{number}" for number in range(500))]
    WordVectors(words, np.arange(len(words) * 2).reshape(-1, 2)).save(tmp_path / "out")
    assert len({zlib.crc32(word.encode()) for word in alike}) == 1
    monkeypatch.setattr(vocabulary, "MANY", 0)  # never a dictionary
    loaded = WordVectors.load(tmp_path / "out").vocabulary
    assert [loaded.id_of(word) for word in words] == list(range(len(words)))
    assert [loaded.word_at(number) for number in range(len(words))] == words
    assert "w500" not in loaded and "" not in loaded and len(loaded) == len(words)
    monkeypatch.undo()
    assert [loaded.id_of(word) for word in [*words, "w500"]] == [*range(len(words)), None]


def test_folders_without_an_index_are_read_whole(tmp_path: Path) -> None:
    WordVectors(["a", "b"], np.eye(2)).save(tmp_path / "out")
    (tmp_path / "out" / "index.npy").unlink()
    assert WordVectors.load(tmp_path / "out").neighbors("a", 1) == [("b", 0.0)]
    WordVectors(["a", "b"], np.eye(2)).save(tmp_path / "out")
    (tmp_path / "out" / "words.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(UserError, match="its index do not fit 2 vectors: save the vectors again"):
        WordVectors.load(tmp_path / "out").vector("a")


def test_looking_needs_neither_torch_nor_numba(tmp_path: Path, vectors: WordVectors) -> None:
    vectors.save(tmp_path / "out")
    code = (
        "import sys; from harken.embeddings.vectors import WordVectors; "
        f"WordVectors.load({str(tmp_path / 'out')!r}).neighbors('cat'); print({{'torch', 'numba'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_every_format_gives_back_what_was_written(tmp_path: Path, vectors: WordVectors, form: str, suffix: str) -> None:
    write_vectors(vectors, tmp_path / f"file{suffix}", form)
    for loaded in (WordVectors.load(tmp_path / f"file{suffix}"), read_vectors(tmp_path / f"file{suffix}", form)):
        assert loaded.words == WORDS
        assert np.array_equal(loaded.matrix, vectors.matrix)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=8),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.integers(2, 5),
    st.sampled_from(FORMATS),
)
def test_any_words_survive(tmp_path_factory: pytest.TempPathFactory, words: list[str], width: int, form: str) -> None:
    matrix = np.random.default_rng(len(words)).normal(size=(len(words), width)).astype(np.float32)
    path = tmp_path_factory.mktemp("any") / "file"
    write_vectors(WordVectors(words, matrix), path, form)
    loaded = read_vectors(path, form)
    assert loaded.words == words
    assert np.array_equal(loaded.matrix, matrix)


def test_binary_without_line_feeds_is_read(tmp_path: Path) -> None:
    numbers = np.array([1.5, -2], dtype="<f4").tobytes()
    (tmp_path / "file.bin").write_bytes(b"2 2\nab " + numbers + b"cd " + numbers)
    loaded = WordVectors.load(tmp_path / "file.bin")
    assert loaded.words == ["ab", "cd"]
    assert loaded.matrix.tolist() == [[1.5, -2], [1.5, -2]]


def test_words_with_blanks_and_words_twice(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("a 1 2 3\n. . 4 5 6\na 7 8 9\n")
    loaded = WordVectors.load(tmp_path / "glove.txt")
    assert loaded.words == ["a", ". ."]
    assert loaded.matrix.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"2 3\na 1 2 3\nb 1 2\n", "line 3 has 2 numbers where 3 are wanted"),
        (b"2 3\na 1 2 3 4\nb 1 2 3\n", "line 2 has 4 numbers where 3 are wanted"),
        (b"a 1 2 3\nb 1 2 3\nc 1 2\n", "line 3 has 2 numbers where 3"),
        (b"2 3\na 1 2 3\nb 1 x 3\n", "line 3 has something among its numbers"),
        (b"3 2\na 1 2\nb 1 2\n", "says it has 3 words and has 2"),
        (b"2 2\na 1 2\n\xff\xfe 1 2\n", "line 3 is not valid UTF-8"),
        (b"a 1 nan\n", "not finite"),
        (b"", "has no vectors in it"),
        (b"just text\n", "line 1 is not a word and its numbers"),
        (b"0 5\n", "has no vectors in it"),
        (b"2 2\nab " + b"\0\0\x80?\0\0\x80?" + b"\ncd \0\0", "ends inside word 2 of 2"),
        (b"1 2\n\xff\xfe " + b"\0\0\x80?\0\0\x80?", "word 1 of 1 is not valid UTF-8"),
        (
            b"\xba\x16\x4f\x2f\x0c\0\0\0" + bytes(range(128, 256)),
            "a model of fastText in binary form: give its .vec file",
        ),
    ],
)
def test_broken_files_are_refused_with_the_place(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UserError, match=said) as error:
        WordVectors.load(tmp_path / "file")
    assert "\n" not in str(error.value) and "file" in str(error.value)


def test_a_cut_archive_is_refused(tmp_path: Path, vectors: WordVectors) -> None:
    write_vectors(vectors, tmp_path / "file.gz", "glove")
    packed = (tmp_path / "file.gz").read_bytes()
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match=r"cut\.gz is damaged"):
        WordVectors.load(tmp_path / "cut.gz")
    (tmp_path / "no.gz").write_bytes(gzip.compress(b"1 2\nab \0\0")[:-3])
    with pytest.raises(UserError, match=r"no\.gz"):
        WordVectors.load(tmp_path / "no.gz")


def test_broken_folders_are_refused(tmp_path: Path, vectors: WordVectors) -> None:
    with pytest.raises(UserError, match="holds no word vectors"):
        WordVectors.load(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        WordVectors.load(tmp_path / "nowhere")
    out = tmp_path / "out"
    vectors.save(out)
    with pytest.raises(UserError, match=r"did you mean .*out"):
        WordVectors.load(tmp_path)
    (out / "words.txt").write_text("one\n")
    with pytest.raises(UserError, match=r"words\.txt and its index do not fit 6 vectors"):
        WordVectors.load(out).vector("one")
    whole = (out / "vectors.npy").read_bytes()
    (out / "vectors.npy").write_bytes(whole[:-10])
    with pytest.raises(UserError, match=r"vectors\.npy cannot be mapped"):
        WordVectors.load(out)
    (out / "vectors.npy").unlink()
    with pytest.raises(UserError, match=r"vectors\.npy is missing"):
        WordVectors.load(out)
    (out / "card.json").write_text('{"kind": "something else"}')
    with pytest.raises(UserError, match="does not say"):
        WordVectors.load(out)


def test_spearman_is_the_correlation_of_ranks() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.normal(size=50), generator.normal(size=50)
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    assert spearman(first, second) == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_similarity_sets_and_analogies_with_coverage(tmp_path: Path) -> None:
    vectors = WordVectors(["king", "man", "woman", "queen", "car"], [[2, 1], [0, 1], [0, -1], [2, -1], [-1, 0.2]])
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("word1\tword2\tscore\nKing\tqueen\t9\nking\tman\t7\r\nking woman 3\nking,car,1\nking,bicycle,5\n")
    (result,) = evaluate_file(vectors, pairs)
    ours = [vectors.similarity("king", word) for word in ("queen", "man", "woman", "car")]
    assert result.score == pytest.approx(spearman(ours, [9, 7, 3, 1]))
    assert (result.name, result.measure, result.covered, result.total) == ("pairs", "Spearman", 4, 5)
    questions = tmp_path / "questions.txt"
    questions.write_text(": royal\nman king woman queen\nman king woman car\n: wheels\nman bicycle woman car\n")
    royal, wheels, whole = evaluate_file(vectors, questions)
    assert (royal.name, royal.score, royal.covered, royal.total) == ("royal", 0.5, 2, 2)
    assert (wheels.score, wheels.covered, wheels.total) == (None, 0, 1)
    assert (whole.score, whole.covered, whole.total) == (0.5, 2, 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("king queen 1\nking queen\n", "line 2 is not two words and a score"),
        (": a\na b c\n", "line 2 is not four words"),
        ("\n", "is empty"),
    ],
)
def test_test_files_that_are_none_are_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "test.txt").write_text(content)
    with pytest.raises(UserError, match=said):
        evaluate_file(WordVectors(["king", "queen"], np.eye(2)), tmp_path / "test.txt")


@pytest.mark.parametrize("form", FORMATS[:2])
def test_gensim_reads_ours_and_we_read_gensims(tmp_path: Path, vectors: WordVectors, form: str) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    binary = form == "word2vec-binary"
    write_vectors(vectors, tmp_path / "ours", form)
    theirs = keyed.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
    for word in WORDS:
        ours = vectors.neighbors(word, 4)
        found = theirs.most_similar(word, topn=4)
        assert [name for name, _ in ours] == [name for name, _ in found]
        assert [score for _, score in ours] == pytest.approx([score for _, score in found], abs=1e-5)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    back = WordVectors.load(tmp_path / "theirs")
    assert back.words == WORDS
    assert np.array_equal(back.matrix, vectors.matrix)
