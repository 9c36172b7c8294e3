"""Multi-head attention: fast path, path with weights and cached steps agree; torch's own is the second opinion."""

import pytest
import torch
from torch import Tensor, nn

from harken.nn import CrossAttention, SelfAttention, length_mask

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


def test_steps_with_a_cache_equal_the_whole(values: Tensor) -> None:
    layer = SelfAttention(WIDTH, HEADS).double()
    whole, kv_cache = layer(values, causal=True), None
    for position in range(5):
        now, kv_cache, weights = layer.step(values[:, position : position + 1], kv_cache)
        assert torch.allclose(now, whole[:, position : position + 1], rtol=0, atol=1e-9)
        assert kv_cache[0].shape == kv_cache[1].shape == (2, HEADS, position + 1, WIDTH // HEADS)
        assert weights is None


@pytest.mark.parametrize("pieces", [[2, 3], [1, 4], [4, 1], [5]])
@pytest.mark.parametrize("need_weights", [False, True])
def test_steps_of_several_positions_do_not_see_the_future(
    values: Tensor, pieces: list[int], need_weights: bool
) -> None:
    layer = SelfAttention(WIDTH, HEADS).double()
    whole, right = layer.with_weights(values, None, causal=True)
    kv_cache, end = None, 0
    for piece in values.split(pieces, 1):
        start, end = end, end + piece.shape[1]
        now, kv_cache, weights = layer.step(piece, kv_cache, need_weights=need_weights)
        assert torch.allclose(now, whole[:, start:end], rtol=0, atol=1e-9)
        if need_weights:
            assert torch.allclose(weights, right[:, :, start:end, :end], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [SelfAttention, CrossAttention])
def test_dropout_in_training_alone(values: Tensor, kind: type[nn.Module]) -> None:
    layer = kind(WIDTH, HEADS, dropout=0.5).double()

    def run() -> Tensor:
        return layer(values) if kind is SelfAttention else layer(values, layer.keys_values(values))

    assert not torch.allclose(run(), run())
    layer.eval()
    assert torch.equal(run(), run())
