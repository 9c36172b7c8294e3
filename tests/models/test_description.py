"""Descriptions: the model's own tensors by name, and only where nothing else may be computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harken.kernels.decoding.description import SSRU, Recurrent, SelfAttention, Transformer, Undescribed
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.models.recurrent.description import describe_layers, describe_recurrent
from harken.models.transformer.description import describe_stack
from harken.nn import LSTM, DecoderStack, EncoderStack, LSTMCell

SIZES: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24}


def transformer(**options: Any) -> Any:
    return build_model(TransformerConfig(**SIZES, **options), 20, 20).eval()


def test_tensors_are_the_models_own() -> None:
    model = transformer()
    described = model.describe_for_decoding()
    assert isinstance(described, Transformer)
    block, layer = model.decoder.stack.blocks[1], described.decoder.layers[1]
    assert isinstance(layer.self_attention, SelfAttention)
    assert layer.self_attention.query_key_value.weight is block.attention.query_key_value.weight
    assert layer.self_attention.norm.bias is block.attention_norm.bias
    assert layer.cross_attention.key_value.weight is block.cross.key_value.weight
    assert layer.feed_forward.contract.bias is block.feedforward.contract.bias
    assert described.encoder.layers[0].cross_attention is None
    assert described.decoder.norm.weight is model.decoder.stack.norm.weight


def test_an_ssru_takes_the_place_of_self_attention() -> None:
    described = transformer(decoder_mixer="ssru").describe_for_decoding()
    assert isinstance(described.decoder.layers[0].self_attention, SSRU)
    assert described.decoder.ssru and not described.encoder.ssru


def test_a_recurrent_decoder_by_name() -> None:
    model = build_model(RecurrentConfig(embedding=8, width=6, cell="gru", reset="before", layers=2), 20, 20).eval()
    described = model.describe_for_decoding()
    assert isinstance(described, Recurrent)
    assert [cell.reset for cell in described.cells] == ["before", "before"]
    assert described.query.weight is model.decoder.attend.score.query.weight
    assert described.combine.weight is model.decoder.combine.weight
    assert len(described.bridge) == 2 and described.narrow is not None


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"experts": 2}, "model.experts"),
        ({"score": "cosine"}, "model.attention = 'cosine'"),
        ({"positions": "relative"}, "model.positions = 'relative'"),
    ],
)
def test_parts_without_a_description_are_named(options: dict[str, Any], name: str) -> None:
    with pytest.raises(Undescribed, match=name):
        describe_stack(EncoderStack(**SIZES, **options))


def test_a_subclass_has_no_description() -> None:
    class Own(DecoderStack):
        """Computes what it likes."""

    with pytest.raises(Undescribed):
        describe_stack(Own(**SIZES))
    model: Any = transformer()
    model.decoder.stack.blocks[0].cross.__class__ = type("Own", (type(model.decoder.stack.blocks[0].cross),), {})
    assert model.describe_for_decoding() is None


def test_hooks_leave_no_description() -> None:
    model = transformer()
    handle = model.decoder.stack.blocks[0].register_forward_hook(lambda *_: None)
    assert model.describe_for_decoding() is None
    handle.remove()
    assert model.describe_for_decoding() is not None


def test_a_subclass_of_a_cell_has_no_description() -> None:
    class Own(LSTMCell):
        """Computes what it likes."""

    model: Any = build_model(RecurrentConfig(embedding=8, width=6), 20, 20).eval()
    model.decoder.layers[0].__class__ = Own
    with pytest.raises(Undescribed, match="cell=Own"):
        describe_recurrent(model)


def test_layers_by_direction() -> None:
    stack = describe_layers(LSTM(3, 5, num_layers=2, bidirectional=True, peephole="diagonal", connections="residual"))
    assert [[len(layer), layer[0].width] for layer in stack.layers] == [[2, 5], [2, 5]]
    assert stack.layers[0][1].peephole.shape == torch.Size([15]) and stack.connections.kind == "residual"
