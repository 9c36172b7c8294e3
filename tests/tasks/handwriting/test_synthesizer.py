"""Handwriting from end to end, small: train, load, resume, write, score, look, and a user's mistakes."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.penfont import penfont
from harken.errors import UserError
from harken.inspection import gradient_flow
from harken.recipe import load_recipe
from harken.tasks.handwriting.job import HandwritingJob
from harken.tasks.handwriting.synthesizer import HandwritingSynthesizer, build, nats_of_rows

TINY = [
    "data.size=60",
    "model.width=12",
    "model.mixtures=3",
    "model.window=2",
    "model.embedding=6",
    "train.max_steps=8",
    "train.warmup_steps=0",
    "train.learning_rate=2e-2",
    "train.average=0.0",
    "train.batch_tokens=500",
    "train.validate_every=4",
    "train.checkpoint_every=3",
    "train.device=cpu",
    "train.precision=float32",
    "train.workers=1",
    "train.threads=1",
    "sampling.max_points=40",
]


@pytest.fixture(scope="module", autouse=True)
def small_splits() -> Any:
    """400 lines to validate on would take longer than the training here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harken.data.strokes.corpus.penfont", lambda size, seed: penfont(size, seed, held_out=10))
        yield


@pytest.fixture(scope="module")
def penman(tmp_path_factory: pytest.TempPathFactory) -> HandwritingSynthesizer:
    folder = tmp_path_factory.mktemp("pen") / "model"
    return harken.train("penfont-handwriting", folder, overrides=TINY, progress=False)


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> HandwritingSynthesizer:
    """A model that draws from nothing."""
    folder = tmp_path_factory.mktemp("free")
    lines = penfont(30, seed=1, held_out=0)["train"]
    rows = [{"strokes": [stroke.tolist() for stroke in line.strokes()]} for line in lines]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = [*TINY, f"data.train={folder / 'a.jsonl'}", "data.max_points=none", "model.window=0"]
    return harken.train("omniglot-handwriting", folder / "model", overrides=overrides, progress=False)


def test_the_loaded_folder_is_the_trained_model(penman: HandwritingSynthesizer) -> None:
    assert penman.folder is not None
    drawings = penfont(6, seed=9, held_out=0)["train"]
    loaded = harken.load(penman.folder)
    np.testing.assert_array_equal(loaded.nats(drawings), penman.nats(drawings))
    assert float(loaded.model.deviation) == float(penman.model.deviation) != 1.0
    assert "nats a point" in (penman.folder / "card.md").read_text()


