"""What the classification recipes reach on real data, as the issue asks; each trains for minutes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import torch

import harken
from harken.embeddings.reading import read_corpus
from harken.embeddings.settings import Settings
from harken.embeddings.word2vec import train_word2vec
from harken.tasks.classify.job import JOB

# recipe, folder of the data, archive to unpack first, least accuracy on the test that the recipe names
FIGURES = [
    ("motions-classify", "uea-ts/BasicMotions", None, 1.0),
    ("vowels-classify", "uea-ts/JapaneseVowels", None, 0.97),
    ("pendigits-classify", "pendigits", None, 0.98),
    ("ag-news-classify", "ag-news", None, 0.87),
    ("har-classify", "har-smartphone", "har_sp.tar.xz", 0.90),
    ("sst2-classify", "sst", None, 0.82),
    ("imdb-classify", "imdb", None, 0.87),
]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(("recipe", "folder", "archive", "least"), FIGURES, ids=lambda value: str(value))
def test_a_recipe_reaches_its_figure(
    shared_data: Path, tmp_path: Path, recipe: str, folder: str, archive: str | None, least: float
) -> None:
    data = shared_data / folder
    if not data.is_dir():
        pytest.skip(f"{folder} is not among the data sets")
    if archive:
        with tarfile.open(data / archive) as packed:
            packed.extractall(tmp_path / "data", filter="data")
        data = tmp_path / "data"
    model = harken.train(recipe, tmp_path / "model", overrides=[f"data.dir={data}"], progress=False)
    scores = JOB.evaluate(model, None, [], lambda done: None)
    assert scores["accuracy"] >= least, scores.to_dict()


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not torch.cuda.is_available(), reason="the ELMo wants a GPU")
def test_questions_are_told_apart_by_one_who_has_read(shared_data: Path, tmp_path: Path) -> None:
    for name in ("wiki-en", "imdb", "trec"):
        if not (shared_data / name).is_dir():
            pytest.skip(f"{name} is not among the data sets")
    text = str(shared_data / "wiki-en" / "wiki-en-30MB.txt.xz")
    corpus = read_corpus([text, str(shared_data / "imdb" / "train.tsv.xz")], min_count=3, max_vocabulary=45000)
    settings = Settings(width=200, epochs=5)
    train_word2vec(corpus, settings).vectors(corpus, settings).save(str(tmp_path / "words"))
    larger = ["words.size=10000", "model.width=512", "model.character_width=512", "model.dropout=0.2"]
    longer = ["train.batch_tokens=8192", "train.max_epochs=none", "train.max_minutes=4", "train.learning_rate=2e-3"]
    harken.train("wiki-elmo", tmp_path / "elmo", overrides=[f"data.train={text}", *larger, *longer], progress=False)
    right = []
    for seed in (1, 2, 3):
        begun = [f"embeddings.words={tmp_path / 'words'}", f"embeddings.elmo={tmp_path / 'elmo'}", f"data.seed={seed}"]
        changes = [f"data.dir={shared_data / 'trec'}", *begun]
        model = harken.train("trec-classify", tmp_path / f"trec{seed}", overrides=changes, progress=False)
        right.append(JOB.evaluate(model, None, [], lambda done: None)["accuracy"])
    assert sum(right) / 3 >= 0.90, right  # 0.91 was measured, with vectors of more text; 545 questions say +-0.024
