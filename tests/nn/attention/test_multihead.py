"""Multi-head attention: fast path, path with weights and cached steps agree; torch's own is the second opinion."""

import pytest
import torch
from torch import Tensor, nn

from harken.nn import CrossAttention, SelfAttention, length_mask
from harken.nn.attention.kv_cache import KVCache

WIDTH, HEADS = 8, 2
LENGTHS = torch.tensor([3, 5])
MASK = length_mask(LENGTHS, 5)[:, None, None]


def agree(fast: Tensor, slow: Tensor, into: list[Tensor]) -> None:
    """Equal in values and in the gradients of everything in `into`."""
    assert torch.allclose(fast, slow, rtol=0, atol=1e-9)
    grad_output = torch.randn_like(fast)
    found = torch.autograd.grad(fast, into, grad_output, retain_graph=True)
    for one, other in zip(found, torch.autograd.grad(slow, into, grad_output, retain_graph=True), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.fixture
def values() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 5, WIDTH, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, MASK], ids=["open", "masked"])
def test_self_attention(values: Tensor, mask: Tensor | None, causal: bool) -> None:
    layer = SelfAttention(WIDTH, HEADS).double()
    slow, weights = layer.with_weights(values, mask, causal)
    agree(layer(values, mask, causal), slow, [values, *layer.parameters()])
    assert weights.shape == (2, HEADS, 5, 5)
    if mask is not None:
        assert (weights[0, :, :, 3:] == 0).all()


@pytest.mark.parametrize("mask", [None, MASK], ids=["open", "masked"])
def test_cross_attention(values: Tensor, mask: Tensor | None) -> None:
    layer = CrossAttention(WIDTH, HEADS).double()
    queries = torch.randn(2, 3, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = layer.keys_values(values)
    slow, weights = layer.with_weights(queries, memory, mask)
    agree(layer(queries, memory, mask), slow, [values, queries, *layer.parameters()])
    assert weights.shape == (2, HEADS, 3, 5)


def test_self_attention_is_torchs(values: Tensor) -> None:
    layer, peer = SelfAttention(WIDTH, HEADS).double(), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    peer.in_proj_weight.data.copy_(layer.query_key_value.weight)
    peer.in_proj_bias.data.copy_(layer.query_key_value.bias.data.normal_())
    peer.out_proj.load_state_dict(layer.output.state_dict())
    right, weights = peer(values, values, values, key_padding_mask=~MASK[:, 0, 0], average_attn_weights=False)
    found, ours = layer.with_weights(values, MASK, False)
    assert torch.allclose(found, right, rtol=0, atol=1e-9)
    assert torch.allclose(ours, weights, rtol=0, atol=1e-9)


def empty_cache(values: Tensor, static: bool = False, max_length: int = 5) -> KVCache:
    return KVCache(1, len(values), HEADS, WIDTH // HEADS, max_length, values, static)


@pytest.mark.parametrize(("static", "max_length"), [(False, 5), (False, 1), (True, 5), (True, 7)])
@torch.no_grad()
def test_steps_with_a_cache_equal_the_whole(values: Tensor, static: bool, max_length: int) -> None:
    layer = SelfAttention(WIDTH, HEADS).double()
    whole, cache = layer(values, causal=True), empty_cache(values, static, max_length)
    for position in range(5):
        cache.advance_()
        now, weights = layer.step(values[:, position : position + 1], cache, 0)
        assert torch.allclose(now, whole[:, position : position + 1], rtol=0, atol=1e-9)
        assert cache.length == position + 1 and weights is None


@pytest.mark.parametrize("pieces", [[2, 3], [1, 4], [4, 1], [5]])
@pytest.mark.parametrize("need_weights", [False, True])
@torch.no_grad()
def test_steps_of_several_positions_do_not_see_the_future(
    values: Tensor, pieces: list[int], need_weights: bool
) -> None:
    layer = SelfAttention(WIDTH, HEADS).double()
    whole, right = layer.with_weights(values, None, causal=True)
    cache, end = empty_cache(values), 0
    for piece in values.split(pieces, 1):
        start, end = end, end + piece.shape[1]
        cache.advance_(piece.shape[1])
        now, weights = layer.step(piece, cache, 0, need_weights=need_weights)
        assert torch.allclose(now, whole[:, start:end], rtol=0, atol=1e-9)
        if need_weights:
            assert torch.allclose(weights, right[:, :, start:end, :end], rtol=0, atol=1e-9)


@pytest.mark.parametrize("score", ["scaled", "additive"])
@torch.no_grad()
def test_hypotheses_share_the_memory_of_their_source(values: Tensor, score: str) -> None:
    layer, queries = CrossAttention(WIDTH, HEADS, score=score).double(), torch.randn(6, 2, WIDTH, dtype=torch.float64)
    memory, mask = layer.keys_values(values), torch.arange(5) < torch.tensor([[2], [5]])
    added = torch.zeros(2, 5, dtype=torch.float64).masked_fill(~mask, -torch.inf)[:, None, None]
    repeated = tuple(part.repeat_interleave(3, 0) for part in memory)
    right, weights = layer.with_weights(queries, repeated, mask.repeat_interleave(3, 0)[:, None, None])
    for given in (mask[:, None, None], added):
        output, shared = layer.with_weights(queries, memory, given)
        assert torch.allclose(output, right, rtol=0, atol=1e-9) and torch.allclose(shared, weights, rtol=0, atol=1e-9)
        assert torch.allclose(layer(queries, memory, given), right, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_dropout_in_training_alone(values: Tensor, kind: type[nn.Module]) -> None:
    layer = kind(WIDTH, HEADS, dropout=0.5).double()

    def run() -> Tensor:
        return layer(values) if kind is SelfAttention else layer(values, layer.keys_values(values))

    assert not torch.allclose(run(), run())
    layer.eval()
    assert torch.equal(run(), run())


@pytest.mark.parametrize("shape", [(WIDTH,), (5, WIDTH), (1, 2, 5, WIDTH)])
def test_inputs_of_other_dimensions_are_refused(shape: tuple[int, ...]) -> None:
    x, own, cross = torch.randn(shape), SelfAttention(WIDTH, HEADS), CrossAttention(WIDTH, HEADS)
    memory = cross.keys_values(torch.randn(2, 5, WIDTH))
    message = rf"takes inputs \(B, T, D\), but these have {len(shape)} dim"
    for call in (lambda: own(x), lambda: own.with_weights(x, None, False), lambda: cross(x, memory)):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=message):
        cross.keys_values(x)
