"""`harken.nn.Transformer` and its parts are torch's: arguments, masks, names, initial weights; and give weights."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import harken.nn as ours

B, S, T, D, N = 3, 5, 4, 8, 2


def pair(kind: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    theirs = getattr(nn, kind)(*arguments, **options)
    torch.manual_seed(1)
    return getattr(ours, kind)(*arguments, **options), theirs


def assert_same_weights(mine: nn.Module, their_own: nn.Module) -> None:
    one, other = mine.state_dict(), their_own.state_dict()
    assert list(one) == list(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", ["TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"])
def test_signatures_are_torchs(kind: str) -> None:
    for method in ("__init__", "forward"):
        mine, their_own = (
            [
                (one.name, one.default)
                for one in inspect.signature(getattr(getattr(home, kind), method)).parameters.values()
            ]
            for home in (ours, nn)
        )
        assert mine[: len(their_own)] == their_own
        assert all(default is not inspect.Parameter.empty for _, default in mine[len(their_own) :])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("bias", "activation"), [(True, "gelu"), (False, "relu")])
def test_layers(norm_first: bool, batch_first: bool, bias: bool, activation: str) -> None:
    options = {"norm_first": norm_first, "batch_first": batch_first, "bias": bias, "activation": activation}
    order = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    source, target = order(torch.randn(B, S, D)), order(torch.randn(B, T, D))
    padding = torch.arange(S) >= torch.tensor([5, 3, 2])[:, None]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    for training in (True, False):
        layer, peer = (one.train(training) for one in pair("TransformerEncoderLayer", D, N, 16, 0.3, **options))
        assert_same_weights(layer, peer)
        torch.manual_seed(2)
        found = layer(source, src_key_padding_mask=padding)
        torch.manual_seed(2)
        assert torch.allclose(found, peer(source, src_key_padding_mask=padding), atol=1e-5)
        layer, peer = (one.train(training) for one in pair("TransformerDecoderLayer", D, N, 16, 0.3, **options))
        assert_same_weights(layer, peer)
        masks = {"tgt_mask": future, "memory_key_padding_mask": padding}
        torch.manual_seed(2)
        found = layer(target, source, **masks)
        torch.manual_seed(2)
        assert torch.allclose(found, peer(target, source, **masks), atol=1e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_whole_transformer_and_its_gradients() -> None:
    model, peer = pair("Transformer", D, N, 2, 3, 16, 0.0)
    assert_same_weights(model, peer)
    source, target = torch.randn(S, B, D), torch.randn(T, B, D)
    future = ours.Transformer.generate_square_subsequent_mask(T)
    assert torch.equal(future, nn.Transformer.generate_square_subsequent_mask(T))
    found, wanted = model(source, target, tgt_mask=future), peer(source, target, tgt_mask=future)
    assert torch.allclose(found, wanted, atol=1e-5)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(model.parameters(), peer.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-4)
    peer.load_state_dict(model.state_dict(), strict=True)


def test_weights_of_every_layer_and_the_same_output() -> None:
    model = ours.Transformer(D, N, 2, 3, 16, batch_first=True).eval()
    source, target = torch.randn(B, S, D), torch.randn(B, T, D)
    padding = torch.arange(S) >= torch.tensor([5, 3, 2])[:, None]
    memory, weights = model.encoder.with_weights(source, src_key_padding_mask=padding)
    assert torch.allclose(memory, model.encoder(source, src_key_padding_mask=padding), atol=1e-6)
    assert weights.shape == (B, 2, N, S, S) and (weights[1, ..., 3:] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(B, 2, N, S))
    output, weights = model.decoder.with_weights(target, memory, memory_key_padding_mask=padding, tgt_is_causal=True)
    expected = model.decoder(target, memory, memory_key_padding_mask=padding, tgt_is_causal=True)
    assert torch.allclose(output, expected, atol=1e-6) and weights.shape == (B, 3, N, T, S)
    assert torch.allclose(model(source, target, src_key_padding_mask=padding, memory_key_padding_mask=padding,
                                tgt_is_causal=True), expected, atol=1e-6)  # fmt: skip


def test_the_sizes_of_a_stack_are_pointed_to_it() -> None:
    with pytest.raises(TypeError, match=r"use harken\.nn\.EncoderStack"):
        ours.TransformerEncoder(2, 8)  # type: ignore[arg-type]
