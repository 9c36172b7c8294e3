"""Word vectors and a frozen ELMo in taggers and classifiers: one way for both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.models.reader import ContextInput, InContext, TokenInput
from harken.recipe import load_recipe
from harken.tasks.context import open_context
from harken.tasks.elmo.job import Elmo
from harken.tasks.labelled.reading import as_rows, in_context
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.tag.corpus import read_corpus
from harken.tasks.tag.tagger import Tagger
from harken.tasks.tag.task import build_task

RUN = [
    "train.max_epochs=none", "train.max_minutes=none", "train.schedule=constant", "train.warmup_steps=2",
    "train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32", "train.checkpoint_every=3",
    "train.max_steps=6",
]  # fmt: skip
ENCODER = "model={architecture='recurrent', embedding=16, width=16, layers=1}"
TAG = [*RUN, ENCODER, "data.size=120", "words.character_width=8"]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context") / "elmo"
    small = ["model={width=6, layers=2, character_embedding=5, character_width=8}", "data.size=80"]
    harken.train("phrasebook-elmo", folder, overrides=[*RUN, *small], progress=False)
    return folder


def test_the_input_is_words_beside_the_mix_of_layers() -> None:
    torch.manual_seed(1)
    inputs = ContextInput(TokenInput(9, 8), 8, layers=2, context=3).eval()
    ids, layers = torch.tensor([[4, 5]]), torch.randn(1, 2, 2, 3)
    normed = (layers - layers.mean(-1, keepdim=True)) / (layers.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    both = torch.cat([inputs.words(ids) * 8**0.5, normed.mean(2)], -1)
    wanted = (both @ inputs.project.weight.T + inputs.project.bias) / 8**0.5
    assert torch.allclose(inputs(InContext(ids, layers)), wanted, atol=1e-6)


def test_a_tagger_reads_elmo_and_keeps_it(elmo: Path, tmp_path: Path) -> None:
    overrides = [*TAG, f"embeddings.elmo={elmo}"]
    made: Tagger = harken.train("phrasebook-tag", tmp_path / "tags", overrides=overrides, progress=False)
    inputs = made.model.reader.inputs
    assert isinstance(inputs, ContextInput) and inputs.mix.scores.abs().sum() > 0  # the weights were learned
    copied = Elmo.load(tmp_path / "tags" / "elmo", load_recipe(tmp_path / "tags" / "elmo" / "recipe.toml"), "cpu")
    assert np.array_equal(copied.vectors("the owl"), harken.load(elmo, "cpu").vectors("the owl"))
    again = harken.load(tmp_path / "tags")
    first, second = made.tag("the owl sleeps"), again.tag("the owl sleeps")
    assert first.tags == second.tags and np.array_equal(first.chances, second.chances)
    alone = again.tag_all(["the owl sleeps", "the old woman sees a big house near the sea"])[0]
    assert np.allclose(alone.chances, second.chances, atol=1e-5)  # padding changes nothing
    assert "3 frozen layers" in (tmp_path / "tags" / "card.md").read_text()


def test_a_tagger_with_elmo_resumes(elmo: Path, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("phrasebook-tag", [*TAG, f"embeddings.elmo={elmo}"], at=3)


def test_a_classifier_reads_elmo_word_by_word(elmo: Path, tmp_path: Path) -> None:
    overrides = [*RUN, ENCODER, "data.size=100", f"embeddings.elmo={elmo}", "classifier.word_dropout=0.1"]
    made = harken.train("opinions-classify", tmp_path / "opinions", overrides=overrides, progress=False)
    text = "the film was not good, but long"
    again = harken.load(tmp_path / "opinions")
    assert np.array_equal(made.predict_proba([text]), again.predict_proba([text]))
    both = again.predict_proba([text, "a dull film that tells us nothing at all of anything ."])[0]
    assert np.allclose(both, again.predict_proba([text])[0], atol=1e-5)
    assert len(again.reading(text)[1]["reader.encoder"]) == 9  # words, a mark and the end
    cut = made.recipe.model_copy(update={"data": made.recipe.data.model_copy(update={"max_tokens": 4, "keep": "both"})})
    context = open_context(elmo)
    assert context is not None
    batch, lengths = in_context(as_rows([text], cut, made.tokenizer), [text], cut, context).gather([0])
    wanted = context.of([["the", "film", "was", "not", "good", ",", "but", "long"]])[0][[0, 1, 7]]
    assert lengths.tolist() == [4] and isinstance(batch, InContext)
    assert np.array_equal(batch.layers[0, :3].numpy(), wanted) and not batch.layers[0, 3].any()


def test_a_language_model_serves_too(tmp_path: Path) -> None:
    small = "model={architecture='recurrent', embedding=8, width=12, layers=2}"
    harken.train("phrasebook-language", tmp_path / "lm", overrides=[*RUN, small, "data.size=200"], progress=False)
    overrides = [*TAG, f"embeddings.elmo={tmp_path / 'lm'}", "train.max_steps=2"]
    tagger = harken.train("phrasebook-tag", tmp_path / "tags", overrides=overrides, progress=False)
    assert (tagger.context.layers, tagger.context.width) == (2, 12)
    assert len(tagger.tag("the owl sleeps").tags) == 3 and tagger.tag("").tags == []


def test_a_tagger_begins_with_vectors(tmp_path: Path) -> None:
    vectors = WordVectors(["the", "owl", "zebra"], np.arange(48).reshape(3, 16) - 24.0)
    vectors.save(tmp_path / "words")
    recipe = load_recipe("phrasebook-tag", [*TAG, f"embeddings.words={tmp_path / 'words'}", "embeddings.tuned=false"])
    corpus = read_corpus(recipe.data)
    pretrained = PretrainedEmbeddings(recipe)
    task, vocabulary = build_task(recipe, corpus.train, corpus.valid, pretrained=pretrained)
    assert "zebra" in vocabulary.words  # known by its vector alone
    table = task.model.reader.inputs.words.table.weight  # type: ignore[union-attr]
    assert not table.requires_grad
    one, other = (table[vocabulary.word_ids([word])[0]].numpy() for word in ("the", "zebra"))  # type: ignore[index]
    wanted = np.arange(48).reshape(3, 16) - 24.0
    assert np.allclose(one, wanted[0] * (16**-0.5 / wanted.std()), rtol=1e-5)
    assert np.allclose(other, wanted[2] * (16**-0.5 / wanted.std()), rtol=1e-5)
    assert pretrained.notes[0].startswith("1 of ") and ", frozen; 2 more are known" in pretrained.notes[0]
    with pytest.raises(UserError, match=r"vectors of 16 numbers, but model\.embedding is 8"):
        build_task(load_recipe("phrasebook-tag", [*TAG, f"embeddings.words={tmp_path / 'words'}", "model.embedding=8"]),
                   corpus.train, corpus.valid)  # fmt: skip


def test_bad_places_get_one_sentence(elmo: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="which does not exist: check the path"):
        harken.train("phrasebook-tag", tmp_path / "a", overrides=[*TAG, "embeddings.elmo=nowhere"], progress=False)
    harken.train("phrasebook-tag", tmp_path / "tags", overrides=[*TAG, "train.max_steps=1"], progress=False)
    with pytest.raises(UserError, match="a model with the task 'tag', which gives no vectors of words in context"):
        open_context(tmp_path / "tags")
    with pytest.raises(UserError, match=r"embeddings\.elmo is of words"):
        load_recipe("opinions-classify", [f"embeddings.elmo={elmo}", "tokenizer.kind=bpe"])
    start = "model={architecture='transformer', layers=1, width=16, heads=2, feedforward=32, start='x'}"
    with pytest.raises(UserError, match=r"model\.start and embeddings\.elmo both say how words begin"):
        load_recipe("phrasebook-tag", [start, f"embeddings.elmo={elmo}"])
