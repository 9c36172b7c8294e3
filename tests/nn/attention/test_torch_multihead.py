"""`harken.nn.MultiheadAttention` is torch's: arguments, masks, weights, names, initial weights."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from harken.nn import (
    AlibiPositions,
    MultiheadAttention,
    RotaryPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

B, T, S, D, N = 3, 4, 5, 8, 2


def pair(**options: Any) -> tuple[MultiheadAttention, nn.MultiheadAttention]:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(D, N, **options)
    torch.manual_seed(1)
    return MultiheadAttention(D, N, **options), theirs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
        {"kdim": 6, "vdim": 7},
        {"vdim": 7, "add_bias_kv": True},
    ],
)
@pytest.mark.parametrize("batch_first", [False, True])
def test_same_parameters_outputs_weights_and_gradients(options: dict[str, Any], batch_first: bool) -> None:
    ours, theirs = pair(batch_first=batch_first, **options)
    mine, their_own = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(their_own) and all(torch.equal(mine[name], their_own[name]) for name in mine)
    shapes = [(B, T, D), (B, S, theirs.kdim), (B, S, theirs.vdim)]
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
    inputs = [query, key, value] if batch_first else [each.transpose(0, 1) for each in (query, key, value)]
    for need, average in product([True, False], [True, False]):
        found = ours(*inputs, need_weights=need, average_attn_weights=average)
        wanted = theirs(*inputs, need_weights=need, average_attn_weights=average)
        assert found[0].shape == wanted[0].shape and torch.allclose(found[0], wanted[0], atol=1e-6)
        assert (found[1] is None) == (wanted[1] is None) == (not need)
        assert not need or (found[1].shape == wanted[1].shape and torch.allclose(found[1], wanted[1], atol=1e-6))
        grads = [
            torch.autograd.grad(each[0].square().sum(), [query, key, value, *layer.parameters()])
            for each, layer in ((found, ours), (wanted, theirs))
        ]
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(*grads, strict=True))


BOOLEAN = torch.tensor([[False, True, False, False, True]] * T)
ADDED = torch.linspace(-2, 1, T * S).view(T, S).masked_fill(BOOLEAN, -torch.inf)
PADDING = torch.arange(S) >= torch.tensor([5, 3, 2])[:, None]
EACH = torch.rand(B * N, T, S, generator=torch.Generator().manual_seed(0)) < 0.3
EACH[..., 0] = False


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("attn_mask", [None, BOOLEAN, ADDED, EACH])
@pytest.mark.parametrize("padding", [None, PADDING, torch.zeros(B, S).masked_fill(PADDING, -torch.inf)])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", [False, True])
def test_masks(attn_mask: Any, padding: Any, need_weights: bool, extra: bool) -> None:
    ours, theirs = pair(batch_first=True, add_zero_attn=extra)
    query, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    masks = {"attn_mask": attn_mask, "key_padding_mask": padding, "need_weights": need_weights}
    found, wanted = ours(query, memory, memory, **masks), theirs(query, memory, memory, **masks)
    assert torch.allclose(found[0], wanted[0], atol=1e-6)
    assert not need_weights or torch.allclose(found[1], wanted[1], atol=1e-6)


def test_causal_single_sequences_and_self_attention() -> None:
    ours, theirs = pair()
    values = torch.randn(T, D)
    future = nn.Transformer.generate_square_subsequent_mask(T)
    wanted, weights = theirs(values, values, values, attn_mask=future)
    for options in ({"is_causal": True}, {"attn_mask": future, "is_causal": True}, {"attn_mask": future}):
        found = ours(values, values, values, **options)
        assert found[0].shape == (T, D) and torch.allclose(found[0], wanted, atol=1e-6)
        assert torch.allclose(found[1], weights, atol=1e-6)


def test_a_query_that_sees_nothing_gets_no_nan() -> None:
    ours, _ = pair(batch_first=True, bias=False)
    values = torch.randn(1, S, D)
    for need in (True, False):
        output, _ = ours(values, values, values, torch.ones(1, S, dtype=torch.bool), need_weights=need)
        assert torch.equal(output, torch.zeros_like(output))


def test_dropout_drops_what_torch_drops() -> None:
    ours, theirs = pair(dropout=0.5, batch_first=True)
    values = torch.randn(B, T, D)
    for need in (True, False):
        torch.manual_seed(3)
        found = ours(values, values, values, need_weights=need)[0]
        torch.manual_seed(3)
        assert torch.allclose(found, theirs(values, values, values, need_weights=need)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("score", "positions"),
    [("additive", None), ("cosine", None), ("scaled", RotaryPositions(D // N)), ("dot", AlibiPositions(N))],
)
def test_scores_and_positions_give_the_same_output_with_and_without_weights(score: str, positions: Any) -> None:
    layer, values = MultiheadAttention(D, N, batch_first=True, score=score, positions=positions), torch.randn(B, T, D)
    output, weights = layer(values, values, values, is_causal=True, average_attn_weights=False)
    assert torch.allclose(output, layer(values, values, values, is_causal=True, need_weights=False)[0], atol=1e-5)
    assert torch.equal(weights, weights.tril()) and torch.allclose(weights.sum(-1), torch.ones(B, N, T))


def test_wrong_masks_are_refused() -> None:
    ours, _ = pair()
    values = torch.randn(T, B, D)
    with pytest.raises(ValueError, match=r"attn_mask has shape \(4, 5\), but here it is \(4, 4\)"):
        ours(values, values, values, attn_mask=BOOLEAN)
    with pytest.raises(ValueError, match=r"key_padding_mask has shape \(3, 5\), but here it is \(3, 4\)"):
        ours(values, values, values, key_padding_mask=PADDING)
    with pytest.raises(ValueError, match="cannot be shared by 3 heads"):
        MultiheadAttention(8, 3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_masks_of_integers_are_refused_as_torch_does(name: str, dtype: torch.dtype) -> None:
    ours, theirs = pair(batch_first=True)
    mask = torch.ones(*((T, T) if name == "attn_mask" else (B, T)), dtype=dtype)
    x = torch.randn(B, T, D)
    with pytest.raises(AssertionError, match="only bool and floating types"):
        theirs(x, x, x, **{name: mask})
    with pytest.raises(ValueError, match=f"{name} has the dtype torch.{'int64' if dtype == torch.int64 else 'uint8'}"):
        ours(x, x, x, **{name: mask})


@pytest.mark.parametrize("shape", [(D,), (1, B, T, D)])
def test_inputs_of_other_dimensions_are_refused(shape: tuple[int, ...]) -> None:
    layer, x = MultiheadAttention(D, N), torch.randn(shape)
    with pytest.raises(ValueError, match=rf"takes inputs \(T, B, D\) or \(T, D\), but a query has {len(shape)} dim"):
        layer(x, x, x)


@pytest.mark.parametrize("which", range(3))
def test_inputs_of_another_dtype_are_refused(which: int) -> None:
    inputs = [torch.randn(T, B, D) for _ in range(3)]
    inputs[which] = inputs[which].double()
    with pytest.raises(ValueError, match=r"is torch.float64, but the weights are torch.float32"):
        MultiheadAttention(D, N)(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        assert MultiheadAttention(D, N)(*(part.float() for part in inputs))[0].dtype == torch.bfloat16


@pytest.mark.parametrize("value", [True, -0.1, 1.5])
@pytest.mark.parametrize("kind", [MultiheadAttention, TransformerEncoderLayer, TransformerDecoderLayer])
def test_what_is_no_probability_is_refused(kind: type[torch.nn.Module], value: float) -> None:
    with pytest.raises(ValueError, match=f"dropout is {value}, but it is a probability"):
        kind(D, N, dropout=value)
