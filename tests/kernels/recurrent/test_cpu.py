"""The CPU kernels equal the reference, in values and gradients, for every cell, wiring and layout, however called."""

import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.kernels.recurrent.cpu import operator as cpu_recurrent
from harken.kernels.recurrent.cpu import runtime
from harken.nn.recurrent import stack

pytest.importorskip("numba", reason="the CPU kernels are compiled by numba")
sys.path.insert(0, str(Path(__file__).parents[2] / "nn" / "recurrent"))
from recurrent_cases import VARIANTS, build, parts_of, random_state


@pytest.fixture(autouse=True, scope="module")
def every_call_takes_the_kernel() -> Iterator[None]:
    """The shapes here are too small to be sent there of themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "choose", lambda backends, call: cpu_recurrent.CPU)
        yield


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    time, batch = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 3, 17]))
    lengths = draw(st.lists(st.integers(0, time), min_size=batch, max_size=batch).filter(any))
    return {
        "variant": draw(st.sampled_from(sorted(VARIANTS))),
        "inputs": draw(st.integers(1, 3)),
        "hidden": draw(st.integers(3, 9)),
        "layers": draw(st.integers(1, 2)),
        "options": {
            "bias": draw(st.sampled_from([True, "one", False])),
            "bidirectional": draw(st.booleans()),
            "layer_norm": draw(st.booleans()),
            "connections": draw(st.sampled_from([None, "residual", "highway", "dense"])),
            "zoneout": draw(st.sampled_from([0.0, 0.3])),
            "recurrent_dropout": draw(st.sampled_from([0.0, 0.3])),
        },
        "training": draw(st.booleans()),
        "lengths": lengths if draw(st.booleans()) else None,
        "time": time,
        "batch": batch,
        "with_state": draw(st.booleans()),
        "single": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def gradients(made: Any, into: list[torch.Tensor]) -> list[torch.Tensor]:
    """Of a loss that weighs every number differently."""
    output, state = made
    parts = (output, *parts_of(state))
    loss = sum((part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view_as(part)).sum() for part in parts)
    return list(torch.autograd.grad(loss, into, allow_unused=True, materialize_grads=True))


@settings(deadline=None, max_examples=25)
@given(cases())
def test_the_kernel_equals_the_reference(case: dict[str, Any]) -> None:
    """1e-9 in float64; in float32 1e-5 of what the same weights give in float64, where that is well conditioned."""
    torch.manual_seed(case["seed"])
    layer = build(case["variant"], case["inputs"], case["hidden"], case["layers"], **case["options"])
    layer.train(case["training"])
    single = case["single"] and not case["options"]["layer_norm"]  # the norm of 3 units can divide by almost nothing
    tolerance = 1e-5 if single else 1e-9
    values = torch.randn(case["batch"], case["time"], case["inputs"], dtype=torch.float64, requires_grad=True)
    state = random_state(layer, case["batch"]) if case["with_state"] else None
    into = [values, *layer.parameters()]
    for part in () if state is None else parts_of(state):
        into.append(part.requires_grad_())
    lengths = None if case["lengths"] is None else torch.tensor(case["lengths"])
    torch.manual_seed(0)
    right = layer.reference(values, state, lengths)
    wanted = [right[0], *parts_of(right[1]), *gradients(right, into)]
    if single:
        layer = layer.float()
        values = values.detach().float().requires_grad_()
        if state is not None:
            parts = tuple(part.detach().float().requires_grad_() for part in parts_of(state))
            state = parts if isinstance(state, tuple) else parts[0]
        into = [values, *layer.parameters(), *(() if state is None else parts_of(state))]
    torch.manual_seed(0)
    made = layer(values, state, lengths)
    found = [made[0], *parts_of(made[1]), *gradients(made, into)]
    if single and case["training"] and case["options"]["recurrent_dropout"]:
        return  # masks are drawn in the dtype of the layer: another draw
    scale = 1 + max(part.abs().max().item() for part in wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours.double(), theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_alone_or_padded(variant: str, layer_norm: bool) -> None:
    torch.manual_seed(2)
    layer = build(variant, 3, 5, 2, torch.float32, bidirectional=True, layer_norm=layer_norm)
    batch = torch.randn(3, 6, 3)
    alone, state_alone = layer(batch[1:2, :4])
    batch[1, 4:] = float("nan")
    batch.requires_grad_()
    output, state = layer(batch, lengths=torch.tensor([2, 4, 6]))
    assert torch.allclose(output[1, :4], alone[0], atol=1e-6)
    assert (output[1, 4:] == 0).all()
    for found, right in zip(parts_of(state), parts_of(state_alone), strict=True):
        assert torch.allclose(found[:, 1], right[:, 0], atol=1e-6)
    output.sum().backward()
    assert (batch.grad[1, 4:] == 0).all()
    assert batch.grad.isfinite().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_in_pieces_equals_whole(variant: str) -> None:
    torch.manual_seed(3)
    layer = build(variant, 3, 4, 2)
    values = torch.randn(2, 7, 3, dtype=torch.float64)
    whole, last = layer(values)
    state, pieces = None, []
    for piece in values.split([1, 4, 2], 1):
        output, state = layer(piece, state)
        pieces.append(output)
    assert torch.allclose(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)
    for found, right in zip(parts_of(state), parts_of(last), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-12)


def step(layer: Any, values: torch.Tensor, lengths: torch.Tensor | None = None) -> list[torch.Tensor]:
    values = values.detach().requires_grad_()
    made = layer(values, None, lengths)
    return [made[0].detach(), *gradients(made, [values, *layer.parameters()])]


@pytest.mark.parametrize("variant", ["lstm diagonal", "gru before", "relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.usefixtures("two_threads")
def test_threads_share_the_rows(variant: str, bidirectional: bool) -> None:
    """Two threads give what one gives, and the same bits whenever they run."""
    torch.manual_seed(4)
    layer = build(variant, 3, 6, 2, bidirectional=bidirectional, layer_norm=True)
    values, lengths = torch.randn(40, 9, 3, dtype=torch.float64), torch.randint(0, 10, (40,))
    shared = step(layer, values, lengths)
    for _ in range(3):
        assert all(torch.equal(*pair) for pair in zip(shared, step(layer, values, lengths), strict=True))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    for found, right in zip(shared, step(layer, values, lengths), strict=True):
        assert torch.allclose(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("two_threads")
def test_many_callers_at_once() -> None:
    torch.manual_seed(5)
    layer = build("lstm", 3, 6, 2, torch.float32)
    batches = [torch.randn(20, 5, 3) for _ in range(8)]
    alone = [step(layer, batch) for batch in batches]
    with ThreadPoolExecutor(4) as callers:
        together = list(callers.map(lambda batch: step(layer, batch), batches))
    for found, right in zip(together, alone, strict=True):
        assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(found, right, strict=True))


def _in_child(queue: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(6)
    layer = build("lstm", 3, 6, 1, torch.float32)
    queue.put(sum(part.double().sum().item() for part in step(layer, torch.randn(20, 5, 3))))


@pytest.mark.usefixtures("two_threads")
def test_a_forked_process_goes_on_alone() -> None:
    """As the trainer's workers do, with one thread: OpenMP's do not outlive a fork, whoever uses them."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    _in_child(queue, 2)
    wanted = queue.get(timeout=60)
    child = context.Process(target=_in_child, args=(queue, 1))
    child.start()
    assert queue.get(timeout=60) == pytest.approx(wanted, abs=1e-4)
    child.join(60)
    assert child.exitcode == 0


