"""Parameters, FLOPs and activations of models, against counts by hand and against torch's own counter."""

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harken.models.build import build_language, build_model
from harken.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from harken.models.language.config import RecurrentLanguageConfig, TransformerLanguageConfig
from harken.models.sizing import Size, count_parameters, measure, uninitialised

TRANSFORMER = {"architecture": "transformer", "layers": 2, "width": 8, "heads": 2, "feedforward": 12}
RECURRENT = {"architecture": "recurrent", "embedding": 6, "width": 8}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "relative positions": {**TRANSFORMER, "positions": "relative"},
    "additive heads": {**TRANSFORMER, "attention": "additive", "positions": "alibi"},
    "experts": {**TRANSFORMER, "experts": 3},
    "decoder-only": {**TRANSFORMER, "architecture": "decoder-only"},
    "lstm": RECURRENT,
    "lstm, dot, before": {**RECURRENT, "attention": "dot", "attend": "before", "layers": 2},
    "gru with norms": {**RECURRENT, "cell": "gru", "layer_norm": True, "attention": "none"},
    "peepholes": {**RECURRENT, "peephole": "full", "coverage": True},
    "convs2s": {"architecture": "convolutional", "layers": 2, "embedding": 6, "width": 8},
    "bytenet": {"architecture": "convolutional", "style": "bytenet", "layers": 2, "embedding": 6, "width": 8},
}
every_model = pytest.mark.parametrize("table", MODELS.values(), ids=MODELS)


def size_of(table: dict[str, Any], vocabulary: int = 10, length: int = 24) -> Size:
    config = TypeAdapter(ModelConfig).validate_python(table)
    return measure(uninitialised(lambda: build_model(config, vocabulary, vocabulary)), length)


