"""Every score as heads of a Transformer: its formula, in chunks and at once, and what it is incompatible with."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import AlibiPositions, CrossAttention, RelativePositions, RotaryPositions, SelfAttention
from harken.nn.attention import head_scores
from harken.nn.attention.head_scores import HEAD_SCORES, AdditiveHeads
from harken.nn.masks import length_mask

WIDTH, HEADS = 12, 3
EACH = WIDTH // HEADS
each_score = pytest.mark.parametrize("score", HEAD_SCORES)


def ready(layer: torch.nn.Module, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    """No parameter at a value that could hide a mistake."""
    torch.manual_seed(2)
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layer.to(dtype)


def by_hand(layer: CrossAttention, score: str, head: int, query: Tensor, key: Tensor) -> Tensor:
    """The score of one pair of vectors (K,)."""
    if score == "cosine":
        return query @ key / (query.norm() * key.norm() * layer.score.log_temperature[head, 0, 0].exp())
    if score == "multiplicative":
        return query @ layer.score.weight[head] @ key
    if score == "additive":
        inside = layer.score.key_weight[head] @ key + layer.score.query_weight[head] @ query
        return layer.score.energy[head] @ torch.tanh(inside)
    return query @ key / (math.sqrt(EACH) if score == "scaled" else 1.0)


@given(
    st.sampled_from([*HEAD_SCORES]),
    st.integers(1, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.sampled_from([torch.float64, torch.float32]),
)
@torch.no_grad()
def test_heads_score_by_their_equation(score: str, targets: int, lengths: list[int], dtype: torch.dtype) -> None:
    layer = ready(CrossAttention(WIDTH, HEADS, score=score), dtype)
    queries, memory = (
        torch.randn(len(lengths), targets, WIDTH, dtype=dtype),
        torch.randn(len(lengths), 4, WIDTH).to(dtype),
    )
    mask = length_mask(torch.tensor(lengths), 4)[:, None, None]
    pairs = layer.keys_values(memory)
    context, weights = layer.with_weights(queries, pairs, mask)
    within = 1e-9 if dtype == torch.float64 else 1e-5
    assert torch.allclose(layer(queries, pairs, mask), context, rtol=0, atol=10 * within)
    query, key = layer.query(queries), layer.key_value(memory)[..., :WIDTH]
    for row, length in enumerate(lengths):
        for head in range(HEADS):
            part = slice(head * EACH, (head + 1) * EACH)
            scores = [[by_hand(layer, score, head, q, k) for k in key[row, :length, part]] for q in query[row, :, part]]
            right = torch.tensor(scores, dtype=dtype).softmax(-1)
            assert torch.allclose(weights[row, head, :, :length], right, rtol=0, atol=within)
        assert (weights[row, :, :, length:] == 0).all()


@given(
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 200),
    st.sampled_from(["none", "order", "given"]),
)
def test_chunks_equal_the_whole(batch: int, targets: int, sources: int, chunk: int, distances: str) -> None:
    """In values and gradients, also where a chunk is made again in the backward pass, and where keys know distances."""
    heads = ready(AdditiveHeads(2, 3))
    query = torch.randn(batch, 2, targets, 3, dtype=torch.float64, requires_grad=True)
    key = torch.randn(batch, 2, sources, 3, dtype=torch.float64, requires_grad=True)
    table = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    shape = {"none": None, "order": (targets, sources), "given": (batch, 1, targets, sources)}[distances]
    rows = None if shape is None else torch.randint(0, 4, shape)
    shifted = key[:, :, None] if rows is None else key[:, :, None] + table[rows]
    right = (torch.tanh(query[:, :, :, None] + shifted) * heads.energy[:, None, None]).sum(-1)  # pair by pair
    before, head_scores.CHUNK = head_scores.CHUNK, chunk
    try:
        found = heads(query, key, None if rows is None else table, rows)
        with torch.no_grad():
            assert torch.allclose(heads(query, key, None if rows is None else table, rows), right, atol=1e-12)
        into, grad_output = [query, key, heads.energy, *([] if rows is None else [table])], torch.randn_like(right)
        gradients = torch.autograd.grad(found, into, grad_output)
    finally:
        head_scores.CHUNK = before
    assert torch.allclose(found, right, rtol=0, atol=1e-12)
    for one, other in zip(gradients, torch.autograd.grad(right, into, grad_output), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)


class _Largest(torch.overrides.TorchFunctionMode):
    """Watches the largest tensor any operation returns."""

    numbers = 0

    def __torch_function__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        found = function(*arguments, **(options or {}))
        if isinstance(found, Tensor):
            self.numbers = max(self.numbers, found.numel())
        return found


@pytest.mark.parametrize("grad", [False, True])
def test_never_more_than_a_chunk_at_once(grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_scores, "CHUNK", 3000)
    heads = AdditiveHeads(2, 8).requires_grad_(grad)
    query, key = torch.randn(2, 2, 20, 8, requires_grad=grad), torch.randn(2, 2, 30, 8)
    with _Largest() as watched, torch.set_grad_enabled(grad):
        scores = heads(query, key)
    assert scores.numel() == 2 * 2 * 20 * 30  # smaller than a chunk, and all that is written down for all pairs
    assert 0 < watched.numbers <= 3000
    if grad:
        kept: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda part: (kept.append(part.numel()), part)[1], lambda p: p):
            heads(query, key)
        assert sum(kept) < 2 * 2 * 20 * 30 * 8  # nothing of T S K is kept for the backward pass


@each_score
def test_rows_that_see_nothing(score: str) -> None:
    layer = ready(CrossAttention(WIDTH, HEADS, score=score))
    queries, memory = (torch.randn(2, 3, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = length_mask(torch.tensor([0, 2]), 3)[:, None, None]
    pairs = layer.keys_values(memory)
    context, weights = layer.with_weights(queries, pairs, mask)
    fast = layer(queries, pairs, mask)
    assert (weights[0] == 0).all()
    assert torch.allclose(weights[1].sum(-1), torch.ones(HEADS, 3, dtype=torch.float64))
    for found in (context, fast):
        assert torch.allclose(found[0], layer.output.bias.expand(3, -1), rtol=0, atol=1e-12)
        gradients = torch.autograd.grad(found.square().sum(), [queries, memory, *layer.parameters()], retain_graph=True)
        assert not any(gradient.isnan().any() for gradient in gradients)
        assert (gradients[1][0] == 0).all()


@each_score
@pytest.mark.parametrize("positions", ["none", "alibi", "relative"])
def test_gradcheck(score: str, positions: str) -> None:
    kinds = {"none": None, "alibi": AlibiPositions(2), "relative": RelativePositions(2, 1)}
    layer = ready(SelfAttention(4, 2, positions=kinds[positions], score=score))
    values = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    inputs = (values, *layer.parameters())
    assert torch.autograd.gradcheck(lambda *_: layer(values, None, True), inputs, fast_mode=True)


@each_score
def test_dropout_in_training_alone(score: str) -> None:
    layer, values = SelfAttention(WIDTH, HEADS, 0.5, score=score), torch.randn(2, 5, WIDTH)
    assert not torch.allclose(layer(values), layer(values))
    assert torch.equal(layer.eval()(values), layer(values))


@each_score
def test_bfloat16_autocast_is_near_float32(score: str) -> None:
    torch.manual_seed(1)
    layer, values = SelfAttention(WIDTH, HEADS, score=score), torch.randn(2, 5, WIDTH)
    mask = length_mask(torch.tensor([3, 5]), 5)[:, None, None]
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(values, mask, True)
    assert torch.allclose(half.float(), layer(values, mask, True), rtol=0.05, atol=0.05)


def test_multiplicative_starts_as_the_scaled_score() -> None:
    layer, values = SelfAttention(WIDTH, HEADS, score="multiplicative"), torch.randn(2, 5, WIDTH)
    plain = SelfAttention(WIDTH, HEADS)
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert torch.allclose(layer(values), plain(values), atol=1e-5)


def test_what_cannot_be() -> None:
    with pytest.raises(
        ValueError, match="no score called 'sum'; choose one of scaled, dot, cosine, multiplicative, additive"
    ):
        SelfAttention(WIDTH, HEADS, score="sum")
    with pytest.raises(ValueError, match=r"rotary positions rotate .* the additive score adds them; choose relative"):
        SelfAttention(WIDTH, HEADS, positions=RotaryPositions(EACH), score="additive")
