"""Masked pre-training from a recipe to a model, and a tagger that starts from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import harken
from harken.data.text.tagged import Tagged
from harken.data.text.texts import read_line_splits
from harken.errors import UserError
from harken.models.heads.masked import MASK
from harken.models.sizing import measure
from harken.recipe import load_recipe
from harken.tasks.masked.job import MaskedLanguageModel, build_masked_model
from harken.tasks.masked.task import as_rows
from harken.tasks.registry import job_of
from harken.tasks.tag.task import build_task
from harken.training.task import batch_loss

MODEL = "{architecture='transformer', layers=1, width=16, heads=2, feedforward=32, dropout=0.0"
TINY = [
    "data.size=400",
    f"model={MODEL}}}",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.schedule=constant",
    "train.learning_rate=1e-2",
    "train.warmup_steps=5",
    "train.checkpoint_every=10",
    "train.workers=1",
    "train.threads=1",
    "train.device=cpu",
    "train.precision=float32",
    "train.max_steps=40",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> MaskedLanguageModel:
    folder = tmp_path_factory.mktemp("masked") / "model"
    return harken.train("phrasebook-masked", folder, overrides=[*TINY, "train.max_steps=120"], progress=False)


def test_a_trained_folder_guesses_and_is_scored(trained: MaskedLanguageModel) -> None:
    ((best, second, _),) = trained.fill("the [MASK] will sleep", count=3)
    assert best[1] >= second[1] > 0 and not best[0].startswith("<")
    assert len(trained.fill("[MASK] sees [MASK]", count=2)) == 2
    scores = job_of("masked").evaluate(trained, None, [], lambda done: None)
    assert scores["perplexity"] < 400  # of 1,200 words: it has learnt which are frequent
    assert 0.03 < scores["accuracy"] < 1
    picture = trained.picture("the [MASK] will sleep").to_terminal(width=80, color=False)
    assert "will   ·" in picture and "Layer 1: where each word (down) looks (across)" in picture
    with pytest.raises(UserError, match=r"write \[MASK\] in place of a word"):
        trained.fill("the owl sleeps")


def test_a_loaded_folder_is_the_trained_model(trained: MaskedLanguageModel) -> None:
    assert trained.folder is not None
    assert harken.load(trained.folder).fill("the [MASK] sleeps") == trained.fill("the [MASK] sleeps")


def test_stopped_and_resumed_is_uninterrupted(ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("phrasebook-masked", TINY, at=15)


def test_masks_and_gradients_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    task = job_of("masked").prepare(load_recipe("phrasebook-masked", TINY), tmp_path, False).task
    batch = task.epoch(1)[0]
    gradients = []
    for parts in (1, 2, 3):
        shares = task.share(batch, parts)
        assert sum(task.size(part) for part in shares) == task.size(batch) > 50
        task.model.zero_grad()
        for part in shares:
            (batch_loss(task, part) / task.size(batch)).backward()
        gradients.append([weight.grad.clone() for weight in task.model.parameters()])
    for one, more in zip(gradients[0], gradients[1], strict=True):
        torch.testing.assert_close(more, one, rtol=1e-4, atol=1e-7)
    for one, more in zip(gradients[0], gradients[2], strict=True):
        torch.testing.assert_close(more, one, rtol=1e-4, atol=1e-7)


def test_an_epoch_masks_other_tokens_than_the_last_and_the_right_share_of_them(tmp_path: Path) -> None:
    task: Any = job_of("masked").prepare(load_recipe("phrasebook-masked", TINY), tmp_path, False).task
    rows = np.arange(len(task.train))
    first, again, second = (task.collate(rows + epoch * len(rows)) for epoch in (0, 0, 1))
    assert torch.equal(first.masked.ids, again.masked.ids) and first.total == task.size(rows)
    words = first.ids >= 4
    assert first.total / int(words.sum()) == pytest.approx(0.15, abs=0.02)
    both = int((first.masked.chosen & second.masked.chosen).sum())
    assert both / first.total == pytest.approx(0.15, abs=0.05)  # drawn independently
    kept = first.masked.ids[first.masked.chosen]
    assert float((kept == MASK).float().mean()) == pytest.approx(0.8, abs=0.06)
    assert not first.masked.chosen[~words].any()


def test_two_workers_train_the_model_that_one_trains(tmp_path: Path) -> None:
    weights = []
    for workers in (1, 2):
        overrides = [*TINY, f"train.workers={workers}", "train.max_steps=3"]
        harken.train("phrasebook-masked", tmp_path / str(workers), overrides=overrides, progress=False)
        weights.append(load_file(tmp_path / str(workers) / "model.safetensors"))
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-5)


def test_a_tagger_starts_from_it(trained: MaskedLanguageModel, tmp_path: Path) -> None:
    recipe = load_recipe("phrasebook-tag", [f"model={MODEL}, start='{trained.folder}'}}"])
    sentences = [Tagged(("the", "owl", "zyx"), ("DET", "NOUN", "NOUN"))]
    task, vocabulary = build_task(recipe, sentences, sentences)
    assert "house" in vocabulary.words and "zyx" in vocabulary.words  # what both know of words
    encoder = dict(trained.model.reader.encoder.named_parameters())
    for name, value in task.model.reader.encoder.named_parameters():
        assert torch.equal(value, encoder[name])
    (theirs,) = trained.tokenizer.encode("house")
    (ours,) = vocabulary.word_ids(["house"])
    table = trained.model.reader.inputs.table.weight  # type: ignore[union-attr]
    assert torch.equal(task.model.reader.inputs.words.table.weight[ours], table[theirs])  # type: ignore[union-attr,index]
    overrides = [f"model={MODEL}, start='{trained.folder}'}}", *TINY[2:], "data.size=100", "train.max_steps=5"]
    tagger = harken.train("phrasebook-tag", tmp_path / "tags", overrides=overrides, progress=False)
    assert len(tagger.tag("the owl sleeps").tags) == 3


def test_text_is_read_in_rows(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(" = Title = \n\nA whole Line of words\nanother line of six words\nthe last line is held out\n")
    overrides = ["data.corpus=none", f"data.train={path}", "data.min_words=4", "data.lowercase=true"]
    text = read_line_splits(load_recipe("phrasebook-masked", overrides).data)
    assert text.train == ["a whole line of words", "another line of six words"]
    assert text.valid == ["the last line is held out"] and text.name == "text"

    class Letters:
        size = 200

        def encode_all(self, texts: list[str]) -> list[list[int]]:
            return [[ord(letter) for letter in text] for text in texts]

    rows = as_rows(["abcd", "e"], Letters(), 3)  # type: ignore[arg-type]
    assert [row.tolist() for row in rows] == [[97, 98, 99], [100, 3], [101, 3]]
    with pytest.raises(UserError, match=r"too few lines of data\.min_words 9 words"):
        read_line_splits(load_recipe("phrasebook-masked", [*overrides, "data.min_words=9"]).data)
    with pytest.raises(UserError, match=r"add --set data\.dir=DIR \(a folder with wiki\.train\.tokens\.xz\)"):
        load_recipe("wikitext2-masked")


def test_the_output_layer_is_charged_for_masked_tokens_alone() -> None:
    recipe = load_recipe("phrasebook-masked", TINY)
    model = build_masked_model(recipe, 50)
    few, all_of_them = (
        measure(model, 20, run=lambda n, rate=rate: model.dry_run(n, rate), lengths=(20,)) for rate in (0.1, 1.0)
    )
    head = model.transform.weight.numel() + model.table.numel()
    assert all_of_them.flops - few.flops == pytest.approx(0.9 * 6 * head)
