"""Training on packed pairs on a GPU: kernels against references, captured updates against those without a graph."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from harken.data.packing import Window, pack
from harken.kernels.packed_attention.operator import packed_attention
from harken.models.transformer.packed import packed_arguments, packed_loss
from harken.nn.attention.packed import PackedMask, packed_attend_reference
from harken.nn.loss import linear_cross_entropy, smoothed_cross_entropy
from harken.plan import resolve
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.training.strategies import Strategy
from harken.training.strategies.base import Single
from harken.training.strategies.captured import Captured

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SETTINGS = [
    *("data.size=2000", "model.layers=2", "model.width=64", "model.heads=2", "model.feedforward=128"),
    *("model.dropout=0.0", "train.batch_tokens=1024", "train.max_steps=8", "train.device=cuda", "train.average=0.9"),
    *(
        "train.learning_rate=0.003",
        "train.schedule=constant",
        "train.warmup_steps=0",
        "train.label_smoothing=0.1",
        "tokenizer.kind=word",
    ),
]


LANGUAGE = [
    "model={architecture='transformer', layers=2, width=64, heads=2, feedforward=128, positions='rotary', dropout=0.0}",
    *("data.size=2000", "data.chunk=64", "train.batch_tokens=1024"),
    *("train.max_steps=8", "train.device=cuda", "train.learning_rate=0.003", "train.schedule=constant"),
]
RECIPES = {"phrasebook-transformer": SETTINGS, "phrasebook-language": LANGUAGE}


def task_with(*overrides: str, name: str = "phrasebook-transformer") -> tuple[Any, Any]:
    torch.manual_seed(0)
    recipe = resolve(load_recipe(name, [*RECIPES[name], *overrides]))[0]
    with TemporaryDirectory() as folder:
        return job_of(recipe.task).prepare(recipe, Path(folder), resuming=False).task, recipe.train


def relative(found: torch.Tensor, right: torch.Tensor) -> float:
    return ((found.double() - right.double()).norm() / right.double().norm()).item()


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-6), (torch.bfloat16, 5e-3)])
@pytest.mark.parametrize("width", [32, 40, 64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_packed_attention_equals_the_reference(dtype: torch.dtype, limit: float, width: int, causal: bool) -> None:
    torch.manual_seed(0)
    mask = PackedMask.spans(torch.randint(1, 90, (20,)), 2048)
    mask = mask.causal() if causal else mask
    mask = PackedMask(*(part.cuda() for part in mask))
    projected = torch.randn(2048, 3, 4, width, device="cuda", dtype=dtype, requires_grad=True)
    grad_output = torch.randn(2048, 4, width, device="cuda", dtype=dtype)
    exact = projected.detach().double().requires_grad_()
    right, found = packed_attend_reference(exact, None, mask), packed_attention(projected, None, *mask[1:])
    (wanted,) = torch.autograd.grad(right, exact, grad_output.double())
    (gradient,) = torch.autograd.grad(found, projected, grad_output)
    assert relative(found, right) < limit and relative(gradient, wanted) < limit


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-3)])
def test_the_cross_entropy_equals_the_reference(dtype: torch.dtype, limit: float) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(999, 64, device="cuda", dtype=dtype, requires_grad=True)
    weight = (torch.randn(5003, 64, device="cuda") / 8).to(dtype).requires_grad_()
    targets = torch.randint(0, 5003, (999,), device="cuda")
    targets[:9] = 0
    found = linear_cross_entropy(hidden, weight, None, targets, 0.1, 1e-3, 0)
    exact = [part.detach().double().requires_grad_() for part in (hidden, weight)]
    right = smoothed_cross_entropy(exact[0] @ exact[1].t(), targets, 0.1, 0, 1e-3)
    assert found.item() == pytest.approx(right.item(), rel=1e-3)
    grads = zip(torch.autograd.grad(found, (hidden, weight)), torch.autograd.grad(right, exact), strict=True)
    assert all(relative(one, other) < limit for one, other in grads)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("model.positions=rotary",),
        ("model.norm=post", "model.activation=gelu"),
        ("model.decoder_mixer=ssru",),
        ("model.architecture=decoder-only",),
    ],
)
def test_packed_equals_padded_in_loss_and_gradients(changes: tuple[str, ...]) -> None:
    task, _ = task_with(*changes, "train.precision=float32")
    model = task.model.cuda()
    assert task.packs
    indices = np.arange(30)
    padded = task.train.batch(indices).to("cuda")
    window = pack(task.train, indices, Window(1024, 1024))
    right = model.loss(padded.source, padded.source_lengths, padded.target_input, padded.target_output, 0.1)
    found = packed_loss(model, *packed_arguments(type(window)(*(part.cuda() for part in window))), 0.1)
    assert found.item() == pytest.approx(right.item(), rel=1e-5)
    parameters = list(model.parameters())
    grads = zip(torch.autograd.grad(found, parameters), torch.autograd.grad(right, parameters), strict=True)
    for one, other in grads:
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def losses_of(
    kind: type[Strategy], steps: int, *changes: str, name: str = "phrasebook-transformer"
) -> tuple[list[float], dict[str, torch.Tensor]]:
    task, config = task_with("train.precision=float32", *changes, name=name)
    strategy = kind(task, config)
    epoch, losses = task.epoch(0), []
    for step in range(1, steps + 1):
        result = strategy.update(step, [epoch[step % 4]], task.size(epoch[step % 4]), 1e-3)
        if result.ready is not None:
            result.ready.synchronize()
        losses.append(float(result.loss))
    torch.cuda.synchronize()
    return losses, {name: value.clone() for name, value in strategy.state().items()}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("phrasebook-transformer", "train.clip_norm=0.1"),
        ("phrasebook-transformer", "train.clip_norm=none"),
        ("phrasebook-transformer", "model.architecture=decoder-only"),
        ("phrasebook-language", "train.clip_norm=1"),
    ],
)
def test_captured_updates_equal_updates_without_a_graph(name: str, change: str) -> None:
    captured, state = losses_of(Captured, 8, change, name=name)
    single, wanted = losses_of(Single, 8, change, name=name)
    assert captured == pytest.approx(single, rel=1e-4)
    assert captured[-1] < captured[0]
    assert state.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(state[name].float().cpu(), value.float().cpu(), rtol=2e-2, atol=2e-3)


def test_an_update_with_nan_changes_nothing() -> None:
    task, config = task_with()
    strategy = Captured(task, config)
    epoch = task.epoch(0)
    for step in range(1, 5):
        strategy.update(step, [epoch[0]], task.size(epoch[0]), 1e-3)
    assert len(strategy.graphs) == 1
    before = {name: value.clone() for name, value in strategy.state().items() if not name.startswith("average")}
    bias = task.model.encoder.stack.blocks[0].feedforward.expand.bias
    kept = bias.detach().clone()
    bias.data[0] = torch.nan
    result = strategy.update(5, [epoch[0]], task.size(epoch[0]), 1e-3)
    result.ready.synchronize()
    assert bool(result.skipped)
    bias.data.copy_(kept)
    for name, value in strategy.state().items():
        if name in before:
            assert torch.equal(value, before[name]), name
    result = strategy.update(6, [epoch[0]], task.size(epoch[0]), 1e-3)
    result.ready.synchronize()
    assert not bool(result.skipped) and np.isfinite(float(result.loss))


def test_a_resumed_run_goes_on_like_an_uninterrupted_one(tmp_path: Path) -> None:
    from harken.api import train

    settings = [*SETTINGS, "train.validate_sentences=2", "train.checkpoint_every=4", "train.log_every=1"]
    whole = train("phrasebook-transformer", tmp_path / "whole", overrides=settings, progress=False)
    train("phrasebook-transformer", tmp_path / "parts", overrides=[*settings, "train.max_steps=4"], progress=False)
    train("phrasebook-transformer", tmp_path / "parts", overrides=settings, progress=False, resume=True)
    assert whole is not None

    def losses(folder: str) -> list[float]:
        lines = (tmp_path / folder / "metrics.jsonl").read_text().splitlines()
        return [entry["loss"] for entry in map(json.loads, lines) if entry["kind"] == "train"]

    assert losses("parts") == pytest.approx(losses("whole"), rel=2e-3)
