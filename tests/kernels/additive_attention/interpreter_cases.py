"""The Triton kernels of additive attention and of a decoder's loop against their definitions, without a GPU.

Triton's interpreter runs them in numpy, so a machine without a GPU can tell that they compute the right numbers. It has
to be asked for before Triton is imported: `test_additive_interpreter.py` runs this file in a process of its own.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harken.kernels.additive_attention import launch
from harken.kernels.decoder_loop import gates as decoder_loop_gates
from harken.kernels.decoder_loop.attention import DeferredLooks
from harken.nn.attention.additive import additive_attend_with_weights
from harken.nn.attention.functional import Attention
from harken.nn.attention.scores import AdditiveScore, DotScore
from harken.nn.recurrent.lstm import lstm_gates


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
    parts: list[Tensor], mask: Tensor | None, causal: bool, pull: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Contexts, weights and gradients of the definition, in float64."""
    queries, keys, vector, values = exact = [part.double().requires_grad_() for part in parts]
    heads = len(vector)
    apart = [part.unflatten(0, (-1, heads)) for part in (queries, keys, values)]
    context, weights = additive_attend_with_weights(apart[0], apart[1], vector, apart[2], mask, causal)
    context = context.flatten(0, 1)
    return context, weights.flatten(0, 1), torch.autograd.grad(context, exact, pull.double())


def near(found: Tensor, right: Tensor, tolerance: float = 1e-5) -> None:
    assert found.isfinite().all()
    assert (found.double() - right).norm() <= tolerance * (right.norm() + 1e-12)


CASES = [  # G, T, S, D, V, vectors, masked, causal, scale: numbers beyond 17 take another way
    (2, 5, 7, 3, 4, 1, True, False, 1.0),
    (4, 17, 70, 9, 20, 2, True, True, 1.0),
    (2, 33, 20, 66, 130, 1, False, False, 1.0),
    (1, 1, 1, 1, 1, 1, False, False, 1.0),
    (2, 17, 7, 3, 4, 1, True, False, 12.0),
    (3, 9, 65, 5, 1, 3, False, True, 12.0),
]
NAMES = ["groups", "targets", "sources", "depth", "width", "vectors", "masked", "causal", "scale"]


@pytest.mark.parametrize(NAMES, CASES)
def test_kernels_equal_the_definition(
    groups: int, targets: int, sources: int, depth: int, width: int, vectors: int, masked: bool, causal: bool,
    scale: float,
) -> None:  # fmt: skip
    parts = inputs(groups, targets, sources, depth, width, vectors)
    parts[0], parts[1] = parts[0] * scale, parts[1] * scale
    mask = lengths_mask(groups, vectors, targets, sources) if masked else None
    pull = torch.randn(groups, targets, width)
    context, weights, gradients = right_answers(parts, mask, causal, pull)
    found, _, *made = launch.forward(*parts, mask, causal, True)
    near(found, context)
    near(launch.weights(parts[0], parts[1], parts[2], mask, causal, *made), weights)
    for one, right in zip(launch.backward(pull, *parts, mask, causal, found, *made), gradients, strict=True):
        near(one, right, 1e-4 if scale > 1 else 1e-5)


def test_pieces_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = 2
    parts = inputs(2 * heads, 70, 66, 4, 6, heads)
    mask = lengths_mask(2 * heads, heads, 70, 66)
    pull = torch.randn(2 * heads, 70, 6)
    context, weights, gradients = right_answers(parts, mask, True, pull)
    monkeypatch.setattr(launch, "WORKSPACE", 64 * 128 * 4)  # one tile of queries of one group
    found, _, *made = launch.forward(*parts, mask, True, True)
    assert made[1].numel() == 0
    near(found, context)
    near(launch.weights(parts[0], parts[1], parts[2], mask, True, *made), weights)
    for one, right in zip(launch.backward(pull, *parts, mask, True, found, *made), gradients, strict=True):
        near(one, right)


@pytest.mark.parametrize("additive", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_looks_of_a_loop_equal_attention(additive: bool, masked: bool) -> None:
    torch.manual_seed(4)
    score = AdditiveScore(5, 5) if additive else DotScore(5, 5)
    attention: Callable[..., tuple[Tensor, Tensor]] = Attention(score)
    memory = torch.randn(3, 18, 5, requires_grad=True)
    queries = torch.randn(3, 4, 5, requires_grad=True)
    mask = lengths_mask(3, 1, 1, 18)[:, 0, 0] if masked else None
    pulls = torch.randn(3, 4, 5)
    keys = score.keys(memory)
    slow = torch.stack([attention(query, keys, memory, mask)[0] for query in queries.unbind(1)], 1)
    vector = score.energy.weight[0] if isinstance(score, AdditiveScore) else None
    looks = DeferredLooks(score.keys(memory), memory, mask, vector)
    ready = score.query if isinstance(score, AdditiveScore) else torch.nn.Identity()
    fast = torch.stack([looks(ready(query)) for query in queries.unbind(1)], 1)
    near(fast, slow.double())
    wanted = [memory, queries, *score.parameters()]
    right = torch.autograd.grad(slow, wanted, pulls)
    for one, other in zip(torch.autograd.grad(fast, wanted, pulls), right, strict=True):
        near(one, other.double())


@pytest.mark.parametrize("given", ["both", "product alone", "one token for all"])
def test_gates_equal_the_definition(given: str) -> None:
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
    slow = lstm_gates(product if part is None else product + part, cell)
    fast = decoder_loop_gates.lstm_gates(product, part, cell)
    pulls = torch.randn(3, 7), torch.randn(3, 7)
    for one, right in zip(fast, slow, strict=True):
        near(one, right.double())
    right_gradients = torch.autograd.grad(slow, wanted, pulls)
    for one, right in zip(torch.autograd.grad(fast, wanted, pulls), right_gradients, strict=True):
        near(one, right.double())
    (alone,) = torch.autograd.grad(decoder_loop_gates.lstm_gates(product, part, cell)[0].sum(), [cell])
    (right,) = torch.autograd.grad(lstm_gates(product if part is None else product + part, cell)[0].sum(), [cell])
    near(alone, right.double())


def test_dropout_is_of_the_weights() -> None:
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
    pull = torch.randn(2, 20, sources)
    right = torch.autograd.grad(weights * stayed / (1 - drop) @ exact[3], exact, pull.double())
    found = launch.backward(pull, queries, keys, vector, values, None, False, shown, *made, drop, seed)
    for one, other in zip(found, right, strict=True):
        near(one, other)
