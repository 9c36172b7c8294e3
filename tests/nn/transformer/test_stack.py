"""Stacks of blocks against torch's, causal ones against their own steps, and nothing from the future."""

import pytest
import torch
from torch import Tensor, nn

from harken.nn import Balance, DecoderStack, EncoderBlock, EncoderStack

SHAPE = {"layers": 2, "width": 8, "heads": 2, "feedforward": 12}
POSITIONS = ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
LENGTHS = torch.tensor([3, 5])


def spread(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return module.double().eval()


def values(time: int = 5) -> Tensor:
    torch.manual_seed(5)
    return torch.randn(2, time, 8, dtype=torch.float64)


def close(found: Tensor, right: Tensor) -> bool:
    return found.shape == right.shape and torch.allclose(found, right, rtol=0, atol=1e-9)


def copy(block: EncoderBlock, peer: nn.TransformerEncoderLayer) -> None:
    pairs = [(peer.self_attn.out_proj, block.attention.output), (peer.linear1, block.feedforward.expand)]
    pairs += [(peer.linear2, block.feedforward.contract)]
    pairs += [(peer.norm1, block.attention_norm), (peer.norm2, block.feedforward_norm)]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    peer.self_attn.in_proj_weight.data.copy_(block.attention.query_key_value.weight)
    peer.self_attn.in_proj_bias.data.copy_(block.attention.query_key_value.bias)


@pytest.mark.parametrize("causal", [True, False])
def test_encoder_equals_torchs(causal: bool) -> None:
    torch.manual_seed(1)
    stack = spread(EncoderStack(**SHAPE, causal=causal))
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=True)
    peer = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False).double().eval()
    for block, theirs in zip(stack.blocks, peer.layers, strict=True):
        copy(block, theirs)
    peer.norm.load_state_dict(stack.norm.state_dict())
    padding = torch.arange(5) >= LENGTHS[:, None]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    right = peer(values(), future, padding, is_causal=causal)
    found = stack(values(), LENGTHS)
    real = ~padding
    assert close(found[real], right[real])


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pieces", [[1, 1, 1, 1, 1], [3, 2], [1, 4], [5]])
@torch.no_grad()
def test_a_causal_stack_in_pieces_gives_the_whole(positions: str, pieces: list[int]) -> None:
    torch.manual_seed(2)
    stack = spread(EncoderStack(**SHAPE, causal=True, positions=positions, max_distance=2))
    whole, past, found = stack(values()), None, []
    for piece in values().split(pieces, 1):
        now, past = stack.step(piece, past)
        found.append(now)
    assert close(torch.cat(found, 1), whole)
    assert past.length == 5


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_gradient_reaches_the_future(positions: str) -> None:
    torch.manual_seed(3)
    reads, memory = values().requires_grad_(), values(4)
    causal = spread(EncoderStack(**SHAPE, causal=True, positions=positions))
    decoder = spread(DecoderStack(**SHAPE, positions=positions))
    for found in (causal(reads), decoder(reads, memory)):
        for row in range(5):
            (gradient,) = torch.autograd.grad(found[:, row].sum(-1).sin().sum(), reads, retain_graph=True)
            assert (gradient[:, row + 1 :] == 0).all()
            assert (gradient[:, : row + 1] != 0).any(-1).all()


def test_a_stack_that_sees_both_sides_has_no_step() -> None:
    stack = EncoderStack(**SHAPE)
    assert not torch.equal(stack.eval()(values().float())[:, 0], stack(values().float()[:, :1])[:, 0])
    with pytest.raises(ValueError, match="sees both sides: make it with causal=True"):
        stack.step(values().float())


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_weights_come_with_the_same_values(causal: bool) -> None:
    stack = spread(EncoderStack(**SHAPE, causal=causal))
    found, weights = stack.with_weights(values(), LENGTHS)
    assert close(found, stack(values(), LENGTHS))
    assert weights.shape == (2, 2, 2, 5, 5)
    assert close(weights.sum(-1), torch.ones(2, 2, 2, 5, dtype=torch.float64))
    assert (weights[0, ..., 3:] == 0).all()
    assert not causal or (weights.triu(1) == 0).all()


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_decoder_steps_equal_the_whole(positions: str) -> None:
    torch.manual_seed(4)
    stack, memory = spread(DecoderStack(**SHAPE, positions=positions)), values(4)
    mask = torch.arange(4) < torch.tensor([[2], [4]])
    whole, weights = stack.with_weights(values(), memory, mask)
    assert close(stack(values(), memory, mask), whole)
    for pieces in ([1, 1, 1, 1, 1], [3, 2], [1, 4], [5]):  # several new tokens do not see the future
        kv_cache, cross_kv, end = None, stack.precompute_cross_kv(memory), 0
        for piece in values().split(pieces, 1):
            start, end = end, end + piece.shape[1]
            now, kv_cache, seen = stack.step(piece, kv_cache, cross_kv, mask, weights_layer=1)
            assert close(now, whole[:, start:end])
            assert close(seen, weights[:, 1, :, start:end])


def test_experts_say_how_evenly_they_were_used_to_whoever_asks() -> None:
    torch.manual_seed(6)
    stack = EncoderStack(**SHAPE, experts=3, experts_active=1).double()
    real = torch.arange(5) < LENGTHS[:, None]
    balance = Balance(real)
    found = stack(values(), LENGTHS, balance=balance)
    assert len(balance.parts) == 2
    assert 0 < balance.total() <= 2 * 3
    assert close(found[real], stack(values(), LENGTHS)[real])
    before = Balance(real)
    stack(values().masked_fill(~real[..., None], 7.0), LENGTHS, balance=before)
    assert close(balance.total(), before.total())  # padding does not count


def test_words_that_cannot_be() -> None:
    for words, message in [
        ({"width": 9}, "width 9 cannot be shared by 2 heads"),
        ({"layers": 0}, "layers is 0"),
        ({"positions": "rotery"}, "did you mean 'rotary'"),
    ]:
        with pytest.raises(ValueError, match=message):
            EncoderStack(**{**SHAPE, **words})
    with pytest.raises(TypeError, match="dropuot"):
        DecoderStack(**SHAPE, dropuot=0.1)
