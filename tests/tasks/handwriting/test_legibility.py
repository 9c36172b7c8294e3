"""The recogniser: edits are Levenshtein's, reading is greedy CTC, and it learns to read a few letters."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.penfont import Hand
from harken.data.tokenizers.plain import CharacterTokenizer
from harken.metrics.edits import edits
from harken.tasks.handwriting.legibility import (
    Reading,
    Recogniser,
    read_drawings,
    recogniser_for,
    train_recogniser,
)

TOKENIZER = CharacterTokenizer(["l", "o", "v"])


def lines(count: int, seed: int) -> list[Drawing]:
    random = np.random.default_rng(seed)
    texts = ["".join(random.choice(list("lov"), random.integers(1, 4))) for _ in range(count)]
    return [Hand.draw(random).write(text, random) for text in texts]


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edits_are_a_distance(one: str, other: str) -> None:
    assert edits(one, other).total == edits(other, one).total <= max(len(one), len(other))
    assert (edits(one, other).total == 0) == (one == other)
    assert edits(one + "a", other + "a").total <= edits(one, other).total


def test_characters_read_right() -> None:
    reading = Reading(["abc", "de"], ["abd", "xxxxxx"])
    assert reading.right.tolist() == [2, 0] and reading.share == pytest.approx(2 / 5)


def test_repeats_and_nothings_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Recogniser(TOKENIZER.size, width=4)
    best = torch.tensor([[4, 4, 0, 4, 5, 5]])
    monkeypatch.setattr(model, "forward", lambda points, lengths: torch.nn.functional.one_hot(best, 7).float())
    drawing = Drawing(np.zeros((6, 3), np.float32))
    assert model.read([drawing], TOKENIZER) == ["llo"]
    assert model.read([Drawing(np.zeros((3, 3), np.float32))] * 0, TOKENIZER) == []


@pytest.mark.slow
def test_it_learns_to_read() -> None:
    model = train_recogniser(lines(300, 1), TOKENIZER, steps=700)
    reading = read_drawings(model, lines(60, 2), TOKENIZER)
    assert reading.share > 0.9


def test_it_is_kept_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Folder:
        tokenizer, folder = TOKENIZER, tmp_path

    made = Recogniser(TOKENIZER.size).eval()
    monkeypatch.setattr("harken.tasks.handwriting.legibility.real_strokes", lambda penman: lines(20, 1))
    monkeypatch.setattr("harken.tasks.handwriting.legibility.train_recogniser", lambda *rest, **more: made)
    first = recogniser_for(Folder())  # type: ignore[arg-type]
    monkeypatch.setattr("harken.tasks.handwriting.legibility.train_recogniser", None)
    second = recogniser_for(Folder())  # type: ignore[arg-type]
    drawings = lines(5, 3)
    assert first.read(drawings, TOKENIZER) == second.read(drawings, TOKENIZER)
    assert torch.equal(first.output.weight, second.output.weight)