def _run_with_locks_free(queue: Any) -> None:
    runtime.release([runtime.acquire(torch.empty(0), 2**10, 2**10)])
    queue.put(runtime._pool_lock.acquire(timeout=5) and runtime._workspace_lock.acquire(timeout=5))


def test_a_process_forked_while_locks_are_held_starts_with_free_ones() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with runtime._pool_lock, runtime._workspace_lock:  # as another thread might hold them
        child = context.Process(target=_run_with_locks_free, args=(queue,))
        child.start()
    assert queue.get(timeout=30) is True
    child.join(30)
    assert child.exitcode == 0


def test_released_buffers_are_used_again() -> None:
    first = runtime.acquire(torch.empty(0), 2**9, 2**10)
    address = first.data_ptr()
    runtime.release([first])
    del first
    assert runtime.acquire(torch.empty(0), 2**9, 2**10).data_ptr() == address


def test_backward_twice_through_a_retained_graph() -> None:
    torch.manual_seed(7)
    layer = build("lstm full", 3, 5)
    values = torch.randn(4, 3, 3, dtype=torch.float64)
    output, _ = layer(values)
    weights = list(layer.parameters())
    first = torch.autograd.grad(output.sum(), weights, retain_graph=True)
    second = torch.autograd.grad(output.sum(), weights)
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(output.sum(), weights)


