"""ConvS2S and ByteNet: their equations, the two ways to read the source, and other decoders and encoders beside them.

A step equals the whole, padding changes nothing, and nothing is seen of the future: test_step_contract.py.
"""

import math
from typing import Any

import pytest
import torch

from harken.errors import UserError
from harken.models.build import build_model
from harken.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from harken.models.encoder_decoder import EncoderDecoder
from harken.nn.convolution.attention import keys_values

SOURCE = torch.tensor([[4, 5, 3, 0], [6, 7, 8, 3]])  # (B, S)
LENGTHS = torch.tensor([3, 4])
MASK = torch.tensor([[True, True, True, False], [True] * 4])
TARGET = torch.tensor([[2, 5, 6, 7, 4], [2, 8, 4, 5, 5]])  # (B, T), longer than the sources
HALF = math.sqrt(0.5)


def build(**options: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    model = build_model(ConvolutionalConfig(layers=2, embedding=6, width=8, max_length=16, **options), 9, 9)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model.double().eval()


def test_convs2s_is_its_equations() -> None:
    model = build()
    encoder, decoder = model.encoder, model.decoder
    words = model.source_embedding(SOURCE) + encoder.input.positions.embedding.weight[:4]
    states = encoder.widen(words)
    for block in encoder.blocks:
        signal, gate = block.convolution(states, MASK).chunk(2, -1)
        states = (states + signal * torch.sigmoid(gate)) * HALF
    memory = model.encode(SOURCE, LENGTHS)
    assert torch.allclose(memory.values, encoder.narrow(states))
    assert torch.allclose(memory.embedded, words)
    pairs = (memory.values, (memory.values + words) * HALF)
    written = model.target_embedding(TARGET) + decoder.input.positions.embedding.weight[:5]
    states, weights = decoder.widen(written), []
    for block in decoder.blocks:
        signal, gate = block.convolution(states).chunk(2, -1)
        inner = signal * torch.sigmoid(gate)
        found, shares = block.attention.with_weights(inner, written, pairs, MASK)
        weights.append(shares)
        states = (states + (inner + found) * HALF) * HALF
    assert torch.allclose(model(SOURCE, LENGTHS, TARGET), decoder.narrow(states))
    every = model.attention(SOURCE, LENGTHS, TARGET)
    assert torch.allclose(every, torch.stack(weights, 1)[:, :, None])
    assert torch.allclose(model.alignment(every), (weights[0] + weights[1]) / 2)
    assert torch.allclose(build(alignment_layer=1).alignment(every), weights[1])


def test_bytenet_is_its_equations() -> None:
    model = build(style="bytenet", positions="none")
    encoder, decoder = model.encoder, model.decoder
    states = encoder.widen(model.source_embedding(SOURCE) * math.sqrt(6))
    for block in encoder.blocks:
        states = block(states, MASK)
    memory = model.encode(SOURCE, LENGTHS)
    assert torch.allclose(memory.values, encoder.narrow(torch.relu(encoder.norm(states))))
    assert memory.embedded is None
    beside = torch.zeros(2, 5, 6, dtype=torch.float64)  # the source is over before the target
    beside[0, :3], beside[1, :4] = memory.values[0, :3], memory.values[1]
    states = decoder.widen(model.target_embedding(TARGET) * math.sqrt(6)) + decoder.read(beside)
    for block in decoder.blocks:
        states = block(states)
    assert torch.allclose(model(SOURCE, LENGTHS, TARGET), decoder.narrow(torch.relu(decoder.norm[0](states))))
    assert [block.convolution.dilation for block in decoder.blocks] == [1, 2]
    assert model.attention(SOURCE, LENGTHS, TARGET) is None


def test_unfolding_sees_a_window_of_the_source_and_attention_all_of_it() -> None:
    for attention in ("none", "dot"):
        model = build(style="bytenet", attention=attention, encoder_layers=1, decoder_layers=1)
        long = torch.randint(4, 9, (1, 12))
        rows = model.source_embedding(long).detach().requires_grad_()
        memory = model.encoder(rows, None)
        found = model.decoder(model.target_embedding(TARGET[:1]), memory)[:, 1]
        (gradient,) = torch.autograd.grad(found.sum(), rows)
        seen = (gradient[0] != 0).any(-1).tolist()
        assert seen == ([True] * 3 + [False] * 9 if attention == "none" else [True] * 12)


def test_all_layers_share_one_memory() -> None:
    model = build()
    state = model.start(SOURCE, LENGTHS)
    memory = model.encode(SOURCE, LENGTHS)
    for one, other in zip(state.memory, keys_values(memory.values, memory.embedded), strict=True):
        assert torch.equal(one, other)


def test_the_cache_does_not_grow() -> None:
    model = build(style="bytenet", kernel=5, decoder_layers=3)
    state = model.start(SOURCE, LENGTHS)
    for place in range(5):
        model.step(TARGET[:, place], state)
        assert [part.shape[1] for part in state.cache] == [4 * 1, 4 * 2, 4 * 4]


def test_too_long_for_learned_positions() -> None:
    model = build()
    with pytest.raises(UserError, match=r"17 tokens is too long: positions were learned for 16; .* model\.max_length"):
        model.encode(torch.full((1, 17), 4), None)
    with pytest.raises(UserError, match="17 tokens is too long"):
        model(SOURCE, LENGTHS, torch.full((2, 17), 4))
    state = model.start(SOURCE, LENGTHS)
    for _ in range(16):
        model.step(torch.tensor([4, 4]), state)
    with pytest.raises(UserError, match="17 tokens is too long"):
        model.step(torch.tensor([4, 4]), state)
    build(positions="sinusoidal").encode(torch.full((1, 17), 4), None)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("style", ["convs2s", "bytenet"])
def test_words_and_positions_start_about_equally_large(positions: str, style: str) -> None:
    torch.manual_seed(1)
    config = ConvolutionalConfig(style=style, embedding=64, width=8, positions=positions, dropout=0.0)
    model = build_model(config, 500, 500)
    words = model.source_embedding.weight[1:17][None]
    alone = words * model.encoder.input.scale
    places = model.encoder.input(words) - alone
    assert 0.5 < places.std() / alone.std() < 2


PARTS: dict[str, dict[str, Any]] = {
    "convs2s": {"architecture": "convolutional", "layers": 2, "embedding": 6, "width": 8},
    "bytenet": {"architecture": "convolutional", "style": "bytenet", "layers": 2, "embedding": 4, "width": 8},
    "transformer": {"architecture": "transformer", "layers": 1, "width": 12, "heads": 2, "feedforward": 8},
    "recurrent": {"architecture": "recurrent", "embedding": 6, "width": 10},
}
CONFIGS = {"convolutional": ConvolutionalConfig, "transformer": TransformerConfig, "recurrent": RecurrentConfig}


@pytest.mark.parametrize("writer", PARTS)
@pytest.mark.parametrize("reader", PARTS)
@torch.no_grad()
def test_any_reader_with_any_writer(reader: str, writer: str) -> None:
    torch.manual_seed(1)
    table = PARTS[reader]
    config = CONFIGS[table["architecture"]](**table, decoder=PARTS[writer], tied="output")
    model = build_model(config, 9, 9).double().eval()
    whole, state = model.logits(model(SOURCE, LENGTHS, TARGET)), model.start(SOURCE, LENGTHS)
    wider = torch.cat((SOURCE, torch.full((2, 2), 7)), 1)
    assert torch.allclose(model.logits(model(wider, LENGTHS, TARGET)), whole)
    for place in range(5):
        state.need_weights = True
        logits = model.step(TARGET[:, place], state)
        assert torch.allclose(logits, whole[:, place])
        assert (state.attention is None) == (writer == "bytenet")
