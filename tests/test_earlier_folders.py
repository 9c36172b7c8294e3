"""Model folders of version 0.1 (commit 2e7f6b2) load and give the outputs that were recorded with them.

`tests/folders` holds a Transformer, a recurrent translator and a classifier, trained for a minute each, and
`expected.json`, written by that version.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.tasks.data_record import READING, DataRecord

FOLDERS = Path(__file__).parent / "folders"
EXPECTED: dict[str, list[Any]] = json.loads((FOLDERS / "expected.json").read_text(encoding="utf-8"))
SENTENCES = ["the black cat sleeps .", "my brother sees the old house .", "they like the small car ."]
REVIEWS = ["the film was not good", "a great cast", "dull , but i liked it"]


def copy_of(name: str, directory: Path) -> Path:
    """A copy, since a folder that is in use gets a lock file."""
    return Path(shutil.copytree(FOLDERS / name, directory / name))


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
@pytest.mark.parametrize("kernels", ["", "off"])
def test_a_translator_gives_the_same_hypotheses_scores_and_attention(
    name: str, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", kernels)
    model = harken.load(copy_of(name, tmp_path), device="cpu")
    for row, beam, greedy in zip(
        EXPECTED[name], model.translate(SENTENCES, beam=3), model.translate(SENTENCES, beam=1), strict=True
    ):
        assert (beam.text, greedy.text) == (row["text"], row["greedy"])
        assert beam.score == pytest.approx(row["score"], abs=1e-4)
        assert beam.attention.sum(0).tolist() == pytest.approx(row["attention"], abs=1e-3)


def test_a_classifier_gives_the_same_probabilities(tmp_path: Path) -> None:
    probabilities = harken.load(copy_of("classifier", tmp_path), device="cpu").predict_proba(REVIEWS)
    for row, expected in zip(probabilities, EXPECTED["classifier"], strict=True):
        assert row.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["transformer", "recurrent", "classifier"])
def test_the_data_of_a_folder_is_known_to_be_read_by_an_earlier_version(name: str) -> None:
    """Versions are not compared as text: the record says how files were read, and 0.1 said nothing."""
    record = DataRecord.load(FOLDERS / name)
    assert record is not None and record.reading < READING
