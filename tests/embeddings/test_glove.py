"""GloVe: counts and steps equal the reference, tiles hold every pair once, and the vectors make sense."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import itertools

from made_text import made_corpus

from harken.embeddings.corpus import Corpus
from harken.embeddings.glove import training as glove
from harken.embeddings.glove.reference import Side, cooccurrences, step
from harken.embeddings.glove.training import GloveSettings, Pairs, count_pairs, train_glove
from harken.embeddings.vocabulary import Vocabulary
from harken.errors import UserError

pytest.importorskip("numba")


def counted(corpus: Corpus, window: int = 3, threads: int = 1) -> Pairs:
    return count_pairs(corpus, window=window, cap=10.0, power=0.75, threads=threads, seed=1)


@pytest.mark.parametrize("side", [1, 3, 5, 100])
@pytest.mark.parametrize("window", [1, 4])
def test_counts_are_the_reference(side: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove, "SIDE", side)
    corpus = made_corpus()
    found = counted(corpus, window)
    expected = cooccurrences(corpus.stream.tolist(), 12, window)
    matrix = np.zeros((12, 12))
    np.add.at(matrix, (found.rows, found.columns), np.exp(found.logs))  # a pair that is there twice would show
    np.testing.assert_allclose(matrix, expected, rtol=1e-5)
    assert len(found) == np.count_nonzero(expected)
    np.testing.assert_allclose(
        found.weights, np.minimum(1, expected[found.rows, found.columns] / 10) ** 0.75, rtol=1e-5
    )
    for tile in range(len(found.tiles) - 1):  # all of a tile are of one block of rows and one of columns
        mine = slice(found.tiles[tile], found.tiles[tile + 1])
        assert (
            len(set(zip((found.rows[mine] // side).tolist(), (found.columns[mine] // side).tolist(), strict=True))) <= 1
        )


def test_threads_and_files_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(glove, "SIDE", 3)
    corpus = made_corpus()
    one, two = counted(corpus), counted(corpus, threads=3)
    monkeypatch.setattr(glove, "IN_MEMORY", 10)
    filed = count_pairs(corpus, window=3, cap=10.0, power=0.75, threads=1, seed=1, folder=tmp_path)
    assert len(list(tmp_path.rglob("rows"))) == 1
    for other in (two, filed):
        assert np.array_equal(one.rows, other.rows)
        assert np.array_equal(one.columns, other.columns)
        assert np.array_equal(one.logs, other.logs)
    del filed, other
    assert list(tmp_path.iterdir()) == []


def test_the_kernel_is_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove, "SIDE", 4)
    monkeypatch.setattr(glove, "LEAST", 10)
    monkeypatch.setattr(glove, "MOST", 25)
    corpus = made_corpus()
    settings = GloveSettings(width=9, window=3, epochs=3, threads=1)
    trained = train_glove(corpus, settings)
    found = counted(corpus)
    spans = glove._spans(found)
    assert spans[0][0] == 0 and spans[-1][1] == len(found) and len(spans) > 5
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    sides = [
        Side(side[:, 0, :9].astype(float), side[:, 0, -1].astype(float), np.ones((12, 9)), np.ones(12))
        for side in glove._sides(12, settings)
    ]
    losses = []
    for epoch in range(3):
        loss = 0.0
        for span in np.random.default_rng((1, epoch)).permutation(len(spans)):
            for pair in range(*spans[span]):
                i, j = found.rows[pair], found.columns[pair]
                loss += step(sides[0], sides[1], i, j, found.logs[pair], found.weights[pair], settings.rate)
        losses.append(loss / len(found))
    np.testing.assert_allclose(trained.inputs, sides[0].vectors + sides[1].vectors, atol=1e-4)
    np.testing.assert_allclose(trained.outputs, sides[1].vectors, atol=1e-4)
    assert trained.progress.losses == pytest.approx(losses, rel=1e-4)
    assert losses[-1] < 0.7 * losses[0]


def test_words_of_one_kind_come_close() -> None:
    corpus = made_corpus(words=10, sentences=400)
    vectors = train_glove(corpus, GloveSettings(width=8, window=3, epochs=60, threads=2)).inputs
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = unit @ unit.T
    same = np.equal.outer(np.arange(10) % 2, np.arange(10) % 2) & ~np.eye(10, dtype=bool)
    assert likeness[same].mean() > likeness[~same & ~np.eye(10, dtype=bool)].mean() + 0.3


def test_one_thread_repeats_to_the_bit() -> None:
    first, again = (train_glove(made_corpus(), GloveSettings(width=8, threads=1)) for _ in range(2))
    assert np.array_equal(first.inputs, again.inputs)
    assert first.progress.losses == again.progress.losses
    assert first.progress.words == first.progress.total


def test_what_cannot_be_is_refused() -> None:
    alone = Corpus(Vocabulary(["a", "b"], [2, 2]), np.array([0, -1, 1, -1, 0, -1, 1, -1], dtype=np.int32), 4)
    with pytest.raises(UserError, match="No sentence has two known words"):
        train_glove(alone, GloveSettings(width=4, threads=1))
    with pytest.raises(UserError, match="window is 0"):
        GloveSettings(window=0)
    with pytest.raises(UserError, match=r"cap is 0\.0"):
        GloveSettings(cap=0.0)
