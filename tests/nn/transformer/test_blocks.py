"""Transformer blocks equal torch's layers with the same weights, in values and gradients."""

import pytest
import torch
from torch import Tensor, nn

from harken.nn import DecoderBlock, EncoderBlock, FeedForward, length_mask
from harken.nn.attention.kv_cache import KVCache

WIDTH, HEADS, INNER = 8, 2, 12
MASK = length_mask(torch.tensor([3, 5]), 5)[:, None, None]


def spread(module: nn.Module) -> nn.Module:
    """Every parameter away from its first value, so that no bias of 0 or gain of 1 hides a mistake."""
    for parameter in module.parameters():
        parameter.data.normal_(std=0.5)
    return module.double().eval()


def copy_attention(peer: nn.MultiheadAttention, ours: nn.Module) -> None:
    parts = [ours.query_key_value] if hasattr(ours, "query_key_value") else [ours.query, ours.key_value]
    peer.in_proj_weight.data.copy_(torch.cat([part.weight for part in parts]))
    peer.in_proj_bias.data.copy_(torch.cat([part.bias for part in parts]))
    peer.out_proj.load_state_dict(ours.output.state_dict())


def same(found: Tensor, right: Tensor, into: list[Tensor]) -> None:
    assert torch.allclose(found, right, rtol=0, atol=1e-9)
    grad_output = torch.randn_like(found)
    gradients = torch.autograd.grad(found, into, grad_output, retain_graph=True)
    for one, other in zip(gradients, torch.autograd.grad(right, into, grad_output), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_encoder_block(norm: str) -> None:
    torch.manual_seed(1)
    block = spread(EncoderBlock(WIDTH, HEADS, INNER, norm=norm))
    peer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True, norm_first=norm == "pre").double()
    copy_attention(peer.self_attn, block.attention)
    peer.linear1.load_state_dict(block.feedforward.expand.state_dict())
    peer.linear2.load_state_dict(block.feedforward.contract.state_dict())
    peer.norm1.load_state_dict(block.attention_norm.state_dict())
    peer.norm2.load_state_dict(block.feedforward_norm.state_dict())
    values = torch.randn(2, 5, WIDTH, dtype=torch.float64, requires_grad=True)
    same(block(values, MASK), peer(values, src_key_padding_mask=~MASK[:, 0, 0]), [values])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoder_block(norm: str) -> None:
    torch.manual_seed(2)
    block = spread(DecoderBlock(WIDTH, HEADS, INNER, norm=norm))
    peer = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True, norm_first=norm == "pre").double()
    copy_attention(peer.self_attn, block.attention)
    copy_attention(peer.multihead_attn, block.cross)
    peer.linear1.load_state_dict(block.feedforward.expand.state_dict())
    peer.linear2.load_state_dict(block.feedforward.contract.state_dict())
    norms = [block.attention_norm, block.cross_norm, block.feedforward_norm]
    for theirs, ours in zip([peer.norm1, peer.norm2, peer.norm3], norms, strict=True):
        theirs.load_state_dict(ours.state_dict())
    values = torch.randn(2, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 5, WIDTH, dtype=torch.float64, requires_grad=True)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    right = peer(values, memory, tgt_mask=future, memory_key_padding_mask=~MASK[:, 0, 0])
    keys_values = block.cross.keys_values(memory)
    found = block(values, keys_values, MASK)
    with_weights, weights = block.with_weights(values, keys_values, MASK)
    assert torch.allclose(with_weights, found, rtol=0, atol=1e-9)
    for wanted in (False, True):
        cache = KVCache(1, 2, HEADS, WIDTH // HEADS, 4, values.detach())
        for place in range(4):
            cache.advance_()
            with torch.no_grad():
                now, seen = block.step(values[:, place : place + 1], cache, 0, keys_values, MASK, wanted)
            assert torch.allclose(now[:, 0], found[:, place], rtol=0, atol=1e-9)
            assert (seen is not None) == wanted
            assert not wanted or torch.allclose(seen[:, :, 0], weights[:, :, place], rtol=0, atol=1e-9)
    same(found, right, [values, memory])


def test_feed_forward_is_its_equation() -> None:
    layer = spread(FeedForward(3, 5))
    values = torch.randn(3, dtype=torch.float64)
    inner = (layer.expand.weight @ values + layer.expand.bias).clamp(min=0)
    assert torch.allclose(layer(values), layer.contract.weight @ inner + layer.contract.bias, rtol=0, atol=1e-9)


@pytest.mark.parametrize("activation", ["gelu", "silu", "swiglu"])
def test_other_activations(activation: str) -> None:
    layer = spread(FeedForward(3, 5, activation=activation))
    values = torch.randn(3, dtype=torch.float64)
    inner = layer.expand.weight @ values + layer.expand.bias
    if activation == "gelu":
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
    elif activation == "silu":
        inner = inner / (1 + torch.exp(-inner))
    else:
        inner = inner[:5] * torch.sigmoid(inner[:5]) * inner[5:]
    assert torch.allclose(layer(values), layer.contract.weight @ inner + layer.contract.bias, rtol=0, atol=1e-9)


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "feedforward_dropout"])
def test_each_dropout_acts_in_training_alone(option: str) -> None:
    block = EncoderBlock(WIDTH, HEADS, INNER, **{option: 0.5})
    values = torch.randn(2, 5, WIDTH)
    assert not torch.allclose(block(values, None), block(values, None))
    plain = EncoderBlock(WIDTH, HEADS, INNER).eval()
    plain.load_state_dict(block.state_dict())
    assert torch.equal(block.eval()(values, None), plain(values, None))
