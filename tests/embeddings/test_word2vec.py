"""word2vec: the kernel is its reference, one thread repeats to the bit, and the vectors make sense."""

import itertools
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from made_text import made_corpus

from harken.embeddings import training as spans
from harken.embeddings.corpus import Corpus
from harken.embeddings.word2vec import reference
from harken.embeddings.word2vec import training as word2vec
from harken.embeddings.word2vec.sampling import Draws, alias_table, huffman_tree, span_state
from harken.embeddings.word2vec.settings import Settings, Subwords
from harken.embeddings.word2vec.training import train_word2vec
from harken.errors import UserError

pytest.importorskip("numba")


def by_reference(corpus: Corpus, settings: Settings) -> tuple[reference.Model, list[float]]:
    """The training of `train_word2vec` with one thread, by the reference."""
    vocabulary = corpus.vocabulary
    bags: list[list[int]] = []
    if settings.subwords:
        starts, rows = settings.subwords.bags(vocabulary.words)
        bags = [rows[starts[word] : starts[word + 1]].tolist() for word in range(len(vocabulary))]
    size = len(vocabulary) + (settings.subwords.buckets if settings.subwords else 0)
    first = np.random.default_rng(settings.seed).random((size, settings.width), dtype=np.float32)
    model = reference.Model(
        (2 * first - 1) / np.float32(settings.width),
        np.zeros((len(vocabulary), settings.width), dtype=np.float32),
        huffman_tree(vocabulary.counts) if settings.hierarchical else None,
        bags,
    )
    cuts = word2vec.span_cuts(len(corpus.stream))
    losses = []
    for epoch in range(settings.epochs):
        loss, terms = 0.0, 0
        for span, (start, stop) in enumerate(itertools.pairwise(cuts)):
            done = (epoch * (len(cuts) - 1) + span) / ((len(cuts) - 1) * settings.epochs)
            lost, count = reference.train_span(
                model,
                corpus.stream[start:stop].tolist(),
                vocabulary.keep_probabilities(settings.sample),
                alias_table(vocabulary.counts),
                window=settings.window,
                negatives=settings.negatives,
                is_cbow=settings.method == "cbow",
                rate=settings.rate_at(done),
                state=span_state(settings.seed, epoch, span),
            )
            loss, terms = loss + lost, terms + count
        losses.append(loss / terms)
    return model, losses


@pytest.mark.parametrize("method", ["skipgram", "cbow"])
@pytest.mark.parametrize("hierarchical", [False, True])
@pytest.mark.parametrize("subwords", [None, Subwords(2, 3, 20)])
@pytest.mark.parametrize("negatives", [1, 5])
def test_the_kernel_is_the_reference(
    method: str, hierarchical: bool, subwords: Subwords | None, negatives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word2vec, "SPAN", 97)  # pieces that cut sentences
    monkeypatch.setattr(word2vec, "span_cuts", lambda length: [*range(0, length, 97), length])
    settings = Settings(
        method=method,
        hierarchical=hierarchical,
        subwords=subwords,
        negatives=negatives,
        width=19,
        window=3,
        sample=0.05,
        rate=0.1,
        epochs=2,
        threads=1,
    )
    corpus = made_corpus()
    trained = train_word2vec(corpus, settings)
    model, losses = by_reference(corpus, settings)
    np.testing.assert_allclose(trained.inputs, model.inputs, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(
        trained.outputs[: len(corpus.vocabulary)], model.outputs[: len(corpus.vocabulary)], atol=1e-4, rtol=1e-4
    )
    assert trained.progress.losses == pytest.approx(losses, rel=1e-5)
    assert np.abs(trained.inputs).max() > 0.05  # something was trained, or equal would say little


def test_the_step_is_the_gradient_of_its_loss() -> None:
    generator = np.random.default_rng(1)
    hidden = generator.normal(size=(2, 4))
    outputs = generator.normal(size=(3, 4))
    rows, answers = [2, 0], [1, 0]

    def loss(hidden: Any, outputs: Any) -> float:
        return reference.step(hidden, outputs.copy(), rows, answers, 0.0)[1]

    moved = outputs.copy()
    change, _ = reference.step(hidden, moved, rows, answers, 1.0)
    for place in np.ndindex(2, 4):
        bump = np.zeros((2, 4))
        bump[place] = 1e-5
        slope = (loss(hidden + bump, outputs) - loss(hidden - bump, outputs)) / 2e-5
        assert change[place] == pytest.approx(-slope, abs=1e-5)
    for place in np.ndindex(3, 4):
        bump = np.zeros((3, 4))
        bump[place] = 1e-5
        slope = (loss(hidden, outputs + bump) - loss(hidden, outputs - bump)) / 2e-5
        assert (moved - outputs)[place] == pytest.approx(-slope, abs=1e-5)


def test_one_thread_repeats_to_the_bit_and_another_seed_does_not() -> None:
    corpus = made_corpus()
    first, again = (train_word2vec(corpus, Settings(width=16, threads=1, seed=5)) for _ in range(2))
    other = train_word2vec(corpus, Settings(width=16, threads=1, seed=6))
    assert np.array_equal(first.inputs, again.inputs)
    assert first.progress.losses == again.progress.losses
    assert not np.allclose(first.inputs, other.inputs)


@pytest.mark.parametrize("method", ["skipgram", "cbow"])
def test_words_of_one_kind_come_close(method: str) -> None:
    corpus = made_corpus(words=10, sentences=400)
    settings = Settings(method=method, width=16, window=3, sample=0, epochs=15, rate=0.1, threads=2)
    vectors = train_word2vec(corpus, settings).inputs
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = unit @ unit.T
    same = np.equal.outer(np.arange(10) % 2, np.arange(10) % 2) & ~np.eye(10, dtype=bool)
    assert likeness[same].mean() > likeness[~same & ~np.eye(10, dtype=bool)].mean() + 0.5


def test_ctrl_c_keeps_the_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = made_corpus(sentences=300)
    told = []

    def tell(progress: spans.Progress) -> None:
        told.append(progress.words)
        if len(told) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(spans, "EVERY", 0.02)
    trained = train_word2vec(corpus, Settings(width=16, epochs=200_000, threads=2), tell)
    assert trained.progress.stopped
    assert 0 < trained.progress.words < trained.progress.total
    assert np.isfinite(trained.inputs).all()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("harken-words")]


