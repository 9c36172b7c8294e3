"""Word vectors of real text: as good as measured, and of use to a tagger; a few minutes."""

import sys
from pathlib import Path

import pytest

import harken
from harken.embeddings.corpus import Corpus, read_corpus
from harken.embeddings.evaluation import evaluate_file
from harken.embeddings.glove.training import GloveSettings, train_glove
from harken.embeddings.vectors import WordVectors
from harken.embeddings.word2vec.settings import Settings
from harken.embeddings.word2vec.training import train_word2vec
from harken.tasks.registry import job_of

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))
import vectors_in_models

pytestmark = [pytest.mark.slow, pytest.mark.shared]
TESTS = ("EN-WS-353-ALL.txt", "EN-MEN-TR-3k.txt", "questions-words.txt.gz")


@pytest.fixture(scope="module")
def corpus(shared_data: Path) -> Corpus:
    found = list((shared_data / "wiki-en").glob("*.txt.xz"))
    if not found or not (shared_data / "word-sim").is_dir():
        pytest.skip("wiki-en or word-sim is not among the data sets")
    return read_corpus(found)


@pytest.fixture(scope="module")
def skipgram(corpus: Corpus) -> WordVectors:
    settings = Settings(device="cpu")
    return train_word2vec(corpus, settings).vectors(corpus, settings)


def scores(vectors: WordVectors, shared_data: Path) -> list[float]:
    return [float(evaluate_file(vectors, shared_data / "word-sim" / name)[-1].score or 0.0) for name in TESTS]


def test_skipgram_is_as_good_as_measured(skipgram: WordVectors, shared_data: Path) -> None:
    similarity, relatedness, analogies = scores(skipgram, shared_data)
    assert similarity > 0.46 and relatedness > 0.42 and analogies > 0.12


def test_cbow_is_as_good_as_measured(corpus: Corpus, shared_data: Path) -> None:
    settings = Settings(method="cbow", device="cpu")
    similarity, relatedness, analogies = scores(train_word2vec(corpus, settings).vectors(corpus, settings), shared_data)
    assert similarity > 0.44 and relatedness > 0.44 and analogies > 0.12


def test_glove_is_as_good_as_measured(corpus: Corpus, shared_data: Path) -> None:
    settings = GloveSettings()
    similarity, relatedness, analogies = scores(train_glove(corpus, settings).vectors(corpus, settings), shared_data)
    assert similarity > 0.27 and relatedness > 0.33 and analogies > 0.17


def test_a_tagger_gains_by_them(skipgram: WordVectors, shared_data: Path, tmp_path: Path) -> None:
    if not (shared_data / "ud-english-ewt").is_dir():
        pytest.skip("ud-english-ewt is not among the data sets")
    skipgram.save(tmp_path / "words")
    train = vectors_in_models.a_third(shared_data, tmp_path)
    test = shared_data / "ud-english-ewt" / "en_ewt-ud-dev.conllu.xz"
    common = [*vectors_in_models.EWT, *vectors_in_models.ONE_CORE, f"data.train={train}"]
    found = []
    for name, more in {"random": [], "words": [f"embeddings={tmp_path / 'words'}"]}.items():
        model = harken.train("ewt-tag", tmp_path / name / "run", overrides=[*common, *more], progress=False)
        found.append(job_of("tag").evaluate(model, None, [test], lambda done: None)["accuracy"])
    assert found[1] > found[0] + 0.006 and found[1] > 0.912
