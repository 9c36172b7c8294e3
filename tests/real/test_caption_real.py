"""Captioning as it ships: scenes to the figures that were asked for, and photographs as they are. Minutes each."""

from pathlib import Path

import pytest

import harken
from harken.tasks.caption.job import JOB

ONE_CORE = ["train.device=cpu", "train.workers=1", "train.threads=1"]


@pytest.mark.slow
def test_scenes_are_described_and_looked_at(tmp_path: Path) -> None:
    """On combinations never seen in training. Where nouns look depends on the seed: 0.27 to 0.85 (at random 0.08)."""
    model = harken.train("scenes-caption", tmp_path / "scenes", overrides=ONE_CORE, progress=False)
    scores = JOB.score(model, JOB.held_out(model, "test"), lambda done: None)
    assert scores.count == 1000
    assert scores["BLEU"] >= 85 and scores["attended region"] >= 0.2


@pytest.mark.slow
@pytest.mark.shared
def test_photographs_get_captions_and_maps(shared_data: Path, tmp_path: Path) -> None:
    """A few updates: what is read, what is scored, what is drawn; the figures are in the record."""
    settings = [f"data.dir={shared_data / 'flickr8k'}", "train.max_steps=60", "train.validate_every=60", *ONE_CORE]
    model = harken.train("flickr8k-caption", tmp_path / "photos", overrides=settings, progress=False)
    examples = JOB.held_out(model, "test")
    assert len(examples) == 250 and all(len(example.captions) == 5 for example in examples)
    scores = JOB.score(model, examples[:50], lambda done: None)
    assert "nrefs:5" in scores.details["bleu_signature"] and scores["BLEU"] > 0.1
    original = next((shared_data / "flickr8k" / "originals").glob("*.jpg"))
    best = model.caption(original)
    assert best.attention is not None and best.attention.shape == (len(best.words), 6, 6)
    assert best.note.endswith("scaled to 96 x 96")