def test_killed_and_resumed_is_uninterrupted(penman: HandwritingSynthesizer, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("penfont-handwriting", TINY, at=5, whole=penman.folder)


def test_padding_changes_no_likelihood(penman: HandwritingSynthesizer) -> None:
    drawings = penfont(8, seed=3, held_out=0)["train"]
    together = penman.nats(drawings)
    alone = np.array([penman.nats([drawing])[0] for drawing in drawings])
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_the_loss_is_the_summed_nats_and_falls(penman: HandwritingSynthesizer) -> None:
    drawings = penfont(20, seed=4, held_out=0)["train"]
    torch.manual_seed(0)
    fresh = HandwritingSynthesizer(penman.recipe, build(penman.recipe, penman.tokenizer), penman.tokenizer)
    fresh.model.deviation.data.copy_(penman.model.deviation.data)
    points = sum(len(drawing) for drawing in drawings)
    assert penman.nats(drawings).sum() / points < fresh.nats(drawings).sum() / points - 0.3
    from harken.data.strokes.rows import StrokeRows

    batch = StrokeRows(drawings, penman.tokenizer).batch(np.arange(20), float(penman.model.deviation))
    with torch.no_grad():
        assert float(nats_of_rows(penman.model, batch).sum()) == pytest.approx(penman.nats(drawings).sum(), rel=1e-5)


def test_writing_is_drawn_by_the_seed(penman: HandwritingSynthesizer) -> None:
    one, again, other = (penman.write("abc", bias=0.5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.points, again.points)
    assert one.points.shape != other.points.shape or not np.array_equal(one.points, other.points)
    assert one.text == "abc" and one.window is not None and one.window.shape == (len(one.points), 4)
    assert len(one.points) <= 40
    several = penman.write(["ab", "12 x"], seed=3)
    assert [strokes.text for strokes in several] == ["ab", "12 x"]


def test_a_high_bias_draws_the_likeliest(penman: HandwritingSynthesizer) -> None:
    first = [penman.write("abc", bias=300.0, seed=seed).points[0, :2] for seed in range(5)]
    assert np.ptp(np.stack(first), axis=0).max() < 0.2 * float(penman.model.deviation)


def test_what_is_written_can_be_kept(penman: HandwritingSynthesizer, tmp_path: Path) -> None:
    from harken.data.strokes.files import read_strokes

    strokes = penman.write("hi")
    assert strokes.to_svg().count("stroke-linecap: round") == len(strokes.strokes())
    (tmp_path / "kept.jsonl").write_text(json.dumps(strokes.to_json()))
    (kept,) = read_strokes(tmp_path / "kept.jsonl")
    places, wanted = np.concatenate(kept.strokes()), np.concatenate(strokes.strokes())
    np.testing.assert_allclose(places, wanted, atol=1e-3)


def test_the_window_can_be_looked_at(penman: HandwritingSynthesizer, free: HandwritingSynthesizer) -> None:
    picture = HandwritingJob().attention_figure(penman, "ab c")
    assert picture.target_words == ["a", "b", "␣", "c", "end"]  # type: ignore[attr-defined]
    np.testing.assert_allclose(picture.weights.sum(0), 1.0, atol=1e-3)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="cannot write 'ab c'"):
        HandwritingJob().attention_figure(free, "ab c")


def test_gradients_can_be_looked_at(penman: HandwritingSynthesizer, free: HandwritingSynthesizer) -> None:
    written: list[Drawing] = penfont(12, seed=3, held_out=0)["train"]
    drawings = sorted(written, key=lambda drawing: len(drawing.points))[:3]
    assert len(list(gradient_flow(free, drawings, sampled=1))) == 2
    flow = gradient_flow(penman, drawings, sampled=1)
    assert [layer.name for layer in flow] == ["first", "upper.0"]  # the window's layer, and the one above
    nats = penman.nats(drawings)
    assert gradient_flow(penman, drawings, loss="all", sampled=0).loss == pytest.approx(nats.sum(), rel=1e-4)


def test_drawing_from_nothing(free: HandwritingSynthesizer) -> None:
    drawings = free.write([None] * 3, seed=5)
    assert len(drawings) == 3 and all(strokes.window is None and strokes.text is None for strokes in drawings)
    scores = HandwritingJob().evaluate(free, "train", [], lambda done: None)
    assert [metric.name for metric in scores.metrics] == ["nats"]
    assert scores.metrics[0].low < scores["nats"] < scores.metrics[0].high  # type: ignore[operator]
    with pytest.raises(UserError, match="draws from nothing and cannot write 'a'; leave the text out"):
        free.write("a")


def test_a_split_without_drawings_is_refused(free: HandwritingSynthesizer) -> None:
    with pytest.raises(UserError, match="a has no split 'test'; choose --split train or valid, or give a file"):
        HandwritingJob().evaluate(free, "test", [], lambda done: None)


def test_mistakes(penman: HandwritingSynthesizer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 'é', which the model never saw"):
        penman.write("été")
    with pytest.raises(UserError, match="there is none; give one in quotes"):
        penman.write(None)
    with pytest.raises(UserError, match="the bias is -1; it may be 0 to 1000"):
        penman.write("a", bias=-1)
    with pytest.raises(UserError, match="the bias is inf; it may be 0 to 1000"):
        penman.write("a", bias=math.inf)
    with pytest.raises(UserError, match=r"sampling\.bias"):
        load_recipe("penfont-handwriting", ["sampling.bias=inf"])
    with pytest.raises(UserError, match=r"does not say where its drawings are: add --set data\.file=FILE"):
        load_recipe("omniglot-handwriting")
    with pytest.raises(UserError, match=r"data\.corpus and data\.file are both given"):
        load_recipe("penfont-handwriting", ["data.file=x.npz"])
    lines = "".join(f'{{"strokes": [[[0, 0], [1, {number}]]]}}\n' for number in range(3))
    (tmp_path / "a.jsonl").write_text(lines)
    mine = ["data.corpus=none", f"data.train={tmp_path / 'a.jsonl'}"]
    with pytest.raises(UserError, match=r"come without a text to look at; set model\.window = 0"):
        harken.train("penfont-handwriting", tmp_path / "m", overrides=[*TINY, *mine], progress=False)
    with pytest.raises(UserError, match="a drawing has no text, and this model reads one"):
        HandwritingJob().evaluate(penman, None, [tmp_path / "a.jsonl"], lambda done: None)


def test_a_point_costs_the_same_at_every_length(penman: HandwritingSynthesizer, free: HandwritingSynthesizer) -> None:
    from harken.models.sizing import measure

    for model in (penman, free):
        assert measure(model.model, 10).flops == pytest.approx(measure(model.model, 500).flops)