def test_divergence_raises() -> None:
    with pytest.raises(UserError, match=r"loss is NaN.*lower the learning rate"):
        train_word2vec(made_corpus(), Settings(width=8, rate=1e30, epochs=50, threads=1))


def test_progress_adds_up() -> None:
    corpus = made_corpus()
    progress = train_word2vec(corpus, Settings(width=8, epochs=3, threads=2)).progress
    assert progress.words == progress.total == 3 * corpus.words_read
    assert len(progress.losses) == 3
    assert progress.words_per_second > 0
    assert progress.seconds_left == 0


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30))
def test_the_alias_table_holds_every_weight(counts: list[int]) -> None:
    height, other = alias_table(np.array(counts))
    mass = np.zeros(len(counts))
    np.add.at(mass, np.arange(len(counts)), height)
    np.add.at(mass, other, 1 - height)
    wanted = np.array(counts) ** 0.75
    np.testing.assert_allclose(mass / len(counts), wanted / wanted.sum(), atol=1e-5)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30))
def test_the_tree_is_a_code_and_as_short_as_can_be(counts: list[int]) -> None:
    tree = huffman_tree(np.array(counts))
    paths = [tuple(tree.labels_of(word).tolist()) for word in range(len(counts))]
    assert sum(2.0 ** -len(path) for path in paths) == 1  # a full tree
    assert len(set(paths)) == len(paths)
    assert all(tree.nodes_of(word)[0] == len(counts) - 2 for word in range(len(counts)))  # the root comes first
    share = np.array(counts) / sum(counts)
    entropy = -(share * np.log2(share)).sum()
    assert entropy - 1e-9 <= (share * [len(path) for path in paths]).sum() < entropy + 1
    assert tree.longest == max(map(len, paths))


def test_uniform_draws_are_even() -> None:
    draws = Draws(span_state(1, 0, 0))
    values = np.array([draws.uniform() for _ in range(20_000)])
    assert np.abs(np.histogram(values, bins=10, range=(0, 1))[0] - 2000).max() < 200
    assert len({span_state(seed, epoch, span) for seed in range(5) for epoch in range(5) for span in range(50)}) == 1250


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "bow"}, 'method is "bow"'),
        ({"width": 0}, "width is 0"),
        ({"negatives": 0}, "negatives is 0"),
        ({"sample": 2.0}, "sample is 2.0"),
        ({"rate": 0.0}, "both are above 0"),
        ({"threads": 0}, "threads is 0"),
        ({"subwords": (5, 3, 10)}, "n-grams of 5 to 3"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Settings(**{name: Subwords(*value) if name == "subwords" else value for name, value in wrong.items()})


def test_without_numba_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spans, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install numba"):
        train_word2vec(made_corpus(), Settings())
