"""Strings of spoken digits: what the recipe promises on takes that were never heard in training."""

from pathlib import Path

import pytest

import harken
from harken.data.audio.spoken_digits import MixedDigits
from harken.tasks.registry import job_of
from harken.tasks.transcribe.splits import read_splits

pytestmark = [pytest.mark.slow, pytest.mark.shared]


def test_the_digit_error_rate_on_unseen_takes_is_at_most_three_in_a_hundred(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "spoken-digits"
    if not folder.is_dir():
        pytest.skip("the spoken digits are not among the shared data")
    model = harken.train(
        "spoken-digits-transcribe", tmp_path / "digits", overrides=[f"data.dir={folder}"], progress=False
    )
    splits = read_splits(model.recipe)
    heard = {}
    for name in ("train", "valid", "test"):
        part = splits.parts[name]
        assert isinstance(part, MixedDigits)
        heard[name] = {int(number) for group in part.groups for number in group}
    assert not heard["train"] & heard["test"] and not heard["train"] & heard["valid"]
    scores = job_of("transcribe").evaluate(model, "test", [], lambda done: None)
    assert scores.count == 500
    assert scores["digit error rate"] <= 0.03
