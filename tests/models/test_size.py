"""Counting by arithmetic agrees with counting what was built."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from harken.models.build import build_model
from harken.models.config import Architecture, ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from harken.models.size import size_of


def built(config: Architecture, source_size: int, target_size: int) -> int:
    return sum(parameter.numel() for parameter in build_model(config, source_size, target_size).parameters())


@pytest.mark.parametrize(("norm", "tied"), [*product(["pre", "post"], ["all", "output", "none"])])
def test_transformer(norm: str, tied: str) -> None:
    config = TransformerConfig(layers=2, decoder_layers=3, width=16, heads=2, feedforward=40, norm=norm, tied=tied)
    target_size = 50 if tied == "all" else 60
    assert size_of(config, 50, target_size).total == built(config, 50, target_size)


@pytest.mark.parametrize(
    ("cell", "attention", "tied"),
    [*product(["lstm", "gru"], ["none", "dot", "multiplicative", "additive"], ["all", "output", "none"])],
)
def test_recurrent(cell: str, attention: str, tied: str) -> None:
    target_size = 50 if tied == "all" else 60
    for layers, bidirectional, input_feeding, embedding in product([1, 2], [True, False], [True, False], [16, 24]):
        config = RecurrentConfig(
            cell=cell,
            attention=attention,
            layers=layers,
            bidirectional=bidirectional,
            input_feeding=input_feeding,
            embedding=embedding,
            width=24,
            tied=tied,
        )
        assert size_of(config, 50, target_size).total == built(config, 50, target_size)


@pytest.mark.parametrize("positions", ["learned", "relative", "rotary", "alibi", "none"])
def test_transformer_by_other_words(positions: str) -> None:
    for activation, attention in (
        ("relu", "dot"),
        ("gelu", "cosine"),
        ("swiglu", "multiplicative"),
        ("relu", "additive"),
    ):
        if (positions, attention) == ("rotary", "additive"):
            continue
        words = {"positions": positions, "activation": activation, "attention": attention}
        config = TransformerConfig(
            layers=2, decoder_layers=3, width=16, heads=2, feedforward=40, max_length=30, max_distance=5, **words
        )
        assert size_of(config, 50, 50).total == built(config, 50, 50)


@pytest.mark.parametrize("attend", ["after", "before"])
def test_recurrent_by_other_words(attend: str) -> None:
    for attention, coverage in (("scaled", False), ("cosine", False), ("additive", True), ("additive", False)):
        for input_feeding in (True, False):
            words = {"attention": attention, "coverage": coverage, "input_feeding": input_feeding, "attend": attend}
            config = RecurrentConfig(embedding=16, width=24, **words)
            assert size_of(config, 50, 50).total == built(config, 50, 50)


@pytest.mark.parametrize("tied", ["all", "output", "none"])
@pytest.mark.parametrize(
    "words",
    [
        {"style": "convs2s"},
        {"style": "convs2s", "positions": "sinusoidal", "kernel": 5, "encoder_layers": 1},
        {"style": "bytenet", "width": 13},
        {"style": "bytenet", "positions": "none", "attention": "dot", "decoder_layers": 3},
    ],
)
def test_convolutional(words: dict[str, Any], tied: str) -> None:
    config = ConvolutionalConfig(**{"layers": 2, "embedding": 16, "width": 24, "max_length": 30, "tied": tied} | words)
    target_size = 50 if tied == "all" else 60
    assert size_of(config, 50, target_size).total == built(config, 50, target_size)


def test_swiglu_costs_a_third_map() -> None:
    plain, gated = (
        size_of(TransformerConfig(layers=1, width=4, heads=2, feedforward=8, activation=kind), 10, 10)
        for kind in ("relu", "swiglu")
    )
    assert gated.flops_per_target_token - plain.flops_per_target_token == 6 * 2 * 4 * 8


def test_a_target_token_costs_six_operations_for_each_matrix_entry_it_meets() -> None:
    config = TransformerConfig(layers=1, width=4, heads=2, feedforward=8, tied="output")
    encoder = 4 * 16 + 2 * 32  # attention and feed-forward
    decoder = 8 * 16 + 2 * 32 + 10 * 4  # two attentions, feed-forward, output layer
    assert size_of(config, 10, 10).flops_per_target_token == 6 * (encoder + decoder)


def test_memory_counts_every_copy_of_the_weights_and_grows_with_the_batch() -> None:
    size = size_of(TransformerConfig(width=16, heads=2), 100, 100)
    assert size.training_bytes(0, averaged=False) == 4 * 4 * size.total
    assert size.training_bytes(0, averaged=True) == 5 * 4 * size.total
    assert size.training_bytes(20) - size.training_bytes(10) == 4 * 10 * size.activations


CELLS = st.one_of(
    st.fixed_dictionaries({"cell": st.just("rnn"), "nonlinearity": st.sampled_from(["tanh", "relu", "sigmoid"])}),
    st.fixed_dictionaries({"peephole": st.sampled_from(["none", "diagonal", "full"]), "coupled": st.booleans()}),
    st.fixed_dictionaries({"cell": st.just("gru"), "reset": st.sampled_from(["after", "before"])}),
)
LOOKING = st.one_of(
    st.fixed_dictionaries({"attention": st.just("none"), "context": st.sampled_from(["initial", "constant"])}),
    st.fixed_dictionaries(
        {
            "attention": st.sampled_from(["dot", "scaled", "multiplicative", "additive", "cosine"]),
            "attend": st.just("before"),
            "context_to": st.sampled_from(["first", "all"]),
            "look_from": st.sampled_from(["top", "bottom"]),
        }
    ),
    st.fixed_dictionaries({"coverage": st.booleans(), "input_feeding": st.booleans()}),
)
WIRING = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"connections": st.sampled_from(["residual", "highway", "dense"]), "connections_from": st.integers(2, 4)}
    ),
)
RECURRENT = st.builds(
    lambda cell, looking, wiring, rest: {"architecture": "recurrent", **cell, **looking, **wiring, **rest},
    CELLS,
    LOOKING,
    WIRING,
    st.fixed_dictionaries(
        {
            "layers": st.integers(1, 4),
            "embedding": st.sampled_from([4, 6]),
            "width": st.sampled_from([4, 10]),
            "layer_norm": st.booleans(),
        }
    ),
)
TRANSFORMER = st.fixed_dictionaries(
    {
        "architecture": st.just("transformer"),
        "layers": st.integers(1, 3),
        "width": st.sampled_from([4, 8]),
        "heads": st.sampled_from([1, 2]),
        "feedforward": st.integers(1, 9),
        "norm": st.sampled_from(["pre", "post"]),
        "activation": st.sampled_from(["relu", "gelu", "swiglu"]),
        "attention": st.sampled_from(["scaled", "dot", "cosine", "multiplicative", "additive"]),
        "positions": st.sampled_from(["sinusoidal", "learned", "relative", "alibi", "none"]),
        "max_length": st.integers(32, 40),
        "max_distance": st.integers(1, 5),
        "experts": st.sampled_from([0, 2, 5]),
        "experts_active": st.integers(1, 2),
    }
)
CONVOLUTIONAL = st.fixed_dictionaries(
    {
        "architecture": st.just("convolutional"),
        "style": st.sampled_from(["convs2s", "bytenet"]),
        "layers": st.integers(1, 3),
        "embedding": st.sampled_from([4, 6]),
        "width": st.integers(2, 9),
        "kernel": st.sampled_from([1, 3, 5]),
        "positions": st.sampled_from(["learned", "sinusoidal", "none"]),
    }
)
SIDE = st.one_of(RECURRENT, TRANSFORMER, CONVOLUTIONAL)


@settings(max_examples=150, deadline=None)
@given(SIDE, st.none() | SIDE, st.sampled_from(["output", "none"]), st.sampled_from([True, False, "first"]))
def test_any_words_of_any_two_sides(encoder: dict, decoder: dict | None, tied: str, both: bool | str) -> None:
    ways = {"bidirectional": both} if encoder["architecture"] == "recurrent" else {}
    config = TypeAdapter(ModelConfig).validate_python({**encoder, **ways, "tied": tied, "decoder": decoder})
    assert size_of(config, 11, 13).total == built(config, 11, 13)


@settings(max_examples=40, deadline=None)
@given(TRANSFORMER, st.sampled_from(["all", "output", "none"]))
def test_any_words_of_one_stack(words: dict, tied: str) -> None:
    config = TypeAdapter(ModelConfig).validate_python({**words, "architecture": "decoder-only", "tied": tied})
    assert size_of(config, 11, 11).total == built(config, 11, 11)


def test_a_token_meets_the_active_experts_and_the_gate_alone() -> None:
    words = {"layers": 1, "width": 4, "heads": 2, "feedforward": 8}
    plain, mixed = (size_of(TransformerConfig(**words, experts=experts), 10, 10) for experts in (0, 5))
    more = 2 * 4 * 8 + 5 * 4  # a second expert, and the gate, on either side
    assert mixed.flops_per_target_token - plain.flops_per_target_token == 6 * 2 * more
    wider = size_of(TransformerConfig(**words, experts=9), 10, 10)
    assert wider.flops_per_target_token - mixed.flops_per_target_token == 6 * 2 * 4 * 4