def torch_count(model: Any, length: int, backward: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """By `FlopCounterMode`, with kernels off that it does not see into."""
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            logits = model.dry_run(length)
            if backward:
                logits.sum().backward()
        return counter.get_total_flops()
    finally:
        torch._C._set_mkldnn_enabled(before)


@every_model
def test_flops_are_three_times_those_that_torch_counts_in_a_forward_pass(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_model(TypeAdapter(ModelConfig).validate_python(table), 10, 10)
    for length in (7, 40):  # counted, and extrapolated
        assert measure(model, length).flops * length == pytest.approx(
            3 * torch_count(model, length, False, monkeypatch), rel=1e-9
        )


@every_model
def test_a_backward_pass_has_twice_the_flops_of_a_forward_pass(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_model(TypeAdapter(ModelConfig).validate_python({**table, "dropout": 0.0}), 10, 10)
    both = torch_count(model, 12, True, monkeypatch)
    assert 0.9 < both / (12 * measure(model, 12).flops) <= 1.0  # inputs and first states need no gradient


@every_model
def test_parameters_are_those_of_the_model_and_nothing_is_drawn(table: dict[str, Any]) -> None:
    config = TypeAdapter(ModelConfig).validate_python(table)
    state = torch.random.get_rng_state()
    size = size_of(table)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert size.total == sum(parameter.numel() for parameter in build_model(config, 10, 10).parameters())


def test_a_language_model_is_charged_for_attention_over_its_chunk() -> None:
    """D = 256, F = 1024, L = 3, V = 8,000, T = 512: a Transformer's products, and T scores and T values per token."""
    model = uninitialised(lambda: build_language(TransformerLanguageConfig(), 8000))
    matrices = 3 * (4 * 256**2 + 2 * 256 * 1024) + 8000 * 256
    assert measure(model, 512).flops == pytest.approx(6 * matrices + 3 * 3 * 4 * 512 * 256)  # 31.2 million


def test_an_encoder_decoder_by_hand() -> None:
    """One block of width 4 each, 8 inside, 10 words, S = T = 5."""
    config = TransformerConfig(layers=1, width=4, heads=2, feedforward=8, positions="none")
    encoder = 4 * 16 + 2 * 32  # attention and feed-forward
    decoder = 8 * 16 + 2 * 32 + 10 * 4  # two attentions, feed-forward, output layer
    size = measure(build_model(config, 10, 10), 5)
    assert size.flops == 3 * (2 * (encoder + decoder) + 3 * 4 * 5 * 4)
    assert size.parameters == {"embeddings": 40, "encoder": 180, "decoder": 268}


def test_a_recurrent_language_model_costs_the_same_at_every_length() -> None:
    model = build_language(RecurrentLanguageConfig(embedding=6, width=8), 10)
    by_hand = 6 * (4 * 8 * (6 + 8) + 8 * 6 + 6 * 10)  # gates, the projection to the embedding, output
    assert measure(model, 9).flops == measure(model, 900).flops == pytest.approx(by_hand)


def test_a_recurrent_encoder_decoder_by_hand() -> None:
    """A bidirectional LSTM, additive attention with input feeding: E = 6, H = 8, V = 10, S = T = 5."""
    encoder = 2 * 4 * 4 * (6 + 4)
    decoder = 4 * 8 * (6 + 8 + 8) + 2 * 8 * 8 + 8 * 6 + 6 * 10  # gates, W_c, projection, output
    attention = 8 * 8 + 8 * 8 + 5 * (8 + 8)  # keys and query; energies and context over 5 words
    bridge = 2 * 8 * 8 / 5
    size = measure(build_model(RecurrentConfig(embedding=6, width=8), 10, 10), 5)
    assert size.flops == pytest.approx(6 * (encoder + decoder + attention + bridge))


def test_a_token_meets_the_active_experts_and_the_gate_alone() -> None:
    table = {**TRANSFORMER, "layers": 1, "width": 4, "feedforward": 8}
    plain, mixed, wider = (size_of({**table, "experts": experts}).flops for experts in (0, 5, 9))
    more = 2 * 4 * 8 + 5 * 4  # a second expert, and the gate, on either side
    assert mixed - plain == pytest.approx(6 * 2 * more)
    assert wider - mixed == pytest.approx(6 * 2 * 4 * 4)


def test_a_model_is_not_run_beyond_its_learned_positions() -> None:
    table = {"architecture": "convolutional", "layers": 1, "embedding": 6, "width": 8, "max_length": 16}
    plain = size_of({**table, "positions": "none"})
    assert size_of(table).flops == pytest.approx(plain.flops)


def test_swiglu_costs_a_third_map() -> None:
    table = {**TRANSFORMER, "layers": 1, "width": 4, "feedforward": 8}
    plain, gated = (size_of({**table, "activation": kind}).flops for kind in ("relu", "swiglu"))
    assert gated - plain == pytest.approx(6 * 2 * 4 * 8)


def test_shared_matrices_are_counted_once_and_belong_to_the_embeddings() -> None:
    sizes = {tied: size_of({**TRANSFORMER, "tied": tied}).parameters for tied in ("all", "output", "none")}
    assert [sizes[tied]["embeddings"] for tied in ("all", "output", "none")] == [80, 160, 160]
    assert "output" not in sizes["output"] and sizes["none"]["output"] == 80


def test_weights_of_an_uninitialised_model_are_not_drawn() -> None:
    drawn = uninitialised(lambda: build_model(RecurrentConfig(width=8, embedding=8), 10, 10))
    assert count_parameters(drawn) == count_parameters(build_model(RecurrentConfig(width=8, embedding=8), 10, 10))
    again = build_model(RecurrentConfig(width=8, embedding=8), 10, 10)
    assert 0.2 < again.source_embedding.weight.std() < 0.5  # initialisation is back


def test_measuring_leaves_the_model_and_torch_as_they_were() -> None:
    model = build_model(RecurrentConfig(width=8, embedding=8), 10, 10)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    settings = torch.get_num_threads(), torch._C._get_mkldnn_enabled(), torch.random.get_rng_state().tolist()
    measure(model)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert settings == (
        torch.get_num_threads(),
        torch._C._get_mkldnn_enabled(),
        torch.random.get_rng_state().tolist(),
    )
