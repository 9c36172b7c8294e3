"""On a CUDA device a language model says what it says on a CPU, and weight drop keeps our launch."""

from typing import Any

import numpy as np
import pytest
import torch

from harken.kernels.recurrent.triton import layer
from harken.models.build import build_language
from harken.recipe import load_recipe
from harken.tasks.language.task import LanguageTask
from harken.training.task import batch_loss

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

SMALL = ["data.dir=x", "model.width=128", "model.embedding=64", "train.batch_tokens=560"]


def make_task(*changes: str) -> LanguageTask:
    recipe = load_recipe("ptb-lstm", [*SMALL, *changes])
    torch.manual_seed(3)
    ids = np.random.default_rng(1).integers(3, 90, 8 * 210 + 100)
    return LanguageTask(recipe, build_language(recipe.model, 90), ids, ids[:200])


def test_chunks_with_carried_states_as_on_a_cpu() -> None:
    here, there = make_task(), make_task()
    there.model.cuda()
    there.carried.update({name: value.cuda() for name, value in there.carried.items()})
    for task in (here, there):
        task.model.eval()
    with torch.no_grad():
        for batch in here.epoch(0):
            assert float(batch_loss(there, batch)) == pytest.approx(float(batch_loss(here, batch)), rel=1e-3)
    for name, value in here.carried.items():
        assert torch.allclose(value, there.carried[name].cpu(), atol=1e-2)


def test_weight_drop_in_bfloat16_keeps_our_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    run = layer.run_triton

    def watched(call: Any, together: bool) -> Any:
        taken.append(call.x.shape[0])
        return run(call, together)

    monkeypatch.setattr(layer, "run_triton", watched)
    task = make_task()
    task.model.cuda().train()
    task.carried.update({name: value.cuda() for name, value in task.carried.items()})
    first = task.epoch(0)
    for batch in first[:3]:
        with torch.autocast("cuda", torch.bfloat16):
            loss = batch_loss(task, batch)
        loss.backward()
        assert torch.isfinite(loss)
    if torch.cuda.get_device_capability()[0] == 9:
        assert taken == [70] * 9  # three layers, three chunks
    assert all(parameter.grad is not None for parameter in task.model.parameters())
    assert all(value.dtype == torch.float32 and value.abs().sum() > 0 for value in task.carried.values())
