"""Tagging from a recipe to a model and back: exactness, scores, and a user's mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.series.framed import Framed
from harken.data.text.tagged import Tagged
from harken.errors import UserError
from harken.inspection import gates, gradient_flow
from harken.models.sizing import measure
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.tasks.tag.tagger import Tagger
from harken.tasks.tag.task import build_tagging_model, build_task
from harken.tasks.words import VOCABULARY, Vocabulary

TINY = [
    "data.size=300",
    "model.embedding=16",
    "model.width=16",
    "words.character_embedding=8",
    "words.character_width=8",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.schedule=constant",
    "train.warmup_steps=5",
    "train.checkpoint_every=5",
    "train.workers=1",
    "train.threads=1",
    "train.device=cpu",
    "train.precision=float32",
    "train.max_steps=30",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Tagger:
    """A CRF with characters read by an LSTM, trained for a few seconds."""
    folder = tmp_path_factory.mktemp("tags") / "model"
    return harken.train(
        "phrasebook-tag",
        folder,
        overrides=[*TINY, "tags.crf=true", "words.characters=lstm", "train.max_steps=120"],
        progress=False,
    )


def test_a_trained_folder_tags_and_is_scored(trained: Tagger) -> None:
    found = trained.tag("we clean the clean house")
    assert found.words == ["we", "clean", "the", "clean", "house"]
    assert found.tags[0] == "PRON" and found.tags[2] == "DET" and found.tags[4] == "NOUN"
    np.testing.assert_allclose(found.chances.sum(1), 1, atol=1e-4)
    assert found.probabilities[0] == pytest.approx(found.chances[0].max())
    assert str(found).startswith("we/PRON ")
    scores = job_of("tag").evaluate(trained, None, [], lambda done: None)
    assert scores.count == 500 and scores.unit == "sentences"
    assert scores["accuracy"] > 0.9
    metric = scores.metrics[0]
    assert metric.low is not None and metric.high is not None and metric.low < metric.value < metric.high
    assert "confusion" in scores.pictures
    with pytest.raises(UserError, match="has no split 'tets'; choose --split valid or test"):
        job_of("tag").evaluate(trained, "tets", [], lambda done: None)


def test_a_loaded_folder_is_the_trained_model(trained: Tagger) -> None:
    assert trained.folder is not None
    again, sentence = harken.load(trained.folder), "the old owl will not sleep"
    np.testing.assert_array_equal(again.tag(sentence).chances, trained.tag(sentence).chances)
    assert {path.name for path in trained.folder.iterdir()} >= {"vocabulary.json", "model.safetensors", "recipe.toml"}


def test_neighbours_and_padding_change_nothing(trained: Tagger) -> None:
    sentences = ["she reads", "", "the very long owl that we saw reads a book in the garden", "xyzzy ?"]
    together = trained.tag_all(sentences)
    assert together[1].words == together[1].tags == []
    for sentence, found in zip(sentences, together, strict=True):
        alone = trained.tag(sentence.split())
        assert alone.tags == found.tags
        np.testing.assert_allclose(alone.chances, found.chances, atol=1e-5)


def test_stopped_and_resumed_is_uninterrupted(ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("phrasebook-tag", TINY, at=12)


def test_entities_are_scored_by_kind(tmp_path: Path) -> None:
    sentences = [["i", "saw", name] for name in ("anna", "paul", "rome")] * 8
    tags = [["O", "O", tag] for tag in ("B-person", "B-person", "B-place")] * 8
    train = [Tagged(tuple(words), tuple(row)) for words, row in zip(sentences, tags, strict=True)]
    recipe = load_recipe("phrasebook-tag", [*TINY, "tags.crf=true", "words.min_count=1"])
    task, vocabulary = build_task(recipe, train, train)
    assert task.monitor == "f1" and vocabulary.tags == ["B-person", "B-place", "O"]
    tagger = Tagger(recipe, task.model, vocabulary)
    scores = tagger.evaluate(sentences, tags)
    assert [metric.name for metric in scores.metrics] == [
        "f1", "precision", "recall", "accuracy", "f1 person", "f1 place",
    ]  # fmt: skip
    found = [one.tags for one in tagger.tag_all(sentences)]
    right = sum(
        a == b and b != "O" for row, made in zip(tags, found, strict=True) for a, b in zip(row, made, strict=True)
    )
    made = sum(tag != "O" for row in found for tag in row)
    assert scores["f1"] == pytest.approx(2 * right / (made + 24))
    with pytest.raises(UserError, match="sentences to evaluate need their tags"):
        tagger.evaluate(sentences)


def test_frames_with_a_label_each_are_learnt(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1)
    rows = []
    for _ in range(40):
        labels = np.repeat(numbers.integers(0, 2, 4), 5)
        frames = numbers.normal(size=(20, 3)) * 0.3 + labels[:, None] * [100.0, 0.0, 5.0]
        rows.append((frames, labels))
    frames, labels = (np.concatenate([row[side] for row in rows]) for side in (0, 1))
    np.savez(tmp_path / "train.npz", frames=frames, labels=np.array(["still", "moving"])[labels], lengths=[20] * 40)
    tagger = harken.train(
        "phrasebook-tag",
        tmp_path / "model",
        overrides=[*TINY, "data.corpus=none", f"data.train={tmp_path}/train.npz", "train.batch_tokens=100"],
        progress=False,
    )
    scores = job_of("tag").evaluate(tagger, None, [tmp_path / "train.npz"], lambda done: None)
    assert scores["accuracy"] > 0.97
    assert tagger.tag(rows[0][0]).tags == [("still", "moving")[label] for label in rows[0][1]]
    with pytest.raises(UserError, match=r"this model tags frames: give arrays of shape \(T, 3\)"):
        tagger.tag("a sentence")


@pytest.mark.parametrize("overrides", [[], ["tags.crf=true", "words.characters=lstm"], ["words.characters=none"]])
def test_the_size_is_measured(overrides: list[str]) -> None:
    recipe = load_recipe("phrasebook-tag", overrides)
    vocabulary = Vocabulary(["A", "B", "C"], ["x", "y"], ["a", "b", "c"])
    model = build_tagging_model(recipe, vocabulary)
    size = measure(model)
    assert size.total == sum(parameter.numel() for parameter in model.parameters()) and size.flops > 0


def test_gates_and_gradients_can_be_looked_at(trained: Tagger) -> None:
    words = ["we", "clean", "the", "house"]
    trace = gates(trained, " ".join(words))
    layer = next(layer for layer in trace if layer.name.startswith("reader.encoder"))
    assert layer.words == words and layer.values["forget"].shape == (4, 8)
    assert gradient_flow(trained, ["we clean the house", "she sleeps"]).verdict
    assert gradient_flow(trained, job_of("tag").examples(trained, "valid")[:5]).verdict
    batch = trained.batch([Tagged(("we", "sleep"), ("PRON", "VERB")), "the owl sleeps"])
    assert [trained.tags[label] for label in batch.labels[0, :2].tolist()] == ["PRON", "VERB"]
    assert batch.predictions(trained.model)[2].tolist() == [1, 2]
    with pytest.raises(UserError, match="a sentence without words"):
        trained.batch([])


def test_the_picture_shows_tags_and_transitions(trained: Tagger) -> None:
    picture = job_of("tag").attention_figure(trained, "we clean the house")
    assert [panel.title.split(":")[0][:13] for panel in picture.panels] == ["Tags", "What the CRF "]  # type: ignore[attr-defined]
    assert "PRON" in picture.to_terminal(width=100, color=False)


def test_a_transformer_shows_where_words_look() -> None:
    recipe = load_recipe("phrasebook-tag", ["model={architecture='transformer', layers=2, width=16, heads=2}"])
    sentences = [Tagged(("a", "b", "c"), ("X", "Y", "X"))]
    task, vocabulary = build_task(recipe, sentences, sentences)
    picture = job_of("tag").attention_figure(Tagger(recipe, task.model, vocabulary), "a b c")
    first, second = picture.panels[-2:]  # type: ignore[attr-defined]
    assert first.title.startswith("Layer 1") and second.title.startswith("Layer 2")
    assert list(first.rows) == ["a", "b", "c"] == list(first.columns)
    np.testing.assert_allclose(np.asarray(second.weights).sum(1), 1, atol=1e-5)


def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a\tX\n\nb\tY\n")
    for overrides, said in (
        (["data.corpus=none"], "names no data: set data.train"),
        ([f"data.train={path}"], "data.corpus and data.train are both given"),
        (["words.characters=lstm", "words.character_width=7"], "words.character_width 7 is odd"),
    ):
        with pytest.raises(UserError, match=said):
            load_recipe("phrasebook-tag", overrides)
    with pytest.raises(UserError, match=r"add --set data.dir=DIR \(a folder with en_ewt-ud-train.conllu.xz\)"):
        load_recipe("ewt-tag")
    recipe = load_recipe("phrasebook-tag", ["data.corpus=none", f"data.train={path}", "data.valid_size=5"])
    with pytest.raises(UserError, match=r"data\.valid_size = 5 of 2 examples in 2 groups leaves none for train"):
        job_of("tag").prepare(recipe, tmp_path / "model", False)
    with pytest.raises(UserError, match="the tag 'Z' is not one of the 2 tags"):
        Vocabulary(["X", "Y"]).tag_ids(["Z"])
    with pytest.raises(UserError, match="frames of different widths; give one kind"):
        build_task(recipe, [Tagged(("a",), ("X",)), Framed(np.zeros((1, 2)), ("X",))], [Tagged(("a",), ("X",))])
    for content in (None, "{}", '{"tags": [1]}', '{"tags": ["X"], "channels": 100000000000000000000000}'):
        if content is not None:
            (tmp_path / "vocabulary.json").write_text(content)
        with pytest.raises(UserError, match=r"vocabulary\.json is missing or damaged"):
            VOCABULARY.load(tmp_path)


def test_sentences_longer_than_learned_positions_are_refused() -> None:
    recipe = load_recipe(
        "phrasebook-tag",
        ["model={architecture='transformer', width=16, heads=2, positions='learned', max_length=16}"],
    )
    long = [Tagged(("a",) * 20, ("X",) * 20)]
    with pytest.raises(UserError, match=r"1 sentences have more words than model\.max_length 16"):
        build_task(recipe, [Tagged(("a",), ("X",))], long)


def test_a_vocabulary_keeps_case_in_characters_and_reads_back(tmp_path: Path) -> None:
    known = Vocabulary.learn(
        [Tagged(("The", "the", "Owl"), ("DET", "DET", "NOUN"))], lowercase=True, min_count=2, more_words=["cat", "the"]
    )
    assert known.words == ["the", "cat"] and known.word_ids(["THE", "owl", "Cat"]) == [4, 1, 5]
    assert known.spelling("The") != known.spelling("the") and known.spelling("é") == [1]
    assert len(known.spelling("x" * 100)) == 32
    VOCABULARY.save(known, tmp_path)
    assert VOCABULARY.load(tmp_path) == known


def test_bio_tags_begin_before_they_go_on() -> None:
    train = [Tagged(("new", "york"), ("B-place", "I-place")), Tagged(("anna",), ("B-person",)), Tagged(("a",), ("O",))]
    recipe = load_recipe("phrasebook-tag", [*TINY, "tags.crf=true", "tags.bio=true", "words.min_count=1"])
    model = build_task(recipe, train, train)[0].model
    assert model.crf is not None
    with torch.no_grad():
        model.emit.bias.copy_(torch.tensor([0.0, 0.5, 9.0, 0.0]))  # B-person, B-place, I-place, O
        model.emit.weight.zero_()
    assert model.crf.viterbi_decode(model.emit.bias.expand(1, 3, 4))[0].tolist() == [[1, 2, 2]]
    with pytest.raises(UserError, match=r"set tags.crf = true too"):
        load_recipe("phrasebook-tag", ["tags.bio=true"])
