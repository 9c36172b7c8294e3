"""The Triton kernels of additive attention and of a decoder's loop against their references, without a GPU.

Triton's interpreter runs them in numpy, so their results can be checked on a machine without a GPU. It has to be chosen
before Triton is imported: `test_interpreter.py` runs this file in a process of its own.
"""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harken.kernels.additive_attention import launch
from harken.kernels.decoder_loop import gates as decoder_loop_gates
from harken.kernels.decoder_loop.attention import DeferredAttention
from harken.nn import LSTMCell
from harken.nn.attention.functional import Attention, additive_attend_with_weights
from harken.nn.attention.scores import AdditiveScore, DotScore


def inputs(groups: int, targets: int, sources: int, depth: int, width: int, vectors: int) -> list[Tensor]:
    torch.manual_seed(targets * sources + depth)
    shapes = [(groups, targets, depth), (groups, sources, depth), (vectors, depth), (groups, sources, width)]
    return [torch.randn(shape) for shape in shapes]


def lengths_mask(groups: int, vectors: int, targets: int, sources: int) -> Tensor:
    """(outer, inner, T, S), repeated and not copied; the first rows have no words at all."""
    lengths = torch.randint(1, sources + 1, (groups // vectors,))
    lengths[0] = 0
    seen = torch.arange(sources) < lengths[:, None]
    return seen[:, None, None].expand(groups // vectors, vectors, targets, sources)


def right_answers(
    parts: list[Tensor], mask: Tensor | None, causal: bool, grad_output: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Contexts, weights and gradients of the reference, in float64."""
    queries, keys, vector, values = exact = [part.double().requires_grad_() for part in parts]
    heads = len(vector)
    apart = [part.unflatten(0, (-1, heads)) for part in (queries, keys, values)]
    context, weights = additive_attend_with_weights(apart[0], apart[1], vector, apart[2], mask, causal)
    context = context.flatten(0, 1)
    return context, weights.flatten(0, 1), torch.autograd.grad(context, exact, grad_output.double())


def near(found: Tensor, right: Tensor, tolerance: float = 1e-5) -> None:
    assert found.isfinite().all()
    assert (found.double() - right).norm() <= tolerance * (right.norm() + 1e-12)


CASES = [  # G, T, S, D, V, vectors, masked, causal, scale: beyond 17 the exponents are added; causal: T = S
    (2, 5, 7, 3, 4, 1, True, False, 1.0),
    (4, 70, 70, 9, 20, 2, True, True, 1.0),
    (2, 33, 20, 66, 130, 1, False, False, 1.0),
    (1, 1, 1, 1, 1, 1, False, False, 1.0),
    (2, 17, 7, 3, 4, 1, True, False, 12.0),
    (3, 17, 17, 5, 1, 3, False, True, 12.0),
]
NAMES = ["groups", "targets", "sources", "depth", "width", "vectors", "masked", "causal", "scale"]


@pytest.mark.parametrize(NAMES, CASES)
def test_kernels_equal_the_reference(
    groups: int, targets: int, sources: int, depth: int, width: int, vectors: int, masked: bool, causal: bool,
    scale: float,
) -> None:  # fmt: skip
    parts = inputs(groups, targets, sources, depth, width, vectors)
    parts[0], parts[1] = parts[0] * scale, parts[1] * scale
    mask = lengths_mask(groups, vectors, targets, sources) if masked else None
    grad_output = torch.randn(groups, targets, width)
    context, _, gradients = right_answers(parts, mask, causal, grad_output)
    found, _, *made = launch.forward(*parts, mask, causal, True)
    near(found, context)
    for one, right in zip(launch.backward(grad_output, *parts, mask, causal, found, *made), gradients, strict=True):
        near(one, right, 1e-4 if scale > 1 else 1e-5)


def test_pieces_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = 2
    parts = inputs(2 * heads, 70, 70, 4, 6, heads)
    mask = lengths_mask(2 * heads, heads, 70, 70)
    grad_output = torch.randn(2 * heads, 70, 6)
    context, _, gradients = right_answers(parts, mask, True, grad_output)
    monkeypatch.setattr(launch, "WORKSPACE", 64 * 128 * 4)  # one tile of queries of one group
    found, _, *made = launch.forward(*parts, mask, True, True)
    assert made[1].numel() == 0
    near(found, context)
    for one, right in zip(launch.backward(grad_output, *parts, mask, True, found, *made), gradients, strict=True):
        near(one, right)


@pytest.mark.parametrize("additive", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_deferred_attention_equals_attention(additive: bool, masked: bool) -> None:
    torch.manual_seed(4)
    score = AdditiveScore(5, 5) if additive else DotScore(5, 5)
    attention: Callable[..., tuple[Tensor, Tensor]] = Attention(score)
    memory = torch.randn(3, 18, 5, requires_grad=True)
    queries = torch.randn(3, 4, 5, requires_grad=True)
    mask = lengths_mask(3, 1, 1, 18)[:, 0, 0] if masked else None
    grad_outputs = torch.randn(3, 4, 5)
    keys = score.keys(memory)
    slow = torch.stack([attention(query, keys, memory, mask)[0] for query in queries.unbind(1)], 1)
    vector = score.energy.weight[0] if isinstance(score, AdditiveScore) else None
    deferred = DeferredAttention(score.keys(memory), memory, mask, vector)
    ready = score.query if isinstance(score, AdditiveScore) else torch.nn.Identity()
    fast = torch.stack([deferred(ready(query)) for query in queries.unbind(1)], 1)
    near(fast, slow.double())
    wanted = [memory, queries, *score.parameters()]
    right = torch.autograd.grad(slow, wanted, grad_outputs)
    for one, other in zip(torch.autograd.grad(fast, wanted, grad_outputs), right, strict=True):
        near(one, other.double())


def reference_gates(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    plain = LSTMCell(1, cell.shape[-1], dtype=cell.dtype)
    return plain.apply_gates(gates, cell, plain.products()).state


@pytest.mark.parametrize("given", ["both", "product alone", "one token for all"])
def test_gates_equal_the_reference(given: str) -> None:
    torch.manual_seed(5)
    product, cell = torch.randn(3, 28, requires_grad=True), torch.randn(3, 7, requires_grad=True)
    token = torch.randn(3, 2, 28, requires_grad=True) if given == "both" else torch.randn(28, requires_grad=True)
    known = {
        "both": lambda: token[:, 1],
        "product alone": lambda: None,
        "one token for all": lambda: token.expand(3, -1),
    }
    part = known[given]()
    wanted = [product, cell] if part is None else [product, cell, token]
    slow = reference_gates(product if part is None else product + part, cell)
    fast = decoder_loop_gates.lstm_gates(product, part, cell)
    grad_outputs = torch.randn(3, 7), torch.randn(3, 7)
    for one, right in zip(fast, slow, strict=True):
        near(one, right.double())
    right_gradients = torch.autograd.grad(slow, wanted, grad_outputs)
    for one, right in zip(torch.autograd.grad(fast, wanted, grad_outputs), right_gradients, strict=True):
        near(one, right.double())
    (alone,) = torch.autograd.grad(decoder_loop_gates.lstm_gates(product, part, cell)[0].sum(), [cell])
    (right,) = torch.autograd.grad(reference_gates(product if part is None else product + part, cell)[0].sum(), [cell])
    near(alone, right.double())


def test_dropout_zeroes_weights() -> None:
    """Values that are the unit vectors show the weights that stayed; the gradients have the same mask."""
    torch.manual_seed(8)
    sources = 40
    queries, keys, vector = torch.randn(2, 20, 3), torch.randn(2, sources, 3), torch.randn(1, 3)
    values = torch.eye(sources).repeat(2, 1, 1)
    seed, drop = torch.tensor([5]), 0.25
    _, whole, _ = right_answers([queries, keys, vector, values], None, False, torch.ones(2, 20, sources))
    shown, _, *made = launch.forward(queries, keys, vector, values, None, False, True, drop, seed)
    stayed = shown != 0
    assert 0.68 < stayed.double().mean() < 0.82
    assert not torch.equal(stayed[0], stayed[1])
    near(shown, whole.detach() * stayed / (1 - drop))
    exact = [part.double().requires_grad_() for part in (queries, keys, vector, values)]
    weights = additive_attend_with_weights(exact[0], exact[1], exact[2][0], exact[3])[1]
    grad_output = torch.randn(2, 20, sources)
    right = torch.autograd.grad(weights * stayed / (1 - drop) @ exact[3], exact, grad_output.double())
    found = launch.backward(grad_output, queries, keys, vector, values, None, False, shown, *made, drop, seed)
    for one, other in zip(found, right, strict=True):
        near(one, other)


def test_deferred_attention_makes_no_reference_cycle() -> None:
    keys, memory = (torch.randn(2, 18, 5, requires_grad=True) for _ in range(2))
    deferred = DeferredAttention(keys, memory, None)
    alive = weakref.ref(deferred.inputs)
    gc.disable()
    try:
        deferred(torch.randn(2, 5)).sum().backward()
        del deferred
        assert alive() is None
    finally:
        gc.enable()
