"""ELMo from a recipe to vectors in context, by itself and from a language model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.embeddings.contextual import cosines, mixed, nearest, occurrences, of_word, word_states
from harken.errors import UserError
from harken.models.sizing import measure
from harken.recipe import load_recipe
from harken.tasks.elmo.job import Elmo
from harken.tasks.elmo.task import learn_vocabulary
from harken.tasks.registry import job_of

TINY = [
    "data.size=300",
    "model={width=12, layers=2, character_embedding=8, character_width=16}",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.schedule=constant",
    "train.learning_rate=1e-2",
    "train.warmup_steps=5",
    "train.batch_tokens=400",
    "train.checkpoint_every=5",
    "train.workers=1",
    "train.threads=1",
    "train.device=cpu",
    "train.precision=float32",
    "train.max_steps=10",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    folder = tmp_path_factory.mktemp("elmo") / "model"
    made: Elmo = harken.train("phrasebook-elmo", folder, overrides=[*TINY, "train.max_steps=60"], progress=False)
    return made


def test_a_trained_folder_has_learnt_something_and_is_scored(trained: Elmo) -> None:
    scores = job_of("elmo").evaluate(trained, None, [], lambda done: None)
    assert 1 < scores["perplexity"] < 250  # of about 450 words: which are frequent, and what follows what
    low, high = sorted([scores["forward perplexity"], scores["backward perplexity"]])
    assert low <= scores["perplexity"] <= high


def test_vectors_are_layers_of_words_in_context(trained: Elmo) -> None:
    one, other = trained.vectors("the cat sleeps"), trained.vectors("a cat, perhaps")
    assert one.shape == (3, 3, 24) and other.shape == (3, 4, 24)
    assert np.allclose(one[0, 1], other[0, 1], atol=1e-6)  # the word alone
    assert not np.allclose(one[1, 1], other[1, 1], atol=1e-3)
    assert np.allclose(trained.vectors(["the", "cat", "sleeps"]), one, atol=1e-6)
    assert trained.vectors_of_all(["the cat", ""])[1].shape == (3, 0, 24)


def test_mixing_layers(trained: Elmo) -> None:
    layers = trained.vectors("the cat sleeps")
    assert np.allclose(trained.mixed("the cat sleeps"), layers.mean(0), atol=1e-6)
    weights = [0.5, 0.2, 0.3]
    wanted = 2 * (0.5 * layers[0] + 0.2 * layers[1] + 0.3 * layers[2])
    assert np.allclose(trained.mixed("the cat sleeps", weights, 2.0), wanted, atol=1e-6)
    with torch.no_grad():
        learned = trained.mix()(torch.from_numpy(layers))
    assert np.allclose(learned.numpy(), mixed(layers), atol=1e-6)
    with pytest.raises(UserError, match="2 weights were given for 3 layers; give one for each layer"):
        trained.mixed("the cat", [1.0, 0.0])


def test_a_loaded_folder_is_the_trained_model(trained: Elmo) -> None:
    assert trained.folder is not None
    assert np.array_equal(harken.load(trained.folder).vectors("the cat sleeps"), trained.vectors("the cat sleeps"))


def test_stopped_and_resumed_is_uninterrupted(ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("phrasebook-elmo", TINY, at=7)


def test_the_size_is_measured() -> None:
    for spelling in ("convolutional", "lstm"):
        recipe = load_recipe("phrasebook-elmo", [f"model.spelling={spelling}"])
        known = learn_vocabulary([["ab", "ab", "c"]], 50, 1)
        model = Elmo.build(recipe, known)
        assert measure(model).total == sum(parameter.numel() for parameter in model.parameters())


def test_a_word_in_two_sentences(trained: Elmo) -> None:
    sentences = ["the cat sleeps", "a cat, perhaps", "the cat sleeps"]
    found = occurrences(trained, sentences, layer=2)
    assert [one.word for one in found][:4] == ["the", "cat", "sleeps", "a"]
    table = cosines(chosen := of_word(found, "Cat", sentences), chosen)
    assert table[0, 2] == pytest.approx(1.0, abs=1e-5) and table[0, 1] < 0.999
    best = nearest(chosen[0], found, 2)
    assert best[0][0].word == "cat" and best[0][1] == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(UserError, match='"dog" is no word of "the cat sleeps"'):
        of_word(found, "dog", sentences)
    with pytest.raises(UserError, match="--layer is 7, but the model has layers 0 to 2"):
        occurrences(trained, sentences, layer=7)


def test_a_language_model_gives_vectors_too(tmp_path: Path) -> None:
    overrides = [
        "data.size=200", "train.max_steps=2", "train.max_epochs=none", "train.workers=1", "train.threads=1",
        "train.device=cpu", "train.precision=float32", "tokenizer.kind=bpe", "tokenizer.size=120",
    ]  # fmt: skip
    model = harken.train("phrasebook-language", tmp_path / "language", overrides=overrides, progress=False)
    states = model.states("the cat sleeps")
    ids = model.tokenizer.encode("the cat sleeps")
    assert len(ids) > 3  # words of several pieces
    layers = word_states(model, ["the", "cat", "sleeps"])
    assert layers.shape == (states.shape[0], 3, states.shape[2])
    assert np.array_equal(layers[:, 2], states[:, -1])  # the last piece of the last word
    assert [one.word for one in occurrences(model, ["the cat sleeps"])] == ["the", "cat", "sleeps"]


def test_bad_input_gets_one_sentence(trained: Elmo, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the sentence has no words"):
        trained.vectors(" ")
    with pytest.raises(UserError, match="the text has no words to predict"):
        trained.evaluate([""])
    with pytest.raises(UserError, match=r"add --set data\.train=FILE"):
        load_recipe("wiki-elmo")
    text = tmp_path / "text.txt"
    text.write_text("every word is here once\nand these are the others left\n")
    with pytest.raises(UserError, match=r"no word of text is seen words\.min_count 5 times"):
        harken.train("wiki-elmo", tmp_path / "run", overrides=[f"data.train={text}", *TINY[2:]], progress=False)
    with pytest.raises(UserError, match="has no split 'train'"):
        job_of("elmo").examples(trained, "train")  # type: ignore[attr-defined]
    tags = harken.recipe.load_recipe("phrasebook-tag")

    class Other:
        recipe = tags

    with pytest.raises(UserError, match="the task 'tag' gives no contextual word vectors"):
        occurrences(Other(), ["a"])
