"""What the tests of all jobs share: a run that is cut in two must end as one that was not."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import harken
from harken.training.loop import Trainer


class PowerCut(Exception):
    """What stands for a kill inside one process."""


@pytest.fixture
def ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Train a recipe, cut the power before update `at`, and go on: weights, average and optimizer are equal to the bit.

    `whole` is the folder of a run of the same recipe and overrides that was never cut; without one it is made.
    What was trained is given back.
    """

    def check(recipe: str | Path, overrides: Sequence[str], at: int, whole: Path | None = None) -> Any:
        if whole is None:
            whole = tmp_path / "whole"
            harken.train(recipe, whole, overrides=overrides, progress=False)
        update, cut = Trainer._update, tmp_path / "cut"

        def cut_off(self: Trainer, batches: Any) -> None:
            if self.progress.step == at:
                raise PowerCut
            update(self, batches)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_update", cut_off)
            with pytest.raises(PowerCut):
                harken.train(recipe, cut, overrides=overrides, progress=False)
        resumed = harken.train(recipe, cut, overrides=overrides, resume=True, progress=False)
        for name in ("checkpoint.safetensors", "model.safetensors"):
            one, other = load_file(whole / name), load_file(cut / name)
            assert one.keys() == other.keys()
            assert [key for key in one if not torch.equal(one[key], other[key])] == []
        return resumed

    return check
