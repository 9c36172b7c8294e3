"""Captioning from recipe to map, on scenes of one thing that a small model learns in seconds."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.data.synthetic.scenes.splits import load_scenes
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.tasks.caption.captioner import Captioner
from harken.tasks.caption.job import JOB
from harken.tasks.caption.task import CaptionTask
from harken.training.task import batch_loss

SMALL = [
    "data.scenes=600", "data.things=1", "data.image_size=32", "model.channels=[16, 32]", "model.depth=[1, 0]",
    "model.width=32", "model.decoder.embedding=16", "model.decoder.width=32", "model.dropout=0.0",
    "model.decoder.dropout=0.0", "train.device=cpu", "train.precision=float32", "train.workers=1", "train.threads=1",
    "model.focus=0.0", "train.validate_sentences=20", "train.average=0.9", "train.warmup_steps=5",
]  # fmt: skip
STEPS = 8


@pytest.fixture(scope="module")
def few_scenes() -> Any:
    """Fewer scenes to validate and test on than the corpus has."""
    patch = pytest.MonkeyPatch()

    def fewer(seed: int, train: int, size: int, most: int) -> Any:
        return load_scenes(seed, train, 30, 40, size, most)

    patch.setattr("harken.data.images.caption_table.load_scenes", fewer)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, few_scenes: None) -> Captioner:
    settings = ["train.max_steps=240", "train.validate_every=240", "train.learning_rate=5e-3", "train.batch_tokens=160"]
    found: Captioner = harken.train(
        "scenes-caption", tmp_path_factory.mktemp("run") / "model", overrides=[*SMALL, *settings], progress=False
    )
    return found


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number, example in enumerate(load_scenes(1, 3, 1, 1, 32, 1).train):
        Image.fromarray(example.image).save(folder / f"{number}.png")
    return folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_it_learns(model: Captioner) -> None:
    examples = JOB.held_out(model, "valid")
    scores = JOB.score(model, examples, lambda done: None)
    assert scores.count == 30 and scores["BLEU"] > 25  # 8 by chance
    assert scores["exact match"] >= scores["attended region"] and scores.details["nouns"] == 30
    assert scores.details["bleu_signature"].startswith("nrefs:1|case:mixed")


def test_a_loaded_folder_is_the_model_that_was_trained(model: Captioner) -> None:
    assert model.folder is not None
    again = harken.load(model.folder)
    images = [example.image for example in JOB.held_out(model, "valid")[:5]]
    for one, other in zip(model.caption(images), again.caption(images), strict=True):
        assert (one.text, one.score) == (other.text, other.score)
        assert one.attention is not None and (one.attention == other.attention).all()


def test_a_caption_has_one_map_a_word_and_does_not_depend_on_its_neighbours(model: Captioner) -> None:
    images = [example.image for example in JOB.held_out(model, "valid")[:4]]
    together = model.caption(images, beam=2)
    for image, one in zip(images, together, strict=True):
        alone = model.caption(image, beam=2)
        assert alone.text == one.text and alone.score == pytest.approx(one.score, abs=1e-5)
        assert alone.attention is not None and alone.attention.shape == (len(alone.words), 8, 8)
        np.testing.assert_allclose(alone.attention.sum((1, 2)), 1.0, atol=1e-6)
        np.testing.assert_allclose(alone.attention, one.attention, atol=1e-5)


def test_greedy_is_a_beam_of_one_and_another_size_is_said(model: Captioner) -> None:
    tall = np.zeros((90, 60, 3), np.uint8)
    best = model.caption(tall, beam=1)
    assert best.note == "60 x 90 pixels, cropped to its middle square and scaled to 32 x 32"
    assert best.picture.notes == [best.note]
    assert model.read(np.zeros((32, 32, 3), np.uint8)).note == ""


def test_resumed_is_uninterrupted(few_scenes: None, ends_the_same: Callable[..., Any]) -> None:
    settings = [
        *SMALL, "train.schedule=constant", "train.checkpoint_every=3", "train.validate_every=4", "data.flips=true",
        "data.shift=3", "model.dropout=0.2", "model.focus=0.1", "train.batch_tokens=64", f"train.max_steps={STEPS}",
    ]  # fmt: skip
    ends_the_same("scenes-caption", settings, at=4)


def test_workers_share_a_batch_without_changing_it(model: Captioner, few_scenes: None) -> None:
    corpus_task = task_of(model)
    examples = np.arange(10)
    model.model.train()
    whole = batch_loss(corpus_task, examples)
    shares = corpus_task.share(examples, 3)
    assert sorted(np.concatenate(shares).tolist()) == list(range(10))
    torch.testing.assert_close(sum(batch_loss(corpus_task, share) for share in shares), whole)
    assert corpus_task.size(examples) == sum(corpus_task.size(share) for share in shares) == 50  # 4 words and the end
    model.model.eval()


def test_mirrored_and_moved_pictures(model: Captioner, few_scenes: None) -> None:
    task = task_of(model, data={"flips": True, "shift": 2})
    images = torch.arange(32.0).expand(64, 3, 32, 32)  # brighter to the right
    torch.manual_seed(1)
    changed = task.changed(images)
    rising = changed[:, 0, 0, -1] > changed[:, 0, 0, 0]
    assert 16 < int(rising.sum()) < 48
    assert {float(one[0, 0, 10]) for one in changed[rising]} == {8.0, 9.0, 10.0, 11.0, 12.0}


def task_of(model: Captioner, **changes: dict[str, Any]) -> CaptionTask:
    from harken.data.images.caption_table import read_caption_corpus

    recipe = model.recipe
    for section, values in changes.items():
        recipe = recipe.model_copy(update={section: getattr(recipe, section).model_copy(update=values)})
    return CaptionTask(recipe, read_caption_corpus(model.recipe.data), model.model, model.tokenizer)


def test_the_verb(model: Captioner, pictures: Path, tmp_path: Path) -> None:
    one = run("caption", model.folder, pictures / "0.png")
    assert re.fullmatch(r"a \w+ \w+ \w+\n", one.stdout)
    several = run("caption", model.folder, pictures, "--out", tmp_path / "maps.html", "--beam", 1)
    assert [line.split("\t")[0] for line in several.stdout.splitlines()] == [
        str(pictures / f"{n}.png") for n in range(3)
    ]
    page = (tmp_path / "maps.html").read_text()
    assert page.count("data:image/png;base64,") >= 3 and "http:" not in page.replace("http://www.w3.org", "")
    found = json.loads(run("caption", model.folder, pictures / "1.png", "--json").stdout)
    assert len(found["attention"]) == len(found["words"]) and len(found["attention"][0]) == 8
    assert run("attention", model.folder, pictures / "0.png").exit_code == 0


def test_evaluate_writes_the_page_of_the_worst(model: Captioner, tmp_path: Path, few_scenes: None) -> None:
    done = run("evaluate", model.folder, "--split", "test", "--out", tmp_path / "found")
    assert done.exit_code == 0, done.output
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [
        *("BLEU", "chrF", "exact match", "attended region"),
    ]
    page = (tmp_path / "found" / "errors.html").read_text()
    assert "Worst captions" in page and "reference: a " in page and "stroke-dasharray" in page


def test_evaluate_on_a_table(model: Captioner, pictures: Path) -> None:
    captions = [model.caption(pictures / f"{number}.png").text for number in range(3)]
    rows = [f"{number}.png,{text}\n{number}.png,something else\n" for number, text in enumerate(captions)]
    (pictures / "mine.csv").write_text("image,caption\n" + "".join(rows))
    done = run("evaluate", model.folder, pictures / "mine.csv", "--json")
    found = json.loads(done.stdout)
    assert found["pictures"] == 3 and found["BLEU"] == pytest.approx(100.0) and "nrefs:2" in found["bleu_signature"]


@pytest.fixture
def mistakes(model: Captioner, pictures: Path, tmp_path: Path) -> Callable[[], dict[str, tuple[list[Any], str]]]:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "empty").mkdir()
    folder = model.folder
    return lambda: {
        "no image": (["caption", folder, tmp_path / "text.png"], "text.png is not an image that Pillow knows"),
        "no file": (["caption", folder, pictures / "9.png"], "9.png does not exist"),
        "empty folder": (["caption", folder, tmp_path / "empty"], "empty holds no picture"),
        "ending": (["caption", folder, pictures, "--out", "maps.gif"], "name it like maps.html"),
        "split": (["evaluate", folder, "--split", "exam"], "scenes has no split 'exam'; choose --split train or valid"),
        "no folder": (["train", "flickr8k-caption", "--out", tmp_path / "x"], "add --set data.dir=DIR"),
        "cut": (["check", "scenes-caption", "--set", "data.image_size=60"], "60 is not a multiple of 8"),
        "both": (["check", "scenes-caption", "--set", "data.train=x.csv"], "are both given; keep one"),
        "key": (["check", "scenes-caption", "--set", "data.flip=true"], "did you mean data.flips?"),
        "score": (["check", "scenes-caption", "--set", "model.decoder.attention=soft"], "attention"),
    }


def test_mistakes_are_one_line(mistakes: Callable[[], dict[str, tuple[list[Any], str]]], few_scenes: None) -> None:
    for name, (arguments, said) in mistakes().items():
        done = run(*arguments)
        assert done.exit_code == 2 and said in done.stderr, (name, done.output)
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, name


def test_a_captioner_without_attention_has_no_map(tmp_path: Path, few_scenes: None) -> None:
    words = ["model.decoder.attention=none", "model.decoder.attend=after", "train.max_steps=1"]
    model = harken.train("scenes-caption", tmp_path / "model", overrides=[*SMALL, *words], progress=False)
    best = model.caption(np.zeros((32, 32, 3), np.uint8))
    assert best.attention is None
    with pytest.raises(UserError, match="has no attention to show"):
        _ = best.picture


def test_a_recipe_is_read_and_written(tmp_path: Path) -> None:
    recipe = load_recipe("flickr8k-caption", ["data.dir=somewhere", "model.decoder.layers=2"])
    (tmp_path / "again.toml").write_text(recipe.to_toml())
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert recipe.model.title == "convolutional regions with recurrent decoder"