def test_second_derivatives_are_refused() -> None:
    layer = build("gru after", 3, 5)
    values = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="reference"):
        torch.autograd.grad(layer(values)[0].sum(), values, create_graph=True)
    (gradient,) = torch.autograd.grad(layer.reference(values)[0].sum(), values, create_graph=True)
    gradient.sum().backward()
    assert values.grad.abs().sum() > 0


def test_outputs_changed_in_place_are_noticed() -> None:
    layer = build("lstm", 3, 5)
    output, _ = layer(torch.randn(4, 3, 3, dtype=torch.float64))
    output.mul_(2)
    with pytest.raises(RuntimeError, match="inplace operation"):
        output.sum().backward()


def test_two_graphs_at_once_keep_apart() -> None:
    """Memory is used again only when its owner is through with it."""
    torch.manual_seed(8)
    layer = build("lstm", 64, 64, 1)
    batches = torch.randn(3, 32, 40, 64, dtype=torch.float64)
    weights = list(layer.parameters())
    alone = [torch.autograd.grad(layer(batch)[0].sum(), weights) for batch in batches]
    with torch.no_grad():
        layer(batches[0])
    outputs = [layer(batch)[0] for batch in batches]
    for output, right in zip(reversed(outputs), reversed(alone), strict=True):
        found = torch.autograd.grad(output.sum(), weights)
        assert all(torch.equal(*pair) for pair in zip(found, right, strict=True))


def test_without_gradients_and_with_strides() -> None:
    torch.manual_seed(9)
    layer = build("gru before", 3, 5, 2, bidirectional=True)
    values = torch.randn(3, 4, 6, dtype=torch.float64).transpose(1, 2).transpose(0, 1)[:, :, 1:]
    right = layer.reference(values)[0]
    with torch.no_grad():
        output, state = layer(values)
    assert not output.requires_grad
    assert not state.requires_grad
    assert torch.allclose(output, right, rtol=0, atol=1e-12)
    output, _ = layer(values)
    assert output.requires_grad


def test_only_gradients_that_are_wanted_are_made() -> None:
    layer = build("lstm diagonal", 3, 5).requires_grad_(False)
    values = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    layer(values)[0].sum().backward()
    right = torch.autograd.grad(layer.reference(values)[0].sum(), values)[0]
    assert torch.allclose(values.grad, right, rtol=0, atol=1e-12)


def test_it_is_available_only_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        assert not cpu_recurrent.is_available()
    assert cpu_recurrent.is_available()
    cpu_recurrent._has_numba.cache_clear()
    monkeypatch.setattr(cpu_recurrent, "find_spec", lambda name: None)
    assert not cpu_recurrent.is_available()
    cpu_recurrent._has_numba.cache_clear()


@pytest.mark.parametrize("variant", ["lstm full", "gru before", "tanh"])
def test_packed_products_at_their_own_size(variant: str) -> None:
    """Weights large enough to be packed, rows of unequal length, float32."""
    torch.manual_seed(10)
    layer = build(variant, 7, 400, 1, torch.float32, bidirectional=True)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    values, lengths = torch.randn(5, 4, 7), torch.tensor([4, 0, 2, 3, 4])
    into = list(layer.parameters())
    found, right = layer(values, None, lengths), layer.reference(values, None, lengths)
    assert torch.allclose(found[0], right[0], rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients(found, into), gradients(right, into), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())
