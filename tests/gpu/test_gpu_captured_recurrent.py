"""Recurrent translators whose updates are captured: rounded batches and graphs against plain updates."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from harken.kernels.settings import device_only
from harken.metrics import corpus_bleu
from harken.nn import LSTM
from harken.plan import resolve
from harken.recipe import load_recipe
from harken.search import greedy_search
from harken.tasks.translate.job import JOB
from harken.tasks.translate.sources import max_lengths
from harken.training.strategies import Strategy, choose_strategy
from harken.training.strategies.base import Single
from harken.training.strategies.captured import Captured

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability()[0] != 9, reason="needs a Hopper GPU"
    ),
]

SETTINGS = [
    *("data.size=1000", "model.embedding=32", "model.width=64", "model.dropout=0.0", "train.batch_tokens=512"),
    *("train.max_steps=8", "train.device=cuda", "train.average=0.9", "train.warmup_steps=0", "tokenizer.kind=word"),
    *("train.learning_rate=0.003", "train.schedule=constant", "train.label_smoothing=0.1"),
]


def task_with(*overrides: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    recipe = resolve(load_recipe("phrasebook-attention", [*SETTINGS, *overrides]))[0]
    with TemporaryDirectory() as folder:
        return JOB.prepare(recipe, Path(folder), resuming=False).task, recipe.train


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("model.cell=gru", "model.attention=multiplicative"),
        ("model.layers=2", "model.coverage=true"),
        ("model.attention=none", "model.context=constant"),
    ],
)
def test_static_loss_and_gradients_are_those_of_the_unrounded_batch(
    changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    task, _ = task_with("train.precision=float32", *changes)
    model = task.model.cuda()
    indices = np.arange(37)
    batch = task.static_collate(indices)
    assert task.is_static(batch) and batch.pairs.source.shape[0] == 48
    exact = task.train.batch(indices).to("cuda")
    right = model.loss(exact.source, exact.source_lengths, exact.target_input, exact.target_output, 0.1)
    found = task.static_loss(model, batch._replace(pairs=batch.pairs.to("cuda")))
    assert found.item() == pytest.approx(right.item(), rel=1e-5)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad(right, parameters, allow_unused=True)
    for one, other in zip(torch.autograd.grad(found, parameters, allow_unused=True), wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def losses_of(kind: type[Strategy], steps: int, *changes: str) -> tuple[list[float], dict[str, torch.Tensor], Any]:
    task, config = task_with(*changes)
    strategy = kind(task, config)
    epoch, losses = task.epoch(0), []
    for step in range(1, steps + 1):
        result = strategy.update(step, [epoch[step % 4]], task.size(epoch[step % 4]), 1e-3)
        if result.ready is not None:
            result.ready.synchronize()
        losses.append(float(result.loss))
    torch.cuda.synchronize()
    return losses, {name: value.clone() for name, value in strategy.state().items()}, strategy


def test_captured_updates_equal_plain_ones() -> None:
    captured, state, strategy = losses_of(Captured, 16, "train.precision=float32")
    assert 1 <= len(strategy.graphs) <= 4
    single, wanted, _ = losses_of(Single, 16, "train.precision=float32")
    assert captured == pytest.approx(single, rel=1e-3)
    assert captured[-1] < captured[0]
    for name, value in wanted.items():
        torch.testing.assert_close(state[name].float().cpu(), value.float().cpu(), rtol=5e-2, atol=5e-3)


def test_bfloat16_with_dropout_learns_and_a_graph_draws_new_masks() -> None:
    losses, _, strategy = losses_of(Captured, 40, "train.precision=bfloat16", "model.dropout=0.3")
    assert strategy.graphs and np.isfinite(losses).all()
    assert np.mean(losses[-4:]) < 0.95 * np.mean(losses[:4])
    task = strategy.task
    batch = task.epoch(0)[0]
    found = []
    for step in (101, 102, 101):
        result = strategy.update(step, [batch], task.size(batch), 0.0)
        result.ready.synchronize()
        found.append(float(result.loss))
    assert found[0] == found[2] != found[1]  # numbers are drawn from (seed, step)


def test_the_strategy_is_chosen_and_few_graphs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    task, config = task_with()
    assert isinstance(choose_strategy(task, config), Captured)
    monkeypatch.setattr("harken.training.strategies.captured.MEMORY_SHARE", 1e-9)
    strategy = Captured(task, config)
    epoch = task.epoch(0)
    for step in range(1, 30):
        strategy.update(step, [epoch[step % len(epoch)]], task.size(epoch[step % len(epoch)]), 1e-3)
    assert strategy.graphs.max_graphs == len(strategy.graphs) == 1


def test_an_update_that_cannot_be_captured_runs_kernel_by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    task, config = task_with("model.dropout=0.2")
    loss = task.static_loss

    def waits(model: Any, batch: Any) -> torch.Tensor:
        found = loss(model, batch)
        assert isinstance(found.item(), float)
        return found

    monkeypatch.setattr(task, "static_loss", waits)
    strategy = Captured(task, config)
    batch = task.epoch(0)[0]
    with pytest.warns(UserWarning, match="could not be captured"):
        losses = [float(strategy.update(step, [batch], task.size(batch), 1e-3).loss) for step in range(1, 12)]
    torch.cuda.synchronize()
    assert not strategy.graphs and np.isfinite(losses).all()


def test_more_rows_than_fit_run_in_turn() -> None:
    torch.manual_seed(0)
    layer = LSTM(24, 256, bidirectional=True, batch_first=True, device="cuda")
    x = torch.randn(1500, 9, 24, device="cuda", requires_grad=True)
    lengths = torch.randint(1, 10, (1500,), device="cuda")
    with device_only():
        assert layer.backend(x) == "triton"
        output, state = layer(x, lengths=lengths)
    right, wanted = layer.reference(x, lengths=lengths)
    torch.testing.assert_close(output, right, rtol=1e-3, atol=1e-4)
    for one, other in zip(state, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    inputs = (x, *layer.parameters())
    seed = torch.randn_like(output)
    grads = zip(torch.autograd.grad(output, inputs, seed), torch.autograd.grad(right, inputs, seed), strict=True)
    for one, other in grads:
        torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_validation_on_a_gpu_finds_what_greedy_search_finds(precision: str) -> None:
    """Also the second time, after updates that torch does not count as changes of the weights."""
    task, config = task_with(f"train.precision={precision}", "train.average=0")
    strategy = Captured(task, config)
    epoch, step, scores = task.epoch(0), 0, []
    for _ in range(3):
        for _ in range(60):
            step += 1
            batch = epoch[step % len(epoch)]
            strategy.update(step, [batch], task.size(batch), 3e-3)
        task.settings = task.settings.model_copy(update={"validate_sentences": 20})
        metrics = strategy.validate()
        model, pairs = task.model.eval(), task.valid.batch(np.arange(20)).to("cuda")
        limits = max_lengths(task.recipe, pairs.source_lengths)
        with torch.no_grad(), strategy.autocast():
            state = model.start(pairs.source, pairs.source_lengths, max_length=int(limits.max()))
            wanted = greedy_search(model, state, 20, max_lengths=limits)
        model.train()
        outputs = [task.target.decode(hypothesis.tokens) for hypothesis in wanted]
        scores.append((metrics["bleu"], corpus_bleu(outputs, task.references[:20]).value))
    assert strategy.graphs
    for found, right in scores:
        assert found == pytest.approx(right, abs=1.0 if precision == "float32" else 6.0)
    assert scores[-1][0] > scores[0][0]  # not those of the first weights
