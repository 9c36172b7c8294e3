"""Every verb refuses models with NaN or infinite weights, or with finite ones whose outputs overflow."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.training.folder import MODEL
from harken.training.weights import load_tensors, save_tensors

STORY = b"Anna went to the hall.\nWhere is Anna?\n"
CONTEXT = ("the cat sleeps", "the house", "--word", "the", "--count", "0")
USES: dict[str, tuple[str, Callable[[Path, Path], list[Any]], bytes]] = {
    "translate": ("phrasebook-transformer", lambda model, home: ["translate", model], b"the cat sleeps\n"),
    "attention": ("phrasebook-transformer", lambda model, home: ["attention", model, "the cat"], b""),
    "evaluate": (
        "phrasebook-transformer",
        lambda model, home: ["evaluate", model, "--source", home / "a.txt", "--reference", home / "a.txt"],
        b"",
    ),
    "classify": ("opinions-classify", lambda model, home: ["classify", model], b"the film was good\n"),
    "classify signals": ("gestures-classify", lambda model, home: ["classify", model, home / "a.npz"], b""),
    "inspect gates": ("opinions-classify", lambda model, home: ["inspect", model, "--gates", "the film"], b""),
    "inspect gradients": ("opinions-classify", lambda model, home: ["inspect", model, "--gradients"], b""),
    "tag": ("phrasebook-tag", lambda model, home: ["tag", model], b"we clean the house\n"),
    "generate": ("phrasebook-language", lambda model, home: ["generate", model, "the", "--length", "3"], b""),
    "attention masked": ("phrasebook-masked", lambda model, home: ["attention", model, "the [MASK] sleeps"], b""),
    "embed context": ("phrasebook-language", lambda model, home: ["embed", "context", model, *CONTEXT], b""),
    "forecast": ("seasons-forecast", lambda model, home: ["forecast", model, "--steps", "2"], b""),
    "transcribe": ("tones-transcribe", lambda model, home: ["transcribe", model, home / "a.wav"], b""),
    "answer": ("stories-answer", lambda model, home: ["answer", model], STORY),
    "caption": ("scenes-caption", lambda model, home: ["caption", model, home / "a.png"], b""),
    "write": ("penfont-handwriting", lambda model, home: ["write", model, "a", "--out", home / "a.svg"], b""),
}


def one_nan(tensors: dict[str, Tensor]) -> None:
    last = [value for value in tensors.values() if value.is_floating_point() and value.numel()][-1]
    last.view(-1)[0] = float("nan")


def one_infinity(tensors: dict[str, Tensor]) -> None:
    first = next(value for value in tensors.values() if value.is_floating_point() and value.numel())
    first.view(-1)[-1] = float("inf")


def overflowing(tensors: dict[str, Tensor]) -> None:
    """Every weight is finite, and every sum of two of a sign is not."""
    for value in tensors.values():
        if value.is_floating_point():
            value.copy_(torch.where(value < 0, -3e38, 3e38))


@pytest.mark.parametrize(
    "change", [one_nan, *(pytest.param(change, marks=pytest.mark.slow) for change in (one_infinity, overflowing))]
)
@pytest.mark.parametrize("verb", USES)
def test_values_that_are_not_finite_are_refused(
    harken: Any, models: Any, inputs: Path, tmp_path: Path, verb: str, change: Any
) -> None:
    recipe, words, stdin = USES[verb]
    folder = tmp_path / "model"
    shutil.copytree(models[recipe], folder, ignore=shutil.ignore_patterns("checkpoint*"))
    tensors, metadata = load_tensors(folder / MODEL)
    change(tensors)
    save_tensors(folder / MODEL, tensors, {name: value for name, value in metadata.items() if name != "sha256"})
    outcome = harken(*words(folder, inputs), stdin=stdin)
    assert outcome.check((2,)) is None, outcome.check((2,))
    assert "NaN or infinite" in outcome.stderr or "not finite" in outcome.stderr
    assert "nan" not in outcome.stdout.lower()
