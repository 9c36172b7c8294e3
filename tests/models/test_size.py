"""Counting by arithmetic agrees with counting what was built."""

from itertools import product

import pytest

from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.models.size import size_of


def built(config: TransformerConfig | RecurrentConfig, source_size: int, target_size: int) -> int:
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
